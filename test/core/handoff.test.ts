import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { checksumOf, handoffContext, isKnownSchema, loopFault, type HandoffContext } from '../../core/handoff.ts';
import { contextPart, fragmentsIn, withoutFragments } from '../../core/handoff-brief.ts';
import {
  memoryScore,
  messagesToTell,
  summarizeHandoff,
  type FullHandoff,
  type HandoffMessage,
} from '../../core/handoff-summary.ts';
import { estimateTokens } from '../../llm/estimate-tokens.ts';

const NOW = Date.UTC(2026, 0, 27);
const limits = (targetTokens: number) => ({ targetTokens, nowMs: NOW, countTokens: estimateTokens });
const say = (role: 'user' | 'assistant', text: string): HandoffMessage => ({ role, text });
const full = (more: Partial<FullHandoff> = {}): FullHandoff => ({ context: {}, history: [], fragments: [], ...more });

describe('a handoff', () => {
  it('has a checksum over canonical JSON, whatever the order of its fields', () => {
    const one: HandoffContext = { task_context: { original_query: 'q', constraints: { b: 1, a: 2 } } };
    const other: HandoffContext = { task_context: { constraints: { a: 2, b: 1 }, original_query: 'q' } };
    assert.equal(checksumOf(one), checksumOf(other));
    // sha256 of {"task_context":{"constraints":{"a":2,"b":1},"original_query":"q"}}
    assert.equal(checksumOf(one), '6622fbe0337275727831d1cb36a460d65dda1483e1807de58d989d1cb1593a04');
  });

  it('is told without the fragments that are left out, and otherwise as it was', () => {
    const [gone, kept] = ['0190a0e0-0000-7000-8000-000000000001', '0190a0e0-0000-7000-8000-000000000002'];
    const fragments = [gone, kept].map((id) => ({ id, content: 'a\nb\u2028c' }));
    for (const name of ['memory_fragments', 'relevant_memories']) {
      const told = (given: object[]) =>
        `Work.\n\n${contextPart({ [name]: given, task_context: {} })}\n\nMembers: none.`;
      const text = told(fragments);
      assert.deepEqual(fragmentsIn(text), [gone, kept]);
      assert.equal(
        withoutFragments(text, (id) => id === gone),
        told(fragments.slice(1)),
      );
    }
    const like = ['[1]', '{', '{"memory_fragments": [1, {"id": "x"}]}', '{"memory_fragments": {"id": "x"}}'];
    for (const line of like) {
      const text = `Context, as data:\n${line}`;
      assert.equal(
        withoutFragments(text, () => true),
        text,
      );
    }
  });

  it('knows version 1 and no other', () => {
    assert.deepEqual(['1', '1.0', '1.0.0', 'v1', '2.0', '1.1', '', '99'].map(isKnownSchema), [
      true,
      true,
      true,
      true,
      false,
      false,
      false,
      false,
    ]);
  });

  it('goes neither to oneself, nor around with the same context, nor on without end', () => {
    const link = (source_agent_id: string, target_agent_id: string, checksum: string) => ({
      source_agent_id,
      target_agent_id,
      checksum,
    });
    assert.match(loopFault([], link('a', 'a', 'x'), 10) ?? '', /itself/);
    assert.equal(loopFault([link('a', 'b', 'x')], link('b', 'a', 'y'), 10), undefined);
    assert.match(loopFault([link('a', 'b', 'x'), link('b', 'a', 'y')], link('a', 'b', 'x'), 10) ?? '', /same context/);
    assert.match(loopFault([link('a', 'b', 'x'), link('b', 'a', 'y')], link('a', 'b', 'z'), 2) ?? '', /2 times/);
  });
});

