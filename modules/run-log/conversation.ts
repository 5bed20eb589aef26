/** Converts stored messages to what models read: fills in tool results from the ledger, and leaves out old turns. */
import { isSettled } from '../../core/state.ts';
import {
  isProviderBlock,
  textOf,
  type Message,
  type StoredToolResult,
  type ToolResultBlock,
} from '../../core/content.ts';
import type { Compaction, Part } from '../../core/compaction.ts';
import { canonicalJson, canonicalValue } from '../../core/canonical-json.ts';
import { originOf } from '../../core/origin.ts';
import { UNKNOWN_OUTCOME } from '../../core/ledger.ts';
import { cutText, textOfOutput } from '../../core/tool-output.ts';
import type { CallOutcome, MessageRow } from '../../db/claim-run.ts';
import { inSlices } from '../../lib/in-slices.ts';
import { estimateMessages } from '../../llm/estimate-tokens.ts';

export interface FittedMessages {
  messages: Message[];
  /** Estimated tokens of the messages, and of those left out. */
  tokens: number;
  droppedTokens: number;
  /** Number of messages left out at the beginning. */
  dropped: number;
}

/** Messages before the given ones: their number, and estimated tokens. */
export interface LeftOut {
  messages: number;
  tokens: number;
}

/** Facts about the messages besides their rows. */
interface KnownOfMessages {
  /** Messages already left out, and not read. */
  before?: LeftOut | undefined;
  /** Ordinals of messages that came in the middle of a turn, and start none. */
  steered?: readonly number[] | undefined;
}

const NOTHING_LEFT_OUT: LeftOut = { messages: 0, tokens: 0 };

/**
 * The messages of a request. Leaves out whole turns, oldest first, until the rest fits `maxTokens` (estimated); the current
 * turn always stays. Content is canonical, so that a warm driver and a fresh one send the same bytes.
 */
export function messagesFor(
  rows: readonly MessageRow[],
  maxTokens: number,
  { before = NOTHING_LEFT_OUT, steered = [] }: KnownOfMessages = {},
): FittedMessages {
  const parts = rows.map(render);
  const sizes = parts.map((part) => part.tokens);
  const starts = rows.flatMap((row, index) => (startsTurn(row, steered) ? [index] : []));
  const all = sizes.reduce((sum, size) => sum + size, 0);
  let tokens = all;
  let from = 0;
  for (const start of starts.slice(1)) {
    if (tokens <= maxTokens) break;
    for (; from < start; from++) tokens -= sizes[from] ?? 0;
  }
  const messages = parts.slice(from).map((part) => part.message);
  return { messages, tokens, droppedTokens: before.tokens + all - tokens, dropped: before.messages + from };
}

/** The rows that are sent, with their tokens. */
export function partsOf(
  rows: readonly MessageRow[],
  { compaction, steered = [] }: { compaction?: Compaction | undefined; steered?: readonly number[] | undefined },
): Part[] {
  return setAside(rows, compaction).map((row) => {
    const { tokens } = render(row);
    return {
      ordinal: row.ordinal,
      tokens,
      startsTurn: startsTurn(row, steered),
      results: resultsOf(row).map(tokensOf),
    };
  });
}

/** The rows sent as separate messages, with handles for results that are set aside. */
export function setAside(rows: readonly MessageRow[], compaction: Compaction | undefined): readonly MessageRow[] {
  if (!compaction) return rows;
  const { first_kept_ordinal: from, cleared_before: before = 0, cleared_tokens: least = 0 } = compaction;
  const kept = from > 0 ? rows.filter(({ ordinal }) => ordinal >= from) : rows;
  return before > from ? kept.map((row) => (row.ordinal < before ? withHandles(row, least) : row)) : kept;
}

/** The message with a summary, in place of those before. */
export function summaryMessage(summary: string): Message {
  const text = `What was said before, summarised:\n<summary>\n${summary}\n</summary>`;
  return { role: 'user', content: [{ type: 'text', text }] };
}

/** Memories given to a turn, to be placed before the text of the message with this ordinal. */
export interface GivenText {
  ordinal: number;
  text: string | undefined;
}

/**
 * Inserts the turn's memories before the text of its first message, which is never left out; `dropped`: number of messages
 * before the given ones.
 */
export function withMemory(
  { messages, dropped }: Pick<FittedMessages, 'messages' | 'dropped'>,
  memory: GivenText | null | undefined,
): Message[] {
  const index = (memory?.ordinal ?? 0) - dropped;
  const first = messages[index];
  if (memory?.text === undefined || first?.role !== 'user') return messages;
  return messages.with(index, { ...first, content: [{ type: 'text', text: memory.text }, ...first.content] });
}

/** Removes answers without content, which providers refuse. The model is told after one, or it would only repeat it. */
export function withoutEmptyAnswers(messages: readonly Message[]): Message[] {
  const isEmpty = ({ role, content }: Message) =>
    role === 'assistant' &&
    !content.some((block) => block.type === 'tool_use' || isProviderBlock(block)) &&
    textOf(content).trim() === '';
  const last = messages.at(-1);
  const kept = messages.filter((message) => !isEmpty(message));
  return last && isEmpty(last) ? [...kept, { role: 'user', content: [{ type: 'text', text: EMPTY_ANSWER }] }] : kept;
}

