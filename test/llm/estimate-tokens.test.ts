import assert from 'node:assert/strict';
import fc from 'fast-check';
import { estimateMessages, estimateRequest, estimateTokens } from '../../llm/estimate-tokens.ts';
import { userText, WEATHER } from '../support/model-request.ts';

describe('estimateTokens', () => {
  it('counts Latin letters by four, others by two, CJK singly', () => {
    assert.equal(estimateTokens(''), 0);
    assert.equal(estimateTokens('12345678'), 2);
    assert.equal(estimateTokens('a'), 1);
    assert.equal(estimateTokens('привет'), 3);
    assert.equal(estimateTokens('汽车'), 2);
  });

  it('grows with the text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (a, b) => {
        const both = estimateTokens(a + b);
        assert.ok(both >= Math.max(estimateTokens(a), estimateTokens(b)));
        assert.ok(both <= estimateTokens(a) + estimateTokens(b));
      }),
    );
  });
});

describe('estimateMessages', () => {
  it('counts text, calls, results, thinking and images', () => {
    const base = estimateMessages([userText('x'.repeat(40))]);
    assert.equal(base, 14);
    const more = estimateMessages([
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'y'.repeat(40), signature: 'ignored' },
          { type: 'tool_use', id: 'i', name: 'abcd', input: { k: 'v' } },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'i', content: 'z'.repeat(40) },
          { type: 'image', source: { type: 'url', url: 'u' } },
        ],
      },
    ]);
    assert.equal(more, 4 + 10 + 1 + 3 + 4 + 10 + 1600);
  });

  it('takes a PDF by its pages, and where they are not known by its size', () => {
    const tokensOf = (pages?: number) => {
      const file = { type: 'file' as const, file_id: 'f', media_type: 'application/pdf', filename: 'a.pdf' };
      return estimateMessages([{ role: 'user', content: [{ ...file, size: 7_000_000, ...(pages && { pages }) }] }]);
    };
    assert.deepEqual([tokensOf(20), tokensOf()], [4 + 20 * 3200, 4 + 140 * 3200]);
  });

  it('adds system prompt and tools for a request', () => {
    const messages = [userText('hello')];
    const bare = estimateRequest({ system: '', messages, tools: [] });
    assert.equal(bare, estimateMessages(messages));
    assert.ok(estimateRequest({ system: 'abcd', messages, tools: [WEATHER] }) > bare + 20);
  });
});
