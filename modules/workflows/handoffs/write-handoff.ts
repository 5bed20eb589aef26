/** Writes handoffs: checks who may hand over to whom, and composes what the target is given. */
import { conflict, impossible, tooLarge } from '../../../core/errors.ts';
import { canonicalJson } from '../../../core/canonical-json.ts';
import { checksumOf, HANDOFF_SCHEMA, loopFault, type HandoffContext, type Urgency } from '../../../core/handoff.ts';
import { summarizeHandoff, type HandoffFragment } from '../../../core/handoff-summary.ts';
import { LIMITS } from '../../../core/limits.ts';
import type { AgentRow } from '../../../db/agents.ts';
import { listWorkers } from '../../../db/workers.ts';
import type { Tx } from '../../../db/database.ts';
import {
  chainBefore,
  findHandoff,
  insertHandoff,
  listTaskHandoffs,
  type HandoffCarrier,
  type HandoffRow,
} from '../../../db/handoffs.ts';
import { noteAccesses } from '../../../db/memory-fragments.ts';
import { estimateTokens } from '../../../llm/estimate-tokens.ts';
import { newId } from '../../../lib/new-id.ts';
import { whyNotTaken } from '../../agents/why-not-taken.ts';
import { sharedWith } from '../../memory/shared-with.ts';
import { conversationOf } from './summarize-history.ts';

export interface HandoffWish {
  tenantId: string;
  workspaceId: string;
  source: { agentId: string; runId: string | null };
  target: AgentRow;
  task?: { id: string; workflow_id: string | null } | undefined;
  carriedBy: HandoffCarrier;
  context: HandoffContext;
  reason: string;
  urgency: Urgency;
  expectedAction: string | null;
  targetTokens?: number | undefined;
  toolCallId?: string | undefined;
  /** A model's summary of the conversation. */
  told?: string | undefined;
  requestedBy: string | null;
}

/** Expected pickup time of a full agent without a known latency. */
const BUSY_MS = 5000;
const FREE_MS = 1000;
/** Of fragments that the source names: they are about the task. */
const NAMED_RELEVANCE = 1;

/**
 * Stores a handoff. Throws 409 if the target takes no work or the chain may not go on; 413 for too large a context, 422
 * for a handoff to oneself.
 */
export async function writeHandoff(tx: Tx, wish: HandoffWish): Promise<HandoffRow> {
  const { source, target, task, context } = wish;
  mustTake(target);
  if (Buffer.byteLength(canonicalJson(context)) > LIMITS.handoffBytes) {
    throw tooLarge(`The context is larger than ${LIMITS.handoffBytes} bytes.`);
  }
  const checksum = checksumOf(context);
  const chain = source.runId === null ? [] : await chainBefore(tx, source.runId, LIMITS.handoffChain);
  const link = { source_agent_id: source.agentId, target_agent_id: target.id, checksum };
  // Each handoff of an ended task begins a chain, since its source's run is the same.
  const earlier = task && wish.carriedBy === 'run' ? await listTaskHandoffs(tx, task.id, LIMITS.handoffChain) : chain;
  const fault = loopFault(earlier, link, LIMITS.handoffChain);
  if (fault && source.agentId === target.id) {
    throw impossible(fault, [{ path: 'body.target_agent_id', message: 'is the source' }]);
  }
  if (fault) throw conflict(fault, { chain: earlier.map(({ id }) => id) });
  const limit = handoffTokens(target, wish.targetTokens);
  const { content, tokens, fullTokens } = await summaryOf(tx, wish, limit);
  const id = newId();
  await insertHandoff(tx, {
    id,
    tenant_id: wish.tenantId,
    workspace_id: wish.workspaceId,
    task_id: task?.id ?? null,
    workflow_id: wish.carriedBy === 'workflow' ? (task?.workflow_id ?? null) : null,
    ...link,
    source_run_id: source.runId,
    tool_call_id: wish.toolCallId ?? null,
    previous_id: chain.at(-1)?.id ?? null,
    place: chain.length + 1,
    carried_by: wish.carriedBy,
    reason: wish.reason,
    urgency: wish.urgency,
    expected_action: wish.expectedAction,
    context,
    schema_version: HANDOFF_SCHEMA,
    target_tokens: limit,
    summary: content,
    summary_tokens: tokens,
    full_tokens: fullTokens,
    requested_by: wish.requestedBy,
    pickup_ms: await pickupMs(tx, target),
  });
  const row = await findHandoff(tx, id);
  if (!row) throw new Error('An inserted handoff did not come back.');
  return row;
}

/** Throws 409 for an agent that cannot be given work now. */
export function mustTake(agent: AgentRow): void {
  const why = whyNotTaken(agent);
  if (why !== undefined) throw conflict(why);
}

async function summaryOf(tx: Tx, wish: HandoffWish, targetTokens: number) {
  const { source, context } = wish;
  // A target that takes over the thread reads the conversation there.
  const history = wish.carriedBy === 'thread' ? [] : await conversationOf(tx, source.runId);
  const ids = context.memory_references?.shared_fragments ?? [];
  const known = ids.length === 0 ? [] : await readGiven(tx, wish, ids);
  const fragments = known.map(({ id, content, created_at, uses }): HandoffFragment => ({
    id,
    content,
    createdMs: created_at.getTime(),
    accessCount: uses,
    relevance: NAMED_RELEVANCE,
  }));
  const limits = { targetTokens, nowMs: Date.now(), countTokens: estimateTokens };
  return summarizeHandoff({ context, history, fragments, told: wish.told }, limits);
}

/** The fragments that the target may see; recorded with the run, so that forgetting finds the handoff. */
async function readGiven(tx: Tx, wish: HandoffWish, ids: readonly string[]) {
  const { tenantId, workspaceId, source, target, task } = wish;
  const known = await sharedWith(tx, { workspaceId, agentId: target.id, ids });
  const runId = source.runId ?? task?.workflow_id ?? undefined;
  const fragments = known.map(({ id }) => ({ access: newId(), id }));
  await noteAccesses(tx, { tenantId, agentId: target.id, runId, operation: 'turn', fragments });
  return known;
}

/** The token limit of what the target is given. */
export function handoffTokens(target: AgentRow, wanted: number | undefined): number {
  return wanted ?? target.definition.constraints?.max_context_tokens ?? LIMITS.handoffTokens;
}

async function pickupMs(tx: Tx, { id, workspace_id: workspaceId, definition }: AgentRow): Promise<number> {
  const [worker] = await listWorkers(tx, { workspaceId, skills: [], ids: [id] });
  const isFull = (worker?.running ?? 0) >= (definition.constraints?.max_concurrent_tasks ?? Infinity);
  return isFull ? (worker?.health.avg_latency_ms ?? definition.health?.avg_latency_ms ?? BUSY_MS) : FREE_MS;
}
