import assert from 'node:assert/strict';
import { NO_TOKENS, type DearerTier, type StreamModel } from '../../core/model.ts';
import { anthropicModel } from '../../llm/anthropic.ts';
import { openaiModel } from '../../llm/openai.ts';
import { costOf, mostCostOf, priceOfAnswer } from '../../llm/prices.ts';
import { startFakeHttp } from '../support/fake-http.ts';
import { ask, modelRequest } from '../support/model-request.ts';

const MILLION = 1_000_000;

interface Served {
  open: (options: { apiKey: string; baseUrl: string }) => StreamModel;
  events: object[];
}

const claude = (usage: object, end: object[] = [{ type: 'message_stop' }]): Served => ({
  open: anthropicModel,
  events: [
    { type: 'message_start', message: { content: [], usage: { input_tokens: 7, output_tokens: 1, ...usage } } },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: 'Hello' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: '!' } },
    ...end,
  ],
});

const gpt = (service_tier: string): Served => ({
  open: openaiModel,
  events: [{ choices: [{ index: 0, delta: { content: 'Hello' }, finish_reason: 'stop' }], service_tier }],
});

async function asked({ open, events }: Served) {
  const server = await startFakeHttp(async (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(''));
  });
  try {
    return await ask(open({ apiKey: 'k', baseUrl: server.url }), modelRequest());
  } finally {
    await server.close();
  }
}

describe('The tier in which an answer was served', () => {
  const cases: [string, Served, DearerTier[] | undefined][] = [
    ["of Claude's fast mode", claude({ speed: 'fast', inference_geo: 'global' }), ['fast']],
    ["of Claude's fast mode in the US", claude({ speed: 'fast', inference_geo: 'us' }), ['fast', 'us']],
    ['of Claude in the US', claude({ speed: 'standard', inference_geo: 'us' }), ['us']],
    ['of Claude that is the standard one', claude({ speed: 'standard', inference_geo: 'not_available' }), undefined],
    ["of GPT's priority", gpt('priority'), ['priority']],
    ['of GPT that is the standard one', gpt('default'), undefined],
    ['that no provider has', gpt('on_demand'), undefined],
  ];
  for (const [name, served, tiers] of cases) {
    it(`${name} is known as the server names it`, async () => {
      assert.deepEqual((await asked(served)).response.tiers, tiers);
    });
  }

  it('is known of an answer that broke off', async () => {
    await assert.rejects(asked(claude({ speed: 'fast' }, [])), { kind: 'unavailable', tiers: ['fast'] });
  });
});

describe('The cost of an answer in a dearer tier', () => {
  const usage = { ...NO_TOKENS, input: MILLION, output: MILLION };

  it('is a multiple of the list price, of every kind of token', () => {
    assert.equal(costOf('anthropic', 'claude-opus-5', { ...usage, tiers: ['fast'] }), '60');
    assert.equal(costOf('anthropic', 'claude-opus-4-6', { ...usage, tiers: ['us'] }), '33');
    assert.equal(costOf('anthropic', 'claude-opus-5', { ...usage, tiers: ['fast', 'us'] }), '66');
    const cached = { ...NO_TOKENS, cache_read: MILLION, cache_write_5m: MILLION, cache_write_1h: MILLION };
    assert.equal(costOf('anthropic', 'claude-opus-4-6', { ...cached, tiers: ['us'] }), '18.425');
    assert.equal(costOf('openai', 'gpt-4.1-2025-04-14', { ...usage, tiers: ['priority'] }), '17.5');
  });

  it('is unknown where the price of the tier is', () => {
    assert.equal(costOf('anthropic', 'claude-opus-4-6', { ...usage, tiers: ['fast'] }), null);
    assert.equal(costOf('anthropic', 'claude-opus-4-6', { ...usage, tiers: ['fast', 'us'] }), null);
    assert.equal(costOf('openai', 'gpt-5.6-sol', { ...usage, tiers: ['priority'] }), null);
    assert.equal(costOf('acme', 'claude-opus-5', { ...usage, tiers: ['fast'] }), null);
  });

  it('is in its price and in the parts of it', () => {
    const response = { provider: 'anthropic', model: 'claude-opus-5', content: [], stopReason: 'end_turn' as const };
    const { cost, costs } = priceOfAnswer('claude-opus-5', { ...response, usage, tiers: ['fast'] });
    assert.deepEqual([cost, costs?.input, costs?.output], ['60', '10', '50']);
    const unknown = priceOfAnswer('claude-opus-4-8', { ...response, model: 'claude-opus-4-8', usage, tiers: ['fast'] });
    assert.deepEqual([unknown.cost, unknown.costs], [null, undefined]);
    assert.equal(mostCostOf('anthropic', 'claude-opus-5', { output: MILLION }), '25');
  });
});
