/** What models were sent of a conversation, made anew from the events and messages of its runs alone, and what must hold of it. */
import assert from 'node:assert/strict';
import { percentOf } from '../../core/calibration.ts';
import type { Message } from '../../core/content.ts';
import type { RunEvent } from '../../core/events.ts';
import { renderMemories } from '../../core/memory/prompt.ts';
import { fold, type RunState } from '../../core/state.ts';
import type { MessageRow } from '../../db/claim-run.ts';
import { withoutRefused } from '../../modules/run-log/refused-files.ts';
import { anthropicParams } from '../../llm/anthropic-request.ts';
import { estimateMessages } from '../../llm/estimate-tokens.ts';
import {
  type GivenText,
  messagesFor,
  setAside,
  summaryMessage,
  withMemory,
  withoutEmptyAnswers,
} from '../../modules/run-log/conversation.ts';
import { readActions, type ActionPage } from '../../modules/conversations/action-log.ts';
import type { Engine } from './engine.ts';
import type { AnthropicRequest } from './fake-anthropic.ts';

/** One model call of a run, as its events have it. */
export interface ExplainedCall {
  messages: Message[];
  /** Tokens of the conversation, estimated; answers without content, which are not sent, included. */
  tokens: number;
  /** The first message that is sent as it is, and the place where the turn begins that the call is made for. */
  firstKept: number;
  turnFrom: number;
  /** Tokens: what the log says of the conversation, and what the conversation may have. */
  estimated: number;
  budget: number;
  /** The answer was taken from the record of another run. */
  isRecorded: boolean;
}

type Called = Extract<RunEvent, { type: 'model.called' }>['payload'];

/** The model calls of a run that were answered, in order, without Drover's own; `limit` is the conversation's, in tokens as the model counts them. */
export function explain(log: readonly RunEvent[], rows: readonly MessageRow[], limit: number): ExplainedCall[] {
  const calls: ExplainedCall[] = [];
  let state: RunState | null = null;
  let called: Called | undefined;
  let given: GivenText | undefined;
  for (const event of log) {
    if (event.type === 'turn.started') given = undefined;
    if (event.type === 'memory.retrieved')
      given = { ordinal: event.payload.ordinal, text: renderMemories(event.payload.entries) };
    if (event.type === 'model.called' && typeof event.payload.tool_choice !== 'object') called = event.payload;
    if (event.type === 'model.responded' && event.payload.tool === undefined && state && called) {
      const { provider, model, estimated_tokens: estimated } = called;
      const budget = Math.floor((limit * 100) / percentOf(state.calibration, `${provider}/${model}`));
      const { firstKept = 0, turn } = state;
      const at = { firstKept, turnFrom: turn?.from ?? 0, estimated, budget, ...sentIn(state, rows, given) };
      calls.push({ ...at, isRecorded: event.payload.recorded === true });
    }
    state = fold(state, event);
  }
  return calls;
}

function sentIn(
  { compaction, firstKept = 0, length, refusedFiles }: RunState,
  rows: readonly MessageRow[],
  given: GivenText | undefined,
) {
  const kept = setAside(withoutRefused(rows.slice(0, length), refusedFiles), compaction).filter(
    ({ ordinal }) => ordinal >= firstKept,
  );
  const summary = compaction?.summary === undefined ? [] : [summaryMessage(compaction.summary)];
  const { messages } = messagesFor(kept, Number.POSITIVE_INFINITY);
  const tokens = estimateMessages([...summary, ...messages]);
  return {
    messages: [...summary, ...withoutEmptyAnswers(withMemory({ messages, dropped: kept[0]?.ordinal ?? 0 }, given))],
    tokens,
  };
}

/** Where the turns of a run begin in its conversation; one that goes on with that of another run begins nowhere in it. */
export function turnStarts(log: readonly RunEvent[]): number[] {
  const starts: number[] = [];
  let state: RunState | null = null;
  for (const event of log) {
    state = fold(state, event);
    if (event.type === 'turn.started' && event.payload.continues === undefined) starts.push(state.length);
  }
  return starts;
}

/** The cut is between turns, the turn under way is whole, and nothing is sent beyond the budget. */
export function assertWithinLaws(call: ExplainedCall, starts: ReadonlySet<number>): void {
  const { firstKept, turnFrom, estimated, budget, messages, tokens } = call;
  assert.ok(firstKept === 0 || starts.has(firstKept), `message ${firstKept} begins no turn`);
  assert.ok(firstKept <= turnFrom, 'the turn under way is not whole');
  assert.equal(estimated, tokens, 'the log counts what is sent');
  assert.ok(estimated <= budget, `${estimated} tokens of ${budget}`);
  assertPaired(messages);
}

/** Every call has its result in the message after it, and every result its call in the one before. */
export function assertPaired(messages: readonly { role: string; content: unknown }[]): void {
  type Blocks = { type: string; tool_use_id?: string; id?: string }[];
  const ids = (index: number, type: string, key: 'id' | 'tool_use_id') =>
    ((messages[index]?.content ?? []) as Blocks).flatMap((block) => (block.type === type ? [block[key]] : []));
  for (const index of messages.keys())
    assert.deepEqual(ids(index, 'tool_use', 'id'), ids(index + 1, 'tool_result', 'tool_use_id'));
  assert.deepEqual(ids(0, 'tool_result', 'tool_use_id'), []);
}

/** The messages of a request as Anthropic is sent them, as bytes. */
export function bytesOf(messages: readonly Message[]): string {
  const rest = { model: 'claude-haiku-4-5', system: '', tools: [], toolChoice: 'auto' as const, maxTokens: 1 };
  return JSON.stringify(anthropicParams({ ...rest, messages: [...messages], examples: [] }).messages);
}

/** The same of a request that was sent. */
export const bytesSent = ({ messages }: Pick<AnthropicRequest, 'messages'>): string => JSON.stringify(messages);

/** What the run log shows of what the model was sent in the calls of a run that were made, as bytes, without Drover's own. */
export async function snapshotsOf({ context, tenantId, caller }: Engine, run: string): Promise<string[]> {
  const shown: string[] = [];
  for (let after = 0; ;) {
    const page: ActionPage = await context.db.withTenant(tenantId, (tx) =>
      readActions(tx, caller, { path: { run }, after, limit: 200, snapshots: true }),
    );
    for (const { type, messages, data } of page.actions) {
      if (messages && typeof data['tool_choice'] !== 'object') shown.push(bytesOf(messages));
      if (type === 'api_error' && JSON.stringify(data).includes('context_too_long')) shown.pop();
    }
    if (page.next === undefined) return shown;
    after = page.next;
  }
}