const EMPTY_ANSWER = 'Your last answer was empty. Go on: answer in words, or call a tool.';

/** By row, so that each is converted once. */
const cleared = new WeakMap<MessageRow, { least: number; row: MessageRow }>();

function withHandles(row: MessageRow, least: number): MessageRow {
  const known = cleared.get(row);
  if (known?.least === least) return known.row;
  const large = new Map(
    resultsOf(row).flatMap((each) => (tokensOf(each) >= least ? [[each.callId, each] as const] : [])),
  );
  const outcomes = Object.entries(row.outcomes ?? {}).map(([id, outcome]) => {
    const result = large.get(id);
    return [id, result ? { ...outcome, content: undefined, output: handleOf(result) } : outcome] as const;
  });
  const made = large.size === 0 ? row : { ...row, outcomes: Object.fromEntries(outcomes) as MessageRow['outcomes'] };
  if (everySettled(row)) cleared.set(row, { least, row: made });
  return made;
}

/** Results, as models read them, of a row's ended calls while others are open. */
export function endedResults(row: MessageRow): ToolResultBlock[] {
  return row.content.flatMap((block) => {
    if (!('tool_call_id' in block)) return [];
    const status = row.outcomes?.[block.tool_call_id]?.status;
    return status === undefined || !isSettled({ status }) ? [] : [toolResult(block, row)];
  });
}

interface Result {
  callId: string;
  toolUseId: string;
  content: ToolResultBlock['content'];
}

/** Results of a row's calls that are settled and loaded. */
function resultsOf(row: MessageRow): Result[] {
  return row.content.flatMap((block): Result[] => {
    if (!('tool_call_id' in block)) return [];
    const outcome = row.outcomes?.[block.tool_call_id];
    if (outcome?.status !== 'succeeded' && outcome?.status !== 'failed') return [];
    return [{ callId: block.tool_call_id, toolUseId: block.tool_use_id, content: resultText(outcome).content }];
  });
}

function tokensOf({ toolUseId, content }: Result): number {
  return estimateMessages([{ role: 'user', content: [{ type: 'tool_result', tool_use_id: toolUseId, content }] }]);
}

function handleOf(result: Result): string {
  const call = canonicalJson({ tool_use_id: result.toolUseId });
  return `This result of about ${tokensOf(result)} tokens was set aside. \`read_tool_output\` with ${call} reads it.`;
}

/** A call's result as models read it: text as it is, other JSON canonical, cut at 1 MiB with a note. */
export function resultText(outcome: CallOutcome | undefined): {
  content: ToolResultBlock['content'];
  isError: boolean;
} {
  if (!outcome || outcome.status === 'pending' || outcome.status === 'running') {
    return { content: 'The call was interrupted before it had a result.', isError: true };
  }
  if (outcome.status === 'unknown') {
    return { content: outcome.content ? shownOf(outcome) : UNKNOWN_OUTCOME, isError: true };
  }
  return { content: shownOf(outcome), isError: outcome.is_error ?? false };
}

function shownOf({ output, content }: CallOutcome): ToolResultBlock['content'] {
  const [first, ...others] = content ?? [];
  if (first?.type === 'text' && others.length === 0) return first.text;
  return content ?? cutText(textOfOutput(output));
}

/** Renders the messages of a loaded run in slices, so that its first request does not block the process. */
export async function renderInSlices(rows: readonly MessageRow[]): Promise<void> {
  await inSlices(rows, (row) => void render(row));
}

/** Approximate bytes of JSON of messages as models read them. */
export function bytesOfMessages(rows: readonly MessageRow[]): number {
  return rows.reduce((sum, row) => sum + bytesOf(render(row)), 0);
}

interface Rendered {
  message: Message;
  tokens: number;
  /** Size of its JSON, computed on demand. */
  bytes?: number;
}

function bytesOf(part: Rendered): number {
  part.bytes ??= JSON.stringify(part.message).length;
  return part.bytes;
}

/**
 * Messages are rendered and estimated once, so that a step's work does not grow with the conversation. Results live as long as
 * their rows, in a drive or in the context's run cache, so they need neither bound nor clearing.
 */
const rendered = new WeakMap<MessageRow, Rendered>();

function render(row: MessageRow): Rendered {
  const cached = rendered.get(row);
  if (cached) return cached;
  const content = row.content.map((block) => ('tool_call_id' in block ? toolResult(block, row) : block));
  const message = canonicalValue({ content, role: row.role } as Message);
  const part: Rendered = { message, tokens: estimateMessages([message]) };
  if (everySettled(row)) rendered.set(row, part);
  return part;
}

/** Messages whose calls may still change are rendered again. */
function everySettled(row: MessageRow): boolean {
  const outcomes = Object.values(row.outcomes ?? {});
  return outcomes.every(({ status }) => status !== 'pending' && status !== 'running');
}

function toolResult(block: StoredToolResult, row: MessageRow): ToolResultBlock {
  const { content, isError } = resultText(row.outcomes?.[block.tool_call_id]);
  return { content, ...(isError && { is_error: true }), tool_use_id: block.tool_use_id, type: 'tool_result' };
}

/** Whether a message is what its user has begun a turn with. `steered`: places of those that came in the middle of one. */
export function startsTurn(row: MessageRow, steered: readonly number[]): boolean {
  return originOf(row) === 'user' && !steered.includes(row.ordinal);
}
