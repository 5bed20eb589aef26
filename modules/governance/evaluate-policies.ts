/** Evaluates a call without making it: nothing is recorded or called. */
import { forbidden, notFound } from '../../core/errors.ts';
import type { PolicyRef, RuleDecision } from '../../core/policy.ts';
import { hasScope } from '../../core/scopes.ts';
import type { ToolDefinition } from '../../core/tool.ts';
import { findAgent } from '../../db/agents.ts';
import type { Tx } from '../../db/database.ts';
import { findRunRow } from '../../db/runs.ts';
import { parseArguments } from '../../llm/messages.ts';
import type { Context } from './context.ts';
import { gateCall, gateInput, type GatedRun } from './gate-call.ts';
import type { GateDecision } from './gate.ts';
import { matchRules } from './rules.ts';
import { ruleInput } from './stages/rules.ts';
import type { Caller } from '../../core/caller.ts';
import { findUsedUpBudget } from '../budgets/find-used-up-budget.ts';
import { pinTools } from '../tools-registry/pin-tools.ts';
import { resolveTools } from '../tools-registry/resolve-tools.ts';

interface TriedCall {
  /** The tool's id or name. */
  tool: string;
  arguments: Record<string, unknown>;
  /** The caller; without either, an agent that is bound to the tool with all its permissions. */
  agent_id?: string | undefined;
  run_id?: string | undefined;
  autonomy_level?: number | undefined;
  calls_in_turn?: number | undefined;
  tainted_by?: readonly number[] | undefined;
}

interface Evaluation {
  decision: RuleDecision;
  stage: string;
  policy: PolicyRef | null;
  reason: string;
  /** The arguments that the tool would get. */
  arguments: Record<string, unknown>;
  rewritten_by: PolicyRef | null;
  four_eyes: boolean;
  /** All policies that match the given call, in order. */
  matching: { policy: PolicyRef; decision: RuleDecision; error?: string }[];
}

/** Evaluates a call. Throws 403 for an agent or a run that the caller may not read, 404 for an unknown tool, agent or run. */
export async function evaluatePolicies(
  context: Pick<Context, 'db' | 'governance' | 'definitions' | 'tools'>,
  caller: Caller,
  tried: TriedCall,
): Promise<Evaluation> {
  checkMayRead(caller, tried);
  return context.db.withTenant(caller.tenantId, async (tx) => {
    const governance = await context.governance.current(tx, caller.tenantId);
    const [tool] = await resolveTools(tx, [tried.tool]);
    if (!tool) throw notFound(`The tool "${tried.tool}"`);
    const subject = { ...(await subjectOf(context, tx, { caller, tried, tool })), governance, context };
    const call = {
      name: tool.name,
      arguments: tried.arguments,
      callsInTurn: tried.calls_in_turn ?? 0,
      step: subject.run.steps + 1,
      taintedBy: tried.tainted_by,
    };
    const seen = ruleInput({ ...gateInput(subject, call), tool, rewritten: undefined });
    const matching = matchRules(governance.rules, seen).map(({ rule, error }) => ({
      policy: { id: rule.id, name: rule.name, version: rule.version },
      decision: rule.definition.decision,
      ...(error !== undefined && { error }),
    }));
    // As they would come from a model: of its integers, the gate refuses those beyond 2^53.
    const given = { ...call, arguments: parseArguments(JSON.stringify(tried.arguments)) };
    return { ...present(gateCall(subject, given)), matching };
  });
}

/** What the gate says of a call tells of the agent or the run whose call it is: that there is one, its tools and its rails. */
function checkMayRead({ scopes }: Caller, { agent_id: agent, run_id: run }: TriedCall): void {
  if (run !== undefined && !hasScope(scopes, 'runs:read')) throw forbidden('`run_id` needs the scope "runs:read".');
  if (agent !== undefined && !hasScope(scopes, 'agents:read'))
    throw forbidden('`agent_id` needs the scope "agents:read".');
}

type Subject = Omit<GatedRun, 'governance' | 'context'> & { run: { steps: number } };

async function subjectOf(
  { definitions }: Pick<Context, 'definitions'>,
  tx: Tx,
  { caller, tried, tool }: { caller: Caller; tried: TriedCall; tool: ToolDefinition },
): Promise<Subject> {
  const level = tried.autonomy_level === undefined ? {} : { autonomy_level: tried.autonomy_level };
  if (tried.run_id !== undefined) {
    const run = await findRunRow(tx, tried.run_id);
    if (!run || run.workspace_id !== caller.workspaceId) throw notFound('The run');
    const pins = { agentId: run.agent_id, agentVersion: run.agent_version, tools: run.pinned.tools };
    const pinned = await definitions.loadIn(tx, { tenantId: caller.tenantId, ...pins });
    const usedUp = await findUsedUpBudget(tx, run);
    return { ...pinned, usedUp, run: { ...run, config: { ...run.config, ...level } } };
  }
  const ofAny = { tenant_id: caller.tenantId, workspace_id: caller.workspaceId };
  const run = { ...NO_RUN, workspace_id: caller.workspaceId, config: level };
  if (tried.agent_id === undefined) {
    const permissions = tool.permissions.map(({ name }) => name);
    const usedUp = await findUsedUpBudget(tx, { ...ofAny, agent_id: null });
    return { definition: { name: '', permissions }, tools: new Map([[tool.name, tool]]), run, usedUp };
  }
  const agent = await findAgent(tx, tried.agent_id, caller.workspaceId);
  if (!agent) throw notFound('The agent');
  const { definition } = agent;
  const ids = (await pinTools(tx, definition)).map(({ id }) => id);
  const tools = (await resolveTools(tx, ids)).filter((found) => found !== undefined);
  return {
    definition,
    tools: new Map(tools.map((found) => [found.name, found])),
    run: { ...run, agent_id: agent.id, agent_version: agent.current_version },
    usedUp: await findUsedUpBudget(tx, { ...ofAny, agent_id: agent.id }),
  };
}

const NO_RUN = { id: '', agent_id: '', agent_version: '', thread_id: '', turn_count: 1, steps: 0 };

function present(decision: GateDecision): Omit<Evaluation, 'matching'> {
  const { by, rewritten } = decision;
  return {
    decision: decision.kind === 'allow' && rewritten ? 'rewrite' : DECISIONS[decision.kind],
    stage: by.stage,
    policy: by.policy ?? (decision.kind === 'allow' ? rewritten?.policy : undefined) ?? null,
    reason: decision.message || (rewritten?.message ?? ''),
    arguments: decision.arguments,
    rewritten_by: rewritten?.policy ?? null,
    four_eyes: decision.kind === 'ask' && decision.fourEyes,
  };
}

const DECISIONS: Record<GateDecision['kind'], RuleDecision> = {
  allow: 'allow',
  ask: 'require_approval',
  deny: 'block',
  invalid: 'block',
};
