import assert from 'node:assert/strict';
import fc from 'fast-check';
import { planCompaction, STRATEGIES, type Compaction, type Strategy } from '../../../core/compaction.ts';
import { textOf, type UserBlock } from '../../../core/content.ts';
import { contextChange, type ContextState } from '../../../core/context-state.ts';
import type { AgentDefinition } from '../../../core/definition.ts';
import { canonicalJson } from '../../../core/canonical-json.ts';
import { fixedId } from '../../../core/ids.ts';
import type { MessageRow } from '../../../db/claim-run.ts';
import { estimateMessages } from '../../../llm/estimate-tokens.ts';
import { messagesFor, partsOf, setAside, summaryMessage } from '../../../modules/run-log/conversation.ts';
import { buildRequest, fitContext, roomFor, type RequestSource } from '../../../modules/runs/driver/build-request.ts';
import { assertPaired } from '../../support/explained-context.ts';
import { sized } from '../../support/size.ts';

const MODEL = { provider: 'anthropic', model: 'm' };
/** Exactly so many tokens. */
const long = (tokens: number) => 'lore'.repeat(tokens);

const attached = fc.oneof(
  fc.integer({ min: 1, max: 300 }).map((tokens): UserBlock => ({ type: 'text', text: long(tokens) })),
  fc.constant<UserBlock>({ type: 'image', source: { type: 'url', url: 'https://a.example/b.png' } }),
  fc
    .tuple(fc.constantFrom('image/png', 'application/pdf', 'text/plain'), fc.integer({ min: 0, max: 9000 }))
    .map(([media_type, size]): UserBlock => ({ type: 'file', file_id: fixedId('f'), media_type, filename: 'a', size })),
);

const result = fc.record({
  tokens: fc.integer({ min: 0, max: 900 }),
  status: fc.constantFrom('succeeded', 'failed', 'denied', 'unknown'),
});

const step = fc.record({
  said: fc.integer({ min: 0, max: 80 }),
  results: fc.array(result, { minLength: 1, maxLength: 4 }),
  /** What the user says meanwhile. */
  steered: fc.option(fc.integer({ min: 1, max: 200 }), { nil: 0, freq: 2 }),
  /** What Drover says. */
  told: fc.option(fc.integer({ min: 1, max: 50 }), { nil: 0, freq: 4 }),
});

const turn = fc.record({
  asked: fc.integer({ min: 1, max: 400 }),
  attached: fc.array(attached, { maxLength: 2 }),
  steps: fc.array(step, { maxLength: 4 }),
  /** It may be that the turn has failed. */
  answer: fc.option(fc.integer({ min: 1, max: 300 }), { nil: 0, freq: 5 }),
});

const drawn = fc.record({
  /** From one model call to the next: an agent may get another version. */
  strategies: fc.array(fc.constantFrom(...STRATEGIES), { minLength: 1, maxLength: 3 }),
  window: fc.integer({ min: 500, max: 9000 }),
  conversation: fc.option(fc.integer({ min: 100, max: 5000 })),
  percent: fc.constantFrom(100, 130, 210),
  instructions: fc.string({ minLength: 1, maxLength: 200 }),
  summaries: fc.array(fc.option(fc.integer({ min: 1, max: 900 }), { freq: 2 }), { minLength: 1 }),
  memory: fc.option(fc.integer({ min: 1, max: 200 })),
  turns: fc.array(turn, { minLength: 2, maxLength: 9 }),
});
type Drawn = typeof drawn extends fc.Arbitrary<infer T> ? T : never;

/** A conversation as it grows, and where in it a model is asked. */
interface Grown {
  rows: MessageRow[];
  steered: number[];
  starts: number[];
}