describe('the summary of a handoff', () => {
  it('is all of it where that fits', () => {
    const context = { reasoning_context: { key_findings: ['1', '2', '3', '4', '5', '6'] } };
    const history = [say('user', 'a'), say('assistant', 'b')];
    const { content, isShortened, tokens, fullTokens } = summarizeHandoff(full({ context, history }), limits(1000));
    assert.deepEqual(content, { ...context, conversation_history: history });
    assert.deepEqual([isShortened, tokens], [false, fullTokens]);
  });

  const long = 'x'.repeat(4000);

  it('has what a model has said of earlier messages, where there is room for it', () => {
    const history = [1, 2, 3, 4, 5].map((n) => say('user', n < 3 ? `decided ${n}. ${long}` : `question ${n}`));
    const given = full({ context: {}, history });
    assert.deepEqual(messagesToTell(given, limits(300)), history.slice(0, 2));
    const { content } = summarizeHandoff({ ...given, told: 'It was decided.' }, limits(300));
    assert.deepEqual(content['summarized_history'], ['It was decided.']);
    const tooLong = summarizeHandoff({ ...given, told: long }, limits(300)).content;
    assert.deepEqual(tooLong, summarizeHandoff(given, limits(300)).content);
  });

  it('has it in place of the last turns where even these are too much', () => {
    const given = full({ context: {}, history: [say('user', long)] });
    assert.deepEqual(messagesToTell(given, limits(100)), given.history);
    const { content } = summarizeHandoff({ ...given, told: 'x was said often.' }, limits(100));
    assert.deepEqual(content, { summarized_history: ['x was said often.'] });
    assert.deepEqual(messagesToTell(given, limits(10_000)), []);
  });

  /** What is left, from 1,000 tokens of a long context, by what it is about. */
  const EXAMPLES: readonly { name: string; given: FullHandoff; tokens: number; left: Record<string, unknown> }[] = [
    {
      name: 'keeps the last three turns, five findings and every decision, and cuts the rest',
      given: full({
        context: {
          execution_context: {
            decisions_made: [{ what: 'use A' }, { what: 'not B' }],
            current_progress: 'x'.repeat(4000),
          },
          reasoning_context: { key_findings: ['f1', 'f2', 'f3', 'f4', 'f5', 'f6'] },
        },
        history: [1, 2, 3, 4, 5].flatMap((n) => [say('user', `question ${n}`), say('assistant', `answer ${n}`)]),
      }),
      tokens: 150,
      left: {
        decisions: [{ what: 'use A' }, { what: 'not B' }],
        key_findings: ['f1', 'f2', 'f3', 'f4', 'f5'],
        last_turns: [3, 4, 5].flatMap((n) => [say('user', `question ${n}`), say('assistant', `answer ${n}`)]),
      },
    },
    {
      name: 'has of earlier turns what was decided or done',
      given: full({
        history: [
          say('user', 'Hello there.'),
          say('assistant', `We decided to use trains. ${'It was a long talk about nothing. '.repeat(30)}`),
          { role: 'assistant', text: 'Looking up prices.', isAction: true },
          ...[1, 2, 3].map((n) => say('user', `question ${n} ${'y'.repeat(160)}`)),
        ],
      }),
      tokens: 240,
      left: {
        summarized_history: ['assistant: We decided to use trains.', 'assistant: Looking up prices.'],
        last_turns: [1, 2, 3].map((n) => say('user', `question ${n} ${'y'.repeat(160)}`)),
      },
    },
    {
      name: 'takes the best memories that fit',
      given: full({
        context: { execution_context: { current_progress: 'z'.repeat(3000) } },
        fragments: [
          { id: 'old', content: 'o'.repeat(40), createdMs: NOW - 30 * 86_400_000, accessCount: 0, relevance: 0.1 },
          { id: 'large', content: 'l'.repeat(4000), createdMs: NOW, accessCount: 100, relevance: 1 },
          { id: 'good', content: 'g'.repeat(40), createdMs: NOW, accessCount: 50, relevance: 0.9 },
        ],
      }),
      tokens: 100,
      left: { relevant_memories: [{ id: 'good', content: 'g'.repeat(40) }] },
    },
    {
      name: 'cuts texts of the essential where that alone is too much',
      given: full({ context: { task_context: { original_query: 'q'.repeat(400), task_description: 'short' } } }),
      tokens: 40,
      left: { task_context: { original_query: `${'q'.repeat(93)}…`, task_description: 'short' } },
    },
  ];
  for (const { name, given, tokens, left } of EXAMPLES) {
    it(name, () => {
      const summary = summarizeHandoff(given, limits(tokens));
      assert.deepEqual(summary.content, left);
      assert.equal(summary.isShortened, true);
      assert.ok(summary.tokens <= tokens, `${summary.tokens}`);
    });
  }

  it('ranks memories by 0.4 relevance, 0.4 recency and 0.2 access', () => {
    const fragment = { id: '', content: '', createdMs: NOW - 86_400_000, accessCount: 50, relevance: 0.5 };
    assert.equal(memoryScore(fragment, NOW), 0.4 * 0.5 + 0.4 * 0.5 + 0.2 * 0.5);
  });

  const words = fc.string({ unit: 'grapheme', maxLength: 200 });
  const given: fc.Arbitrary<FullHandoff> = fc.record({
    context: fc.record(
      {
        task_context: fc.record({ original_query: words, task_description: words }),
        execution_context: fc.record({
          decisions_made: fc.array(fc.record({ what: words }), { maxLength: 8 }),
          current_progress: words,
          partial_results: fc.dictionary(words, words, { maxKeys: 5 }),
        }),
        reasoning_context: fc.record({ key_findings: fc.array(words, { maxLength: 9 }), assumptions: fc.array(words) }),
      },
      { requiredKeys: [] },
    ),
    history: fc.array(
      fc.record({ role: fc.constantFrom('user' as const, 'assistant' as const), text: words, isAction: fc.boolean() }),
      { maxLength: 20 },
    ),
    fragments: fc.array(
      fc.record({
        id: fc.uuid(),
        content: words,
        createdMs: fc.nat(NOW),
        accessCount: fc.nat(200),
        relevance: fc.double({ min: 0, max: 1, noNaN: true }),
      }),
      { maxLength: 5 },
    ),
  });

  it('never exceeds the limit, and keeps the essential wherever that fits', () => {
    fc.assert(
      fc.property(given, fc.integer({ min: 1, max: 1500 }), (all, target) => {
        const { content, tokens, isShortened, fullTokens } = summarizeHandoff(all, limits(target));
        assert.ok(tokens <= target, `${tokens} of ${target}`);
        assert.equal(estimateTokens(JSON.stringify(content)), tokens);
        assert.equal(isShortened, fullTokens > target);
        handoffContext.parse(all.context);
        const { decisions_made: decisions = [] } = all.context.execution_context ?? {};
        const { key_findings: findings = [] } = all.context.reasoning_context ?? {};
        const essential = JSON.stringify([all.context.task_context, decisions, findings.slice(0, 5), all.history]);
        // With its names and brackets it fits by far.
        if (!isShortened || estimateTokens(essential) + 60 > target) return;
        assert.deepEqual(content['task_context'], all.context.task_context);
        assert.deepEqual(content['decisions'] ?? [], decisions);
        assert.deepEqual(content['key_findings'] ?? [], findings.slice(0, 5));
      }),
      { numRuns: 300 },
    );
  });
});
