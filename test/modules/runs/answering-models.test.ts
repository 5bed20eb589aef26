import assert from 'node:assert/strict';
import { findBudgetDrift } from '../../../modules/budgets/settle-budgets.ts';
import { openEngine, type Engine } from '../../support/engine.ts';
import type { FakeServer } from '../../support/fake-http.ts';
import { startFakeOpenAI, type OpenAIReply } from '../../support/fake-openai.ts';
import { DOMAIN_MODE } from '../../support/modes.ts';
import { reservationsOfRun } from '../../support/queries/budgets.ts';
import { storedRun } from '../../support/queries/runs.ts';

/** Asks for a call, at $0.066 of gpt-5.6-terra, $0.0017 of gpt-5-nano. */
const STEP: OpenAIReply = {
  calls: [{ id: 'call_1', name: 'calculator', arguments: '{"expression":"1+1"}' }],
  usage: { prompt_tokens: 30_000, completion_tokens: 500 },
};
const END: OpenAIReply = { text: 'two', usage: { prompt_tokens: 30_000, completion_tokens: 500 } };

describe('An answer of a server that names another model than it was asked for', () => {
  let engine: Engine;
  let server: FakeServer;
  let say: (request: Record<string, unknown>, n: number) => OpenAIReply;
  before(async () => {
    server = await startFakeOpenAI((request) => say(request, server.requests.length - 1));
    engine = await openEngine(DOMAIN_MODE, { OPENAI_API_KEY: 'sk-test', OPENAI_BASE_URL: `${server.url}/v1` });
  });
  after(() => Promise.all([engine.close(), server.close()]));

  const finished = async (asked: string, more: { fallback_model?: string; max_retries?: number } = {}) => {
    server.requests.length = 0;
    const llm_config = { default_model: `openai/${asked}`, max_tokens: 1000, ...more };
    const agent = await engine.agent({ tools: ['calculator'], llm_config });
    const { run } = await engine.start(agent, 'go', { config: { budget: { max_cost_usd: 0.1 } } });
    await engine.finish(run);
    assert.deepEqual(await findBudgetDrift(engine.context.db), []);
    const answers = (await engine.log(run)).flatMap((event) =>
      event.type === 'model.responded' ? [event.payload] : [],
    );
    const { stop_reason, cost_usd } = await storedRun(engine, run);
    const settled = (await reservationsOfRun(engine, run)).map((each) => Number(each.cost_usd));
    return { stop_reason, cost_usd: Number(cost_usd), answers, settled };
  };

  for (const { named, what } of [
    { named: 'my-gateway-model', what: 'one without a price' },
    { named: 'gpt-5-nano', what: 'a cheaper one' },
  ]) {
    it(`costs what the asked one does, and uses up the budget, where that is ${what}`, async () => {
      say = (_request, n) => ({ ...(n < 4 ? STEP : END), model: named });
      const { stop_reason, cost_usd, answers } = await finished('gpt-5.6-terra');
      assert.deepEqual([stop_reason, cost_usd], ['budget', 0.132]);
      assert.equal(answers.length, 2);
      for (const { model, costs } of answers) assert.deepEqual([model, costs?.input], [named, '0.06']);
    });
  }

  it('costs what the named one does where that is dearer', async () => {
    say = (_request, n) => ({ ...(n < 4 ? STEP : END), model: 'gpt-5.6-terra' });
    const { stop_reason, cost_usd } = await finished('gpt-5-nano');
    assert.deepEqual([stop_reason, cost_usd], ['budget', 0.132]);
  });

  it('costs what the fallback does that was asked in the end', async () => {
    say = ({ model }) =>
      model === 'gpt-5.6-terra'
        ? { error: { type: 'invalid_request_error', status: 400 } }
        : { ...END, model: 'my-gateway-model' };
    const { cost_usd, settled, answers } = await finished('gpt-5.6-terra', { fallback_model: 'openai/gpt-5-nano' });
    assert.equal(answers[0]?.model, 'my-gateway-model');
    assert.deepEqual([cost_usd, settled], [0.0017, [0.0017]]);
  });
});