describe('What a model is sent of a conversation that grows', () => {
  it('has whole pairs and turns, the instructions, and no more than its budget, and is what the events say', () => {
    const seen = { compacted: 0, summarised: 0, cut: 0, whole: 0 };
    const property = fc.property(drawn, (conversation) => {
      let state: ContextState | undefined;
      let asked = 0;
      for (const at of asksOf(conversation)) {
        const { summaries, strategies } = conversation;
        const summary = summaries[asked % summaries.length] ?? undefined;
        const strategy = strategies[asked % strategies.length] ?? 'fifo';
        asked += 1;
        const before = state;
        state = compacted(conversation, { at, state, summary, strategy });
        if (state !== before) seen.compacted += 1;
        const source = sourceOf(conversation, at, state);
        const fitted = fitContext(source, windowOf(conversation));
        if (fitted.dropped !== (state?.firstKept ?? 0)) {
          state = { ...state, ...cutAt(fitted.dropped) };
          seen.cut += 1;
        }
        if (state?.compaction?.summary !== undefined) seen.summarised += 1;
        if (fitted.dropped === 0) seen.whole += 1;
        assertLaws(conversation, { at, state, source });
      }
    });
    fc.assert(property, { numRuns: sized({ usual: 300, nightly: 20_000 }) });
    for (const [what, times] of Object.entries(seen)) assert.ok(times > 50, `${what} ${times} times`);
  });

  function assertLaws(
    conversation: Drawn,
    { at, state, source }: { at: Grown; state: ContextState | undefined; source: RequestSource },
  ): void {
    const { rows, starts } = at;
    const { firstKept = 0, compaction } = state ?? {};
    const asked = windowOf(conversation);
    const { tokens, room } = fitContext(source, asked);
    const request = buildRequest(source, { ...asked, toolChoice: 'auto' });

    // The events say what is sent: neither budget nor strategy is needed to know it.
    const kept = setAside(rows, compaction).filter(({ ordinal }) => ordinal >= firstKept);
    const summary = compaction?.summary === undefined ? [] : [summaryMessage(compaction.summary)];
    const said = [...summary, ...messagesFor(kept, Number.POSITIVE_INFINITY).messages];
    const { messages } = buildRequest(source, { ...asked, toolChoice: 'none' });
    assert.equal(JSON.stringify(messages), JSON.stringify(withMemory(conversation, said, at)));
    assert.equal(tokens, estimateMessages(said));

    const current = starts.at(-1) ?? 0;
    assert.ok(starts.includes(firstKept), `message ${firstKept} begins no turn`);
    if (firstKept < current) assert.ok(tokens <= room.budget, `${tokens} tokens of ${room.budget}`);
    assertPaired(messages);
    assert.ok(request.system.includes(conversation.instructions));
    const question = textOf(rows[current]?.content ?? []);
    assert.ok(
      messages.some(({ content }) => textOf(content).endsWith(question)),
      'the question of the turn is sent',
    );
  }
});

/** Each place of the conversation where a model is asked: after what the user says, and after each step. */
function* asksOf({ turns }: Drawn): Generator<Grown> {
  const grown: Grown = { rows: [], steered: [], starts: [] };
  const add = (row: Omit<MessageRow, 'ordinal' | 'chain' | 'outcomes'> & Partial<MessageRow>) =>
    grown.rows.push({ ordinal: grown.rows.length, chain: '', outcomes: null, ...row });
  const words = (tokens: number) => ({ type: 'text' as const, text: `${grown.rows.length} ${long(tokens)}` });
  for (const { asked, attached: blocks, steps, answer } of turns) {
    grown.starts.push(grown.rows.length);
    add({ role: 'user', content: [...blocks, words(asked)] });
    yield grown;
    for (const { said, results, steered, told } of steps) {
      const ids = results.map((_, place) => `${grown.rows.length}-${place}`);
      const uses = ids.map((id) => ({ type: 'tool_use' as const, id, name: 't', input: {} }));
      add({ role: 'assistant', content: [...(said > 0 ? [words(said)] : []), ...uses] });
      const outcomes = Object.fromEntries(ids.map((id, place) => [id, outcomeOf(results[place])]));
      const content = ids.map((id) => ({ type: 'tool_result' as const, tool_use_id: id, tool_call_id: id }));
      add({ role: 'user', content, outcomes });
      if (told > 0) add({ role: 'user', content: [words(told)], origin: 'drover' });
      if (steered > 0) grown.steered.push(grown.rows.length);
      if (steered > 0) add({ role: 'user', content: [words(steered)] });
      yield grown;
    }
    if (answer > 0) add({ role: 'assistant', content: [words(answer)] });
  }
}

