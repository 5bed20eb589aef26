/** From stored messages to what a model reads: tool results filled in from the ledger, old turns left out. */
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
  /** Estimated tokens of them, and of what was left out. */
  tokens: number;
  droppedTokens: number;
  /** Messages that were left out, from the first on. */
  dropped: number;
}

/** Messages that come before the ones given: how many, with how many tokens (estimated). */
export interface LeftOut {
  messages: number;
  tokens: number;
}

/** What is known of the messages beside their rows. */
interface KnownOfMessages {
  /** Those that have been left out already, and were not read. */
  before?: LeftOut | undefined;
  /** Places of those that came in the middle of a turn: they begin none. */
  steered?: readonly number[] | undefined;
}

const NOTHING_LEFT_OUT: LeftOut = { messages: 0, tokens: 0 };

/**
 * The messages of a request. Whole turns are left out from the oldest on until the rest fits `maxTokens` (estimated);
 * the current turn always stays. Content is canonical, so that a warm driver and a fresh one send the same bytes.
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

/** A row that is sent, with what it costs. */
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

/** The rows that are sent as messages of their own, with what stands for results that are set aside. */
export function setAside(rows: readonly MessageRow[], compaction: Compaction | undefined): readonly MessageRow[] {
  if (!compaction) return rows;
  const { first_kept_ordinal: from, cleared_before: before = 0, cleared_tokens: least = 0 } = compaction;
  const kept = from > 0 ? rows.filter(({ ordinal }) => ordinal >= from) : rows;
  return before > from ? kept.map((row) => (row.ordinal < before ? withHandles(row, least) : row)) : kept;
}

/** What stands in a message for the summary of those before it. */
export function summaryMessage(summary: string): Message {
  const text = `What was said before, summarised:\n<summary>\n${summary}\n</summary>`;
  return { role: 'user', content: [{ type: 'text', text }] };
}

/** What a turn was given of its agent's memory: it stands before the words of the message at that place. */
export interface GivenText {
  ordinal: number;
  text: string | undefined;
}

/** The turn's memories before the words of its first message, which is never left out; `dropped` messages come before those given. */
export function withMemory(
  { messages, dropped }: Pick<FittedMessages, 'messages' | 'dropped'>,
  memory: GivenText | null | undefined,
): Message[] {
  const index = (memory?.ordinal ?? 0) - dropped;
  const first = messages[index];
  if (memory?.text === undefined || first?.role !== 'user') return messages;
  return messages.with(index, { ...first, content: [{ type: 'text', text: memory.text }, ...first.content] });
}

/** Providers refuse answers without content. After one the model is told, or it would only repeat it. */
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

/** By row, so that what is made of it is made once. */
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

/** Results in a row of calls that have ended, as a model reads them, while others of the row are open. */
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

/** Results in a row that are settled and known. */
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

/** What a model reads as a call's result: text as it is, other JSON canonical, cut at 1 MiB with a note. */
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

/** Renders the messages of a run that was loaded, in slices: its first request then blocks nobody. */
export async function renderInSlices(rows: readonly MessageRow[]): Promise<void> {
  await inSlices(rows, (row) => void render(row));
}

/** Bytes of JSON of messages, as a model reads them, about. */
export function bytesOfMessages(rows: readonly MessageRow[]): number {
  return rows.reduce((sum, row) => sum + bytesOf(render(row)), 0);
}

interface Rendered {
  message: Message;
  tokens: number;
  /** Of its JSON, once somebody has asked. */
  bytes?: number;
}

function bytesOf(part: Rendered): number {
  part.bytes ??= JSON.stringify(part.message).length;
  return part.bytes;
}

/**
 * A message is rendered and estimated once: the work of a step does not grow with the conversation. What was made of a row
 * lives as long as the row does, in a drive or in the context's run cache, so it needs neither a bound nor clearing.
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

/** A message whose calls may still change is rendered anew. */
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
