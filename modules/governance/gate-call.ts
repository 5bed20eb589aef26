/** A call of a run before the gate: the same for a driver, for a worker that claims it, and for a person who edits it. */
import type { BudgetStanding } from '../../core/budget.ts';
import { autonomyOf, type AgentDefinition } from '../../core/definition.ts';
import type { NewEvent } from '../../core/events.ts';
import type { ToolDefinition } from '../../core/tool.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Context } from './context.ts';
import { gate, type GateDecision } from './gate.ts';
import type { GateInput } from './stages/stage.ts';
import type { Governance } from './governance.ts';

export interface GatedRun {
  context: Pick<Context, 'tools'>;
  run: Pick<RunRow, 'id' | 'agent_id' | 'agent_version' | 'thread_id' | 'workspace_id' | 'turn_count' | 'config'>;
  definition: AgentDefinition;
  tools: ReadonlyMap<string, ToolDefinition>;
  governance: Governance;
  usedUp: BudgetStanding | undefined;
  /** For one of several calls of an answer: what they are checked by together. */
  validate?: GateInput['validate'] | undefined;
}

interface WantedCall {
  name: string;
  arguments: Record<string, unknown>;
  /** Calls of this turn before this one. */
  callsInTurn: number;
  /** The agent has made all the calls of the tool that its binding permits in a minute. */
  isOverRate?: boolean | undefined;
  step: number;
  /** The events of the turn that brought untrusted content before; none where this is absent. */
  taintedBy?: readonly number[] | null | undefined;
}

/** The level of a run: its own, else its agent's, else 2 (docs/design/decisions.md). */
function levelOf(run: Pick<RunRow, 'config'>, definition: AgentDefinition): number {
  return run.config.autonomy_level ?? autonomyOf(definition);
}

/** What the gate decides about a call by the current policies. */
export function gateCall(subject: GatedRun, wanted: WantedCall): GateDecision {
  return gate(gateInput(subject, wanted));
}

/** What the gate gets to see. */
export function gateInput(subject: GatedRun, wanted: WantedCall): GateInput {
  const { context, run, definition, tools, governance, usedUp, validate } = subject;
  const { step, taintedBy, ...call } = wanted;
  return {
    governance,
    definition,
    autonomyLevel: levelOf(run, definition),
    tools,
    agent: {
      id: run.agent_id,
      name: definition.name,
      version: run.agent_version,
      tags: definition.tags ?? [],
      metadata: definition.metadata ?? {},
    },
    run: {
      id: run.id,
      thread_id: run.thread_id,
      workspace_id: run.workspace_id,
      turn: run.turn_count,
      step,
    },
    userId: run.config.session?.user_id ?? '',
    ...call,
    taintedBy: taintedBy ?? [],
    usedUp,
    validate: validate ?? context.tools.validator.validateArguments,
  };
}

/**
 * Why a call that was requested may not be made now, whatever a person has said; undefined if nothing but a person
 * may stand in its way. Arguments that a policy would rewrite by now are not those that were asked for or approved.
 */
export function obstacleTo(decision: GateDecision): string | undefined {
  if (decision.kind === 'invalid' || decision.kind === 'deny') return decision.message;
  const { rewritten } = decision;
  return rewritten && `The policy "${rewritten.policy.name}" would rewrite the arguments by now: ask again.`;
}

/**
 * The decision as events. A call that passed every stage without a rule has none of its own: `tool.requested` says so,
 * since most calls are such, and an event and a row for each would say nothing more.
 */
export function decisionEvents(
  decision: GateDecision,
  about: { callId: string; turnId: string | undefined; step: number | undefined },
): NewEvent[] {
  const event = (decided: Pick<DecidedPayload, 'decision' | 'stage' | 'policy' | 'reason'>): NewEvent => ({
    type: 'policy.decided',
    actor: 'system',
    turn_id: about.turnId,
    step: about.step,
    payload: { tool_call_id: about.callId, ...decided },
  });
  const { by, rewritten } = decision;
  const events: NewEvent[] = [];
  if (rewritten) {
    events.push(event({ decision: 'rewrite', stage: 'rules', policy: rewritten.policy, reason: rewritten.message }));
  }
  const kind = DECISIONS[decision.kind];
  const isPlain = kind === undefined || (kind === 'allow' && !by.policy);
  if (!isPlain) events.push(event({ decision: kind, stage: by.stage, policy: by.policy, reason: decision.message }));
  return events;
}

type DecidedPayload = Extract<NewEvent, { type: 'policy.decided' }>['payload'];

const DECISIONS: Record<GateDecision['kind'], DecidedPayload['decision'] | undefined> = {
  allow: 'allow',
  ask: 'require_approval',
  deny: 'block',
  // An intent that is not valid never came to a decision; rewritten arguments that are not valid did.
  invalid: undefined,
};