function outcomeOf(drawnResult: { tokens: number; status: string } | undefined) {
  const { tokens = 0, status = 'succeeded' } = drawnResult ?? {};
  return { status: status as 'succeeded', output: long(tokens), is_error: status !== 'succeeded' };
}

/** What the log says after a compaction, where one is due; a summary may not be had. */
function compacted(
  conversation: Drawn,
  {
    at,
    state,
    summary: tokens,
    strategy,
  }: { at: Grown; state: ContextState | undefined; summary: number | undefined; strategy: Strategy },
): ContextState | undefined {
  const { compaction: current, firstKept = 0 } = state ?? {};
  const { rows, steered } = at;
  const parts = partsOf(rows, { compaction: current, steered }).filter(({ ordinal }) => ordinal >= firstKept);
  const earlier = current?.summary === undefined ? [] : [summaryMessage(current.summary)];
  const all = parts.reduce((sum, part) => sum + part.tokens, estimateMessages(earlier));
  const { budget } = roomFor(sourceOf(conversation, at, state), windowOf(conversation));
  const plan = planCompaction({ strategy, parts, current, budget, tokens: all });
  if (!plan) return state;
  assert.ok(all > budget, 'nothing is compacted that fits');
  const from = parts[0]?.ordinal ?? 0;
  const last = rows.findLast(({ outcomes }) => outcomes !== null)?.ordinal ?? 0;
  assert.ok((plan.cleared_before ?? 0) <= Math.max(last, current?.cleared_before ?? 0), 'the latest results stay');
  const needsSummary = plan.first_kept_ordinal > from;
  if (needsSummary && tokens === undefined) {
    if (plan.cleared_before === current?.cleared_before) return state;
    return contextOf({ ...plan, first_kept_ordinal: from });
  }
  return contextOf(needsSummary ? { ...plan, summary: long(tokens ?? 1) } : plan);
}

const SIZES = { tokens_before: 0, tokens_after: 0, budget_tokens: 0, dropped_tokens: 0 };

const contextOf = (made: Compaction) =>
  contextChange({ type: 'context.compacted', payload: { strategy: 'hybrid', ...made, ...SIZES } } as Parameters<
    typeof contextChange
  >[0]);

const cutAt = (ordinal: number) =>
  contextChange({
    type: 'context.transformed',
    payload: {
      reason: 'context_window',
      first_kept_ordinal: ordinal,
      dropped_messages: 0,
      dropped_tokens: 0,
      budget_tokens: 0,
    },
  } as Parameters<typeof contextChange>[0]);

const windowOf = ({ window }: Drawn) => ({ ...MODEL, window });

/** What the turn was given of its agent's memory stands before its words. */
function memoryOf({ memory }: Drawn, { starts }: Grown): RequestSource['memory'] {
  return memory === null ? undefined : { ordinal: starts.at(-1) ?? 0, text: long(memory) };
}

function sourceOf(conversation: Drawn, at: Grown, state: ContextState | undefined): RequestSource {
  const { window, instructions, percent } = conversation;
  const definition: AgentDefinition = { name: 'a', system_prompt: instructions };
  return {
    definition,
    tools: new Map(),
    messages: [...at.rows],
    steered: at.steered,
    compaction: state?.compaction,
    memory: memoryOf(conversation, at),
    limits: {
      model: `${MODEL.provider}/${MODEL.model}`,
      context_window: window,
      conversation_tokens: conversation.conversation,
      output_tokens: 100,
    },
    calibration: { [`${MODEL.provider}/${MODEL.model}`]: percent },
  };
}

function withMemory(conversation: Drawn, messages: ReturnType<typeof messagesFor>['messages'], at: Grown) {
  const memory = memoryOf(conversation, at);
  const { content } = at.rows[at.starts.at(-1) ?? 0] ?? {};
  return messages.map((message) =>
    memory?.text !== undefined &&
    message.role === 'user' &&
    canonicalJson(message.content) === canonicalJson(content ?? null)
      ? { ...message, content: [{ type: 'text' as const, text: memory.text }, ...message.content] }
      : message,
  );
}
