/** Reads what is needed to continue a thread. */
import type { Carried } from '../../core/carried.ts';
import type { Message, ToolResultBlock } from '../../core/content.ts';
import type { AgentDefinition } from '../../core/definition.ts';
import { LIMITS } from '../../core/limits.ts';
import type { TokenUsage } from '../../core/model.ts';
import { isSettled } from '../../core/state.ts';
import type { ToolDefinition } from '../../core/tool.ts';
import { loadAgentVersion } from '../../db/agents.ts';
import { readMessages } from '../../db/messages.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import { findCarried, findContextAt, findLastUsage } from '../../db/replay.ts';
import { findRunRow } from '../../db/runs.ts';
import { listAwaitedCalls, listToolCalls, type ToolCallRow } from '../../db/tool-calls.ts';
import { isBuiltinAgent } from '../agents/builtin-agent.ts';
import type { DefinitionCache } from '../agents/definitions.ts';
import { endedResults, withoutEmptyAnswers } from '../run-log/conversation.ts';
import { readSent } from './sent-messages.ts';
import type { ThreadView } from './threads.ts';

/** The thread's newest run, its pinned definitions, and the state that it passes on. */
export interface Resumption {
  run: RunRow;
  definition: AgentDefinition;
  tools: readonly ToolDefinition[];
  carried: Carried;
  lastUsage: TokenUsage | undefined;
  /** Calls for its client to execute. */
  awaited: readonly ToolCallRow[];
  /** Results of other calls of that answer; the model reads all of them together. */
  waiting: readonly ToolResultBlock[];
  /** The conversation as currently compacted; only if requested. */
  messages?: Message[];
}

/** Undefined if the thread has no run, or it is erased. */
export async function readResumption(
  tx: Tx,
  { head_run_id: runId }: ThreadView,
  { definitions, messages }: { definitions: DefinitionCache; messages: boolean },
): Promise<Resumption | undefined> {
  const run = runId === null ? undefined : await findRunRow(tx, runId);
  if (!run || run.erased_at || !(await hasAgent(tx, run))) return undefined;
  const { id, tenant_id: tenantId, agent_id: agentId, agent_version: agentVersion } = run;
  const awaited = await listAwaitedCalls(tx, id);
  const pinned = await definitions.loadIn(tx, { tenantId, agentId, agentVersion, tools: run.pinned.tools });
  return {
    run,
    definition: pinned.definition,
    tools: [...pinned.tools.values()],
    carried: await findCarried(tx, id),
    lastUsage: await findLastUsage(tx, id),
    awaited,
    waiting: awaited.length > 0 ? await readWaiting(tx, run) : [],
    ...(messages && { messages: await readNow(tx, run) }),
  };
}

async function hasAgent(tx: Tx, { agent_id: id, agent_version: version }: RunRow): Promise<boolean> {
  return isBuiltinAgent(id) || (await loadAgentVersion(tx, id, version)) !== undefined;
}

/** The last message of a run that waits for results is the one they will be part of. */
async function readWaiting(tx: Tx, { id, length }: RunRow): Promise<ToolResultBlock[]> {
  const shownBytes = LIMITS.shownOutputBytes;
  const rows = await readMessages(tx, id, { from: length - 1, length, shownBytes });
  return rows.flatMap(endedResults);
}

/** Results of open calls are not in the messages yet. */
async function readNow(tx: Tx, { id, length, last_seq: seq, open_turn_id: turn }: RunRow): Promise<Message[]> {
  const context = await findContextAt(tx, id, seq + 1);
  const calls = turn === null ? [] : await listToolCalls(tx, id, turn);
  const isOpen = calls.some((call) => !isSettled(call));
  const { summary, messages } = await readSent(tx, id, { ...context, length: isOpen ? length - 1 : length });
  return [...summary, ...withoutEmptyAnswers(messages)];
}
