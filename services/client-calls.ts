/** Results of calls that the client executes: each settles its call at once, the run goes on when none is left. */
import { textOf, type TextBlock } from '../core/content.ts';
import { conflict } from '../core/errors.ts';
import { isTerminal, type NewEvent, type RunStatus } from '../core/events.ts';
import { newId } from '../core/ids.ts';
import { insertSignal } from '../db/approvals.ts';
import type { Tx } from '../db/database.ts';
import { listClientCalls, type ClientCall } from '../db/waits.ts';
import type { CallChange, RunRow } from '../db/run-store.ts';
import type { AppendedChange } from './append-to-run.ts';
import { wake } from './approval-outcome.ts';

export interface ToolResult {
  tool_use_id: string;
  content?: unknown;
  is_error?: boolean | undefined;
}

/**
 * What results of the client append to its run; null where a signal with this id has come before. All of them or none:
 * one for a call that does not wait for the client, or not any more, is 409.
 */
export async function takeResults(
  tx: Tx,
  run: RunRow,
  { results, signalId = newId() }: { results: readonly ToolResult[]; signalId?: string | undefined },
): Promise<AppendedChange | null> {
  if (isTerminal(run.status as RunStatus)) {
    throw conflict(`The run is ${run.status}; it takes no more results.`, { status_of_run: run.status });
  }
  const signal = { tenantId: run.tenant_id, runId: run.id, id: signalId, type: 'tool_results' };
  if (!(await insertSignal(tx, signal))) return null;
  const open = await listClientCalls(tx, run.id);
  const answered = results.map((result, index) => {
    const call = open.find(({ tool_use_id }) => tool_use_id === result.tool_use_id);
    const isSecond = results.findIndex(({ tool_use_id }) => tool_use_id === result.tool_use_id) < index;
    if (!call || isSecond) throw notAwaited(result.tool_use_id, open);
    return { call, result };
  });
  const by = { actor: 'user' as const, turn_id: run.open_turn_id ?? undefined };
  const ids = answered.map(({ call }) => call.id);
  const payload = { tool_call_ids: ids };
  return {
    events: [
      { ...by, type: 'signal.received', payload: { signal_id: signalId, type: 'tool_results', payload } },
      ...answered.map(({ call, result }): NewEvent => ({ ...by, ...settledEvent(call, result) })),
      ...askAgain(
        run,
        open.filter((call) => !ids.includes(call.id)),
      ),
    ],
    calls: answered.map(({ call, result }) => settledRow(call, result)),
    close_waits: ids,
    ...(ids.length === open.length && wake(run)),
  };
}

/** What is left of a set is asked for again, so that whoever follows the turn hears of it. */
export function askAgain(run: RunRow, left: readonly ClientCall[]): NewEvent[] {
  if (left.length === 0) return [];
  const payload = { tool_call_ids: left.map(({ id }) => id) };
  return [{ type: 'client_tools.requested', actor: 'system', turn_id: run.open_turn_id ?? undefined, payload }];
}

function notAwaited(toolUseId: string, open: readonly ClientCall[]) {
  const waiting = open.map(({ tool_use_id }) => tool_use_id);
  const rest = waiting.length > 0 ? `It waits for ${waiting.join(', ')}.` : 'No call of this run waits for the client.';
  return conflict(`No call with the tool_use_id "${toolUseId}" waits for a result. ${rest}`, { waiting });
}

const FAILED = { code: 'client_error', message: 'The client reported an error.' };

function settledEvent({ id, waited_ms }: ClientCall, result: ToolResult) {
  if (result.is_error) {
    const payload = { tool_call_id: id, error: FAILED, attempts: 1, latency_ms: waited_ms };
    return { type: 'tool.failed' as const, payload };
  }
  const payload = { tool_call_id: id, latency_ms: waited_ms, output_bytes: bytesOf(outputOf(result)) };
  return { type: 'tool.succeeded' as const, payload };
}

function settledRow({ id, waited_ms }: ClientCall, result: ToolResult): CallChange {
  const output = outputOf(result);
  const set = { output, output_bytes: bytesOf(output), latency_ms: waited_ms, finished_at: 'now' };
  const how = result.is_error
    ? { status: 'failed', is_error: true, error: FAILED }
    : { status: 'succeeded', is_error: false, error: null };
  return { id, from: ['running'], set: { ...set, ...how } };
}

/** Text blocks, as in Anthropic's Messages API, are their text; any other JSON stays as it is. */
function outputOf({ content = null }: ToolResult): unknown {
  return isText(content) ? textOf(content) : content;
}

function isText(content: unknown): content is TextBlock[] {
  const isBlock = (block: unknown) =>
    typeof block === 'object' && block !== null && 'type' in block && block.type === 'text' && 'text' in block;
  return Array.isArray(content) && content.length > 0 && content.every(isBlock);
}

function bytesOf(output: unknown): number {
  return Buffer.byteLength(typeof output === 'string' ? output : JSON.stringify(output));
}
