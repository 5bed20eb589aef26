import assert from 'node:assert/strict';
import fc from 'fast-check';
import { NO_TOKENS, type ModelResponse } from '../../core/model.ts';
import { costOf, isLongContext, mostCostOf, priceOfAnswer } from '../../llm/prices.ts';

const MILLION = 1_000_000;

describe('costOf', () => {
  it('adds every kind of token at its price', () => {
    const usage = {
      input: MILLION,
      output: MILLION,
      thinking: MILLION,
      cache_read: MILLION,
      cache_write_5m: MILLION,
      cache_write_1h: MILLION,
    };
    // 3 + 15 + 0.30 + 3.75 + 6; thinking is part of the output.
    assert.equal(costOf('anthropic', 'claude-sonnet-4-5', usage), '28.05');
  });

  it('is exact where floating point is not', () => {
    assert.equal(costOf('openai', 'gpt-4.1-nano', { ...NO_TOKENS, input: 3 }), '0.0000003');
    assert.equal(costOf('openai', 'gpt-4o-mini', { ...NO_TOKENS, input: 1, cache_read: 1 }), '0.000000225');
    assert.equal(costOf('anthropic', 'claude-haiku-5-5', { ...NO_TOKENS, cache_read: 1 }), '0.00000001');
  });

  it('finds the price of a dated name, but not of another model that begins alike', () => {
    const usage = { ...NO_TOKENS, output: MILLION };
    assert.equal(costOf('anthropic', 'claude-haiku-4-5-20251001', usage), '5');
    assert.equal(costOf('openai', 'gpt-4.1-2025-04-14', usage), '8');
    assert.equal(costOf('openai', 'gpt-4.1-mini-2025-04-14', usage), '1.6');
    assert.equal(costOf('openai', 'gpt-5.9', usage), null);
  });

  it('is at most what a prompt costs that the provider keeps for later, where that is dearer', () => {
    const all = { input: MILLION, output: MILLION };
    assert.equal(mostCostOf('anthropic', 'claude-sonnet-4-5', all), '18.75');
    assert.equal(mostCostOf('openai', 'gpt-4.1-mini', all), costOf('openai', 'gpt-4.1-mini', { ...NO_TOKENS, ...all }));
    assert.equal(mostCostOf('anthropic', 'claude-unheard-of', all), null);
  });

  it('is null for an unknown model or provider, never 0', () => {
    assert.equal(costOf('anthropic', 'claude-unheard-of', NO_TOKENS), null);
    assert.equal(costOf('openai', 'qwen3-32b', NO_TOKENS), null);
    assert.equal(costOf('elsewhere', 'gpt-4.1', NO_TOKENS), null);
    assert.equal(costOf('openai', 'constructor', NO_TOKENS), null);
    assert.equal(costOf('constructor', 'name', NO_TOKENS), null);
  });

  it('is 0 for the offline planner', () => {
    assert.equal(costOf('offline', 'offline', { ...NO_TOKENS, input: 5 }), '0');
  });

  it('charges a long prompt at the long price, or says that it does not know it', () => {
    const usage = { ...NO_TOKENS, input: 60_000, cache_read: 50_000 };
    assert.equal(costOf('anthropic', 'claude-haiku-5-5', { ...usage, cache_read: 40_000 }), '0.0064');
    assert.equal(costOf('anthropic', 'claude-haiku-5-5', usage), '0.0325');
    assert.equal(costOf('openai', 'gpt-6-sol', { ...NO_TOKENS, input: 272_001 }), null);
  });

  it("takes the provider's own compaction for no part of the prompt that it follows, and charges it", () => {
    const usage = { ...NO_TOKENS, input: 150_000, compaction: 60_000 };
    assert.equal(isLongContext('anthropic', 'claude-haiku-5-5', usage), false);
    assert.equal(costOf('anthropic', 'claude-haiku-5-5', usage), '0.015');
  });

  it('of two calls together is the sum of their costs', () => {
    const tokens = fc.integer({ min: 0, max: 100_000 });
    const usage = fc.record({ input: tokens, output: tokens, cache_read: tokens });
    const cost = (part: Partial<typeof NO_TOKENS>) =>
      BigInt(Math.round(Number(costOf('openai', 'gpt-4o', { ...NO_TOKENS, ...part })) * 1e10));
    fc.assert(
      fc.property(usage, usage, (a, b) => {
        const both = {
          input: a.input + b.input,
          output: a.output + b.output,
          cache_read: a.cache_read + b.cache_read,
        };
        assert.equal(cost(both), cost(a) + cost(b));
      }),
    );
  });
});

describe('priceOfAnswer', () => {
  const answered = (model: string, usage = { ...NO_TOKENS, input: MILLION }): ModelResponse => ({
    provider: 'openai',
    model,
    usage,
    content: [],
    stopReason: 'end_turn',
  });

  it('is that of the model that was asked, if the server names its snapshot', () => {
    const { cost, costs } = priceOfAnswer('gpt-5', answered('gpt-5-2025-08-07'));
    assert.deepEqual([cost, costs?.input], ['1.25', '1.25']);
  });

  it('is that of the dearer model, if the server names another one', () => {
    assert.equal(priceOfAnswer('gpt-5', answered('gpt-5-nano')).cost, '1.25');
    assert.equal(priceOfAnswer('gpt-5-nano', answered('gpt-5')).cost, '1.25');
  });

  it('is that of the model that has one, and unknown if neither has', () => {
    assert.equal(priceOfAnswer('gpt-5', answered('my-gateway-model')).cost, '1.25');
    assert.equal(priceOfAnswer('my-gateway-model', answered('gpt-5')).cost, '1.25');
    assert.deepEqual(priceOfAnswer('my-gateway-model', answered('theirs')), {
      cost: null,
      costs: undefined,
      longContext: false,
    });
  });

  it('says whether the rates for long prompts of that model applied', () => {
    const usage = { ...NO_TOKENS, input: 300_000 };
    assert.equal(priceOfAnswer('gpt-5.4', answered('gpt-5', usage)).longContext, true);
    assert.equal(priceOfAnswer('gpt-5-nano', answered('gpt-5', usage)).longContext, false);
  });
});
