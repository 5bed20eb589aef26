/** Results of the client's own tools: each settles its call at once; the run continues when none is left. */
import { settledEvent } from '../../core/decision-events/tool-calls.ts';
import { askClientAgain } from '../../core/decision-events/waits.ts';
import { z } from 'zod';
import { attachment, beginningOf, textOf, type Attachment, type TextBlock } from '../../core/content.ts';
import { LIMITS } from '../../core/limits.ts';
import { outputColumns } from '../../core/tool-output.ts';
import { conflict } from '../../core/errors.ts';
import { isTerminal, type NewEvent } from '../../core/events.ts';
import { newId } from '../../lib/new-id.ts';
import type { NewSignal } from '../../db/signals.ts';
import type { Tx } from '../../db/database.ts';
import { listClientCalls, type ClientCall } from '../../db/waits.ts';
import type { RunRow } from '../../db/claim-run.ts';
import { outputBytesOf } from '../../db/commit-run.ts';
import { settlementChange, withinOutputLimit, type OutputRoom } from '../run-log/settlement.ts';
import type { AppendedChange } from '../run-log/append-to-run.ts';
import { noteSignal } from './keep-signal.ts';
import { turnJobOf } from '../run-log/turn-job.ts';

export interface ToolResult {
  tool_use_id: string;
  content?: unknown;
  is_error?: boolean | undefined;
}

interface TakenResults {
  /** One of a call at most. */
  results: readonly ToolResult[];
  signal?: Pick<NewSignal, 'id' | 'digest'>;
  /** The key that sends them. */
  requestedBy: string | undefined;
  /** Number of characters of them that had to be replaced. */
  replaced?: number | undefined;
  /** Limit of the run's outputs, in bytes. */
  limitBytes: number;
}

/**
 * The change for a client's results; null if the signal is a repetition. All or none: 409 if any call does not wait for the
 * client, or not any more.
 */
export async function takeResults(
  tx: Tx,
  run: RunRow,
  { results, signal = { id: newId() }, requestedBy, replaced, limitBytes }: TakenResults,
): Promise<AppendedChange | null> {
  if (!(await noteSignal(tx, { tenantId: run.tenant_id, runId: run.id, type: 'tool_results', ...signal }))) return null;
  if (isTerminal(run.status)) {
    throw conflict(`The run is ${run.status}; it takes no more results.`, { status_of_run: run.status });
  }
  const open = await listClientCalls(tx, run.id);
  let storedBytes = run.output_bytes;
  const answered = results.map((result) => {
    const call = open.find(({ tool_use_id }) => tool_use_id === result.tool_use_id);
    if (!call) throw notAwaited(result.tool_use_id, open);
    const answer = settled(call, result, { storedBytes, limitBytes });
    storedBytes += outputBytesOf({ calls: [answer.change] });
    return { call, ...answer };
  });
  const by = { actor: 'user' as const, turn_id: run.open_turn_id ?? undefined };
  const ids = answered.map(({ call }) => call.id);
  const noted = replaced !== undefined && { replaced };
  const said = { signal_id: signal.id, type: 'tool_results' as const, payload: { tool_call_ids: ids }, ...noted };
  return {
    events: [
      { ...by, type: 'signal.received', payload: { ...said, requested_by: requestedBy } },
      ...answered.map(({ event }): NewEvent => ({ ...by, ...event })),
      ...askClientAgain(
        by.turn_id,
        open.map(({ id }) => id).filter((id) => !ids.includes(id)),
      ),
    ],
    calls: answered.map(({ change }) => change),
    close_waits: ids,
    ...(ids.length === open.length && { outbox: [turnJobOf(run)] }),
  };
}

function notAwaited(toolUseId: string, open: readonly ClientCall[]) {
  const waiting = open.map(({ tool_use_id }) => tool_use_id);
  const rest = waiting.length > 0 ? `It waits for ${waiting.join(', ')}.` : 'No call of this run waits for the client.';
  return conflict(`No call with the tool_use_id "${toolUseId}" waits for a result. ${rest}`, { waiting });
}

/** In the client's own words, if any. */
function failure(output: unknown): { code: string; message: string } {
  const said = typeof output === 'string' ? beginningOf(output.trim(), LIMITS.errorChars) : '';
  return { code: 'client_error', message: said === '' ? 'The client reported an error.' : said };
}

/** A failed call keeps what the client said about it, if the run has room. */
function settled({ id, waited_ms }: ClientCall, result: ToolResult, room: OutputRoom) {
  const said = { status: 'succeeded' as const, output: outputOf(result) };
  const kept = withinOutputLimit(said, room);
  const settlement = kept === said && result.is_error ? { status: 'failed' as const, ...failure(said.output) } : kept;
  const how = { callId: id, attempt: 1, settlement, latencyMs: waited_ms };
  const change = settlementChange(how);
  const set = { ...change.set, ...(kept === said && outputColumns(said.output, partsOf(said.output))) };
  return { event: settledEvent(how), change: { ...change, set } };
}

/** Text blocks (Anthropic's Messages API) become their text; other JSON is unchanged. */
function outputOf({ content = null }: ToolResult): unknown {
  return isText(content) ? textOf(content) : content;
}

function isText(content: unknown): content is TextBlock[] {
  const isBlock = (block: unknown) =>
    typeof block === 'object' && block !== null && 'type' in block && block.type === 'text' && 'text' in block;
  return Array.isArray(content) && content.length > 0 && content.every(isBlock);
}

/** Text and images for the model, if there is an image. */
function partsOf(output: unknown): Attachment[] | undefined {
  const parts = z.array(attachment).safeParse(output);
  return parts.success && parts.data.some(({ type }) => type === 'image') ? parts.data : undefined;
}
