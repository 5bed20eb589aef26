/**
 * The built-in tools `handoff` and `reject_handoff`: an agent passes its work to another one, or declines what was
 * passed to it.
 */
import { DroverError } from '../../core/errors.ts';
import type { HandoffContext } from '../../core/handoff.ts';
import { matchAgents } from '../../core/matching.ts';
import type { ToolAttempt, ToolOutcome } from '../../core/tool.ts';
import { findAgent, findAgentIds, type AgentRow } from '../../db/agents.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import {
  changeHandoff,
  findHandoffFrom,
  findHandoffOfCall,
  lockHandoffTo,
  type HandoffRow,
} from '../../db/handoffs.ts';
import { findRequester } from '../../db/requesters.ts';
import { findRunRow } from '../../db/runs.ts';
import { findTask } from '../../db/tasks.ts';
import { findToolCall } from '../../db/tool-calls.ts';
import { listWorkers } from '../../db/workers.ts';
import type { DomainArguments } from '../../tools/builtin/builtin-type.ts';
import { namesOf, toCandidate } from '../agents/discover-agents.ts';
import { HASTY, learnSkills, readSimilarSkills } from '../agents/similar-skills.ts';
import { recordAudit } from '../audit/record-audit.ts';
import type { Context } from '../governance/context.ts';
import { announceAppended, appendIn, type AppendedChange } from '../run-log/append-to-run.ts';
import { initiated } from './create-handoff.ts';
import { summarizeHistory } from './handoffs/summarize-history.ts';
import { handoffTokens, writeHandoff } from './handoffs/write-handoff.ts';

type Wish = DomainArguments['handoff'];

type Outcome = Extract<ToolOutcome, { kind: 'succeeded' | 'error' }>;

/**
 * `{to_agent | capabilities, reason, …} → {handoff_id, to_agent, status}`. Once the source's run has ended its turn,
 * the target goes on with the task, if the source works on one, else with the conversation. A repeated call finds its
 * earlier handoff.
 */
export async function handOver(context: Context, attempt: ToolAttempt<Wish>): Promise<ToolOutcome> {
  const wish = attempt.arguments;
  const asking = { tenantId: attempt.tenantId, runId: attempt.runId || undefined };
  if (wish.capabilities) await learnSkills(context, { ...asking, names: wish.capabilities }, HASTY);
  const told = await tell(context, attempt);
  return inRun(context, attempt, async (tx, run) => {
    const made = await findHandoffOfCall(tx, attempt.toolCallId);
    if (made) return { outcome: answer(made) };
    const task = run.parent_task_id === null ? undefined : await findTask(tx, run.parent_task_id);
    if (run.parent_run_id !== null && (task?.run_id !== run.id || task.workflow_id === null)) {
      return { outcome: refused('not-yours', 'You work for the agent that has called you: answer it.') };
    }
    if (await findHandoffFrom(tx, run.id)) {
      return { outcome: refused('handed-over', 'You have handed over already: end your turn.') };
    }
    const target = await findTarget(context, tx, { run, wish });
    if (!target)
      return { outcome: refused('no-agent', 'No agent that takes work now is called so, or can do all of this.') };
    const row = await writeHandoff(tx, {
      tenantId: attempt.tenantId,
      workspaceId: run.workspace_id,
      source: { agentId: run.agent_id, runId: run.id },
      target,
      task,
      carriedBy: task ? 'workflow' : 'thread',
      context: contextOf(wish, task?.description),
      reason: wish.reason,
      urgency: wish.urgency ?? 'medium',
      expectedAction: wish.expected_action ?? null,
      toolCallId: attempt.toolCallId,
      told,
      requestedBy: await findRequester(tx, run.id),
    });
    const details = { source_agent_id: run.agent_id, target_agent_id: target.id, run_id: run.id };
    const by = { tenantId: attempt.tenantId };
    await recordAudit(tx, by, {
      action: 'handoff.initiated',
      target: ['handoff', row.id],
      digest: row.checksum,
      details,
    });
    return { outcome: answer(row), change: { events: [initiated(row, run.open_turn_id)] } };
  });
}

/**
 * Has a model summarize the conversation before the run is locked; not for a repeated call, or if the thread itself
 * goes to the target.
 */
async function tell(context: Context, attempt: ToolAttempt<Wish>): Promise<string | undefined> {
  const { tenantId, runId, toolCallId, signal, arguments: wish } = attempt;
  if (runId === '') return undefined;
  const handing = await context.db.withTenant(tenantId, async (tx) => {
    const run = await findRunRow(tx, runId);
    if (!run || run.parent_task_id === null || (await findHandoffOfCall(tx, toolCallId))) return undefined;
    const task = await findTask(tx, run.parent_task_id);
    const source = await findAgent(tx, run.agent_id);
    const target = await findTarget(context, tx, { run, wish });
    if (!source || !target) return undefined;
    const targetTokens = handoffTokens(target, undefined);
    return { tenantId, source, runId, context: contextOf(wish, task?.description), targetTokens };
  });
  return handing && summarizeHistory(context, handing, signal);
}

