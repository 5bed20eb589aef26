/** Passes a run's call to the gate: the same for a driver, a worker that claims it, and a person who edits it. */
import type { BudgetStanding } from '../../core/budget.ts';
import { autonomyOf, type AgentDefinition } from '../../core/definition.ts';
import type { NewEvent } from '../../core/events.ts';
import { userOf } from '../../core/run-config.ts';
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
  /** Set for one of several calls of an answer, which share their time for validation. */
  validate?: GateInput['validate'] | undefined;
}

interface WantedCall {
  name: string;
  arguments: Record<string, unknown>;
  /** Calls made earlier in this turn. */
  callsInTurn: number;
  /** The call is in the ledger: that its turn may make it was checked on request. */
  isRequested?: boolean | undefined;
  /** Whether the agent has reached its binding's calls per minute of the tool. */
  isOverRate?: boolean | undefined;
  step: number;
  /** Events that brought untrusted content earlier in the turn; absent: none. */
  taintedBy?: readonly number[] | null | undefined;
}

/** A run's autonomy level: its own, else its agent's, else 2 (docs/design/decisions.md). */
function levelOf(run: Pick<RunRow, 'config'>, definition: AgentDefinition): number {
  return run.config.autonomy_level ?? autonomyOf(definition);
}

/** The gate's decision on a call by the current policies. */
export function gateCall(subject: GatedRun, wanted: WantedCall): GateDecision {
  return gate(gateInput(subject, wanted));
}

/** The gate's input for a call. */
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
    userId: userOf(run.config),
    ...call,
    taintedBy: taintedBy ?? [],
    usedUp,
    validate: validate ?? context.tools.validator.validateArguments,
  };
}

/**
 * Why a requested call may not be made now, even with approval; undefined if at most a person may object. If a policy
 * would now rewrite the arguments, they are not those requested or approved.
 */
export function obstacleTo(decision: GateDecision): string | undefined {
  if (decision.kind === 'invalid' || decision.kind === 'deny') return decision.message;
  const { rewritten } = decision;
  return rewritten && `The policy "${rewritten.policy.name}" would rewrite the arguments by now: ask again.`;
}

/**
 * The decision as events. A call that passed every stage without a rule has none: `tool.requested` says so, since most
 * calls are such, and an event and a row for each would add nothing.
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
  // An invalid intent gets no decision; rewritten arguments that are invalid do.
  invalid: undefined,
};