/** `{reason} → {handoff_id, status}`: once the run has ended its turn, the work goes back to its source. */
export async function rejectHandoff(
  context: Context,
  attempt: ToolAttempt<DomainArguments['reject_handoff']>,
): Promise<ToolOutcome> {
  const { reason } = attempt.arguments;
  return inRun(context, attempt, async (tx, run) => {
    const row = await lockHandoffTo(tx, run.id);
    if (!row) return { outcome: refused('no-handoff', 'Nothing was handed over to you in this run.') };
    if (row.status === 'rejected') return { outcome: rejected(row) };
    const error = { code: 'rejected', message: reason };
    await changeHandoff(tx, row.id, { to: 'rejected', rejection: error, isReturning: row.carried_by !== 'run' });
    const target = ['handoff', row.id] as const;
    await recordAudit(
      tx,
      { tenantId: attempt.tenantId },
      { action: 'handoff.rejected', target, details: { run_id: run.id } },
    );
    const payload = { handoff_id: row.id, ...(row.task_id !== null && { task_id: row.task_id }), error };
    const turn_id = run.open_turn_id ?? undefined;
    return {
      outcome: rejected(row),
      change: { events: [{ type: 'handoff.rejected', actor: 'agent', turn_id, payload }] },
    };
  });
}

interface Done {
  outcome: Outcome;
  change?: AppendedChange;
}

type Attempt = Pick<ToolAttempt, 'tenantId' | 'runId' | 'toolCallId' | 'attempt'>;

/**
 * Acts under the lock of the run, so that outcome and event are one, and only while its turn waits for this attempt: a
 * late one changes nothing. Mistakes of the agent are returned, not thrown.
 */
async function inRun(
  context: Context,
  attempt: Attempt,
  act: (tx: Tx, run: RunRow) => Promise<Done>,
): Promise<ToolOutcome> {
  const { tenantId, runId } = attempt;
  if (runId === '') return refused('no-run', 'Work is handed over within a run alone.');
  try {
    const done = await context.db.withTenant(tenantId, async (tx) => {
      let outcome: Outcome | undefined;
      const appended = await appendIn(tx, { tenantId, runId }, async (run) => {
        if (!(await isWaitedFor(tx, run, attempt))) return null;
        const { change, ...rest } = await act(tx, run);
        ({ outcome } = rest);
        return change ?? null;
      });
      return { outcome, appended };
    });
    if (done.appended) announceAppended(context, { ...done.appended, runId });
    return done.outcome ?? refused('turn-ended', 'The turn has ended: nothing has changed hands.');
  } catch (error) {
    if (error instanceof DroverError) return refused(error.code, error.message);
    throw error;
  }
}

/** Whether the turn still waits for this attempt: it has not ended, and the call was not made again. */
async function isWaitedFor(tx: Tx, { open_turn_id }: RunRow, { toolCallId, attempt }: Attempt): Promise<boolean> {
  const call = await findToolCall(tx, toolCallId);
  return call?.status === 'running' && call.attempt === attempt && call.turn_id === open_turn_id;
}

async function findTarget(
  context: Context,
  tx: Tx,
  { run, wish }: { run: RunRow; wish: Wish },
): Promise<AgentRow | undefined> {
  const { workspace_id: workspaceId, agent_id: own } = run;
  if (wish.to_agent !== undefined) {
    const id = (await findAgentIds(tx, workspaceId, [wish.to_agent])).get(wish.to_agent);
    return id === undefined ? undefined : findAgent(tx, id, workspaceId);
  }
  const skills = wish.capabilities ?? [];
  if (skills.length === 0) return undefined;
  const similar = await readSimilarSkills(context, tx, skills);
  const workers = await listWorkers(tx, { workspaceId, skills: namesOf(skills, similar) });
  const [best] = matchAgents(
    { required_capabilities: skills, excluded_agents: [own] },
    workers.map(toCandidate),
    similar,
  );
  return best && findAgent(tx, best.id, workspaceId);
}

function contextOf(wish: Wish, description: string | undefined): HandoffContext {
  const { key_findings, decisions: decisions_made, uncertainties, recommendations, progress: current_progress } = wish;
  const reasoning_context = given({ key_findings, uncertainties, recommendations });
  const execution_context = given({ decisions_made, current_progress });
  const task_context = given({ task_description: description });
  return given({
    task_context: task_context.task_description === undefined ? undefined : task_context,
    execution_context: Object.keys(execution_context).length > 0 ? execution_context : undefined,
    reasoning_context: Object.keys(reasoning_context).length > 0 ? reasoning_context : undefined,
  });
}

/** Drops undefined fields. */
function given<T extends Record<string, unknown>>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]?: Exclude<T[K], undefined> };
}

function answer({ id, target_agent_id, status }: HandoffRow): Outcome {
  const output = { handoff_id: id, to_agent: target_agent_id, status, note: 'Handed over. End your turn now.' };
  return { kind: 'succeeded', output };
}

function rejected({ id }: HandoffRow): Outcome {
  return {
    kind: 'succeeded',
    output: { handoff_id: id, status: 'rejected', note: 'It goes back. End your turn now.' },
  };
}

function refused(code: string, message: string): Outcome {
  return { kind: 'error', code, message };
}
