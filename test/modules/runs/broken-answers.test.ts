import assert from 'node:assert/strict';
import { sumMoney } from '../../../core/money.ts';
import { readUsage } from '../../../db/dashboard.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import type { FakeServer } from '../../support/fake-http.ts';
import { startFakeOpenAI, type OpenAIReply } from '../../support/fake-openai.ts';
import { DOMAIN_MODE } from '../../support/modes.ts';
import { openEngine, text, use, type Engine } from '../../support/engine.ts';
import { findBudgetDrift } from '../../../modules/budgets/settle-budgets.ts';
import { reservationsOfRun } from '../../support/queries/budgets.ts';
import { storedRun } from '../../support/queries/runs.ts';

describe('Answers that broke off', () => {
  let engine: Engine;
  let openai: FakeServer;
  let sayOpenAI: (n: number) => OpenAIReply;
  before(async () => {
    openai = await startFakeOpenAI((_request, n) => sayOpenAI(n));
    engine = await openEngine(DOMAIN_MODE, { OPENAI_API_KEY: 'sk-test', OPENAI_BASE_URL: `${openai.url}/v1` });
  });
  after(() => Promise.all([engine.close(), openai.close()]));

  it('are paid for: the run, its turn, its log and its budget have what the provider had counted', async () => {
    const broken = { ...text('half of'), error: { type: 'api_error', midStream: true } };
    engine.say([broken, broken, text('all of it')]);
    const agent = await engine.agent({ llm_config: { default_model: 'claude-sonnet-5', base_delay: 0 } });
    const { run } = await engine.start(agent, 'go', { config: { budget: { max_tokens: 100_000 } } });
    await engine.finish(run);
    const attempts = (await engine.log(run)).flatMap((event) =>
      event.type === 'model.retried' || event.type === 'model.responded' ? [event.payload] : [],
    );
    assert.equal(attempts.length, 3);
    assert.ok(attempts.every(({ usage }) => (usage?.input ?? 0) > 0));
    const sumOf = (count: 'input' | 'output') =>
      attempts.reduce((sum, { usage }) => sum + (usage ? usage[count] : 0), 0);
    const money = Number(sumMoney(attempts.map(({ cost_usd }) => cost_usd ?? null)));
    const { status, tokens_in, tokens_out, cost_usd } = await storedRun(engine, run);
    assert.equal(status, 'completed');
    assert.deepEqual([tokens_in, tokens_out, cost_usd].map(Number), [sumOf('input'), sumOf('output'), money]);
    const reservations = await reservationsOfRun(engine, run);
    assert.deepEqual(
      reservations.map(({ state }) => state),
      ['estimated', 'estimated', 'settled'],
      'each attempt has been set aside for',
    );
    const aside = [
      reservations.reduce((sum, { tokens }) => sum + tokens, 0),
      Number(sumMoney(reservations.map((each) => each.cost_usd))),
    ];
    assert.deepEqual(aside, [sumOf('input') + sumOf('output'), money]);
    await soundNow();
    const week = {
      tenantId: engine.tenantId,
      workspaceId: engine.caller.workspaceId,
      from: dayFromNow(-3),
      to: dayFromNow(3),
    };
    const used = await engine.context.db.withTenant(engine.tenantId, (tx) =>
      readUsage(tx, { ...week, by: 'day', kinds: ['model'] }),
    );
    const shown = used.map(({ count, tokens_in: into, tokens_out: out }) => [count, into, out].map(Number));
    assert.deepEqual(shown, [[1, sumOf('input'), sumOf('output')]]);
    assert.match(await engine.context.metrics.registry.metrics(), new RegExp(`kind="input"\\} ${sumOf('input')}\\n`));
  });

  describe('before the provider had counted them', () => {
    const LONG = 'word '.repeat(900);
    const CUT = { type: 'api_error', midStream: true };
    const llm_config = { base_delay: 0, max_tokens: 5000 };

    const ended = async (model: string) => {
      const agent = await engine.agent({
        llm_config: { ...llm_config, default_model: model },
        execution_config: { provider_outage_seconds: 0 },
      });
      const { run } = await engine.start(agent, 'go', { config: { budget: { max_tokens: 100_000 } } });
      await engine.finish(run);
      await engine.providersBack();
      const { status, tokens_in, tokens_out, cost_usd } = await storedRun(engine, run);
      assert.equal(status, 'failed');
      const attempts = (await engine.log(run)).flatMap((event) =>
        event.type === 'model.retried' || event.type === 'model.failed' ? [event.payload] : [],
      );
      assert.equal(attempts.length, 3);
      const reservations = await reservationsOfRun(engine, run);
      const aside = reservations.reduce((sum, { state, tokens }) => sum + (state === 'released' ? 0 : tokens), 0);
      assert.equal(aside, tokens_in + tokens_out, JSON.stringify(reservations));
      await soundNow();
      const states = reservations.map(({ state }) => state);
      return { tokens_in, tokens_out, cost_usd: Number(cost_usd), usages: attempts.map(({ usage }) => usage), states };
    };

    it('count as what had come of them, and as their prompts, by an estimate that is marked', async () => {
      sayOpenAI = () => ({ text: LONG, error: CUT });
      const { tokens_in, tokens_out, cost_usd, usages, states } = await ended('openai/gpt-4.1');
      assert.ok(tokens_out >= 3 * (LONG.length / 4) && tokens_in > 0 && cost_usd > 0, `${tokens_in}, ${tokens_out}`);
      assert.ok(usages.every((usage) => usage?.estimated));
      assert.deepEqual(states, ['estimated', 'estimated', 'estimated']);
    });

    it('count as what had come of them where the provider had counted the prompt and one token', async () => {
      const usage = { input_tokens: 70, output_tokens: 1 };
      engine.say(() => ({ ...text(LONG), usage, error: CUT }));
      const { tokens_in, tokens_out, usages } = await ended('claude-sonnet-5');
      assert.equal(tokens_in, 210, "the provider's own count of the prompt");
      assert.ok(tokens_out >= 3 * (LONG.length / 4), String(tokens_out));
      assert.ok(usages.every((used) => used?.estimated));
    });

    it('count by the thoughts and the arguments that had come, too', async () => {
      const thinking = { type: 'thinking', thinking: LONG, signature: 's' };
      const call = { type: 'tool_use', id: 'toolu_1', name: 'calculator', input: { expression: LONG } };
      engine.say(() => ({ content: [thinking, call], usage: null, error: CUT }));
      const { tokens_out } = await ended('claude-sonnet-5');
      assert.ok(tokens_out >= 6 * (LONG.length / 4), String(tokens_out));
    });

    it('are free where nothing of them had come', async () => {
      sayOpenAI = () => ({ error: { ...CUT, midStream: false, status: 500 } });
      const { tokens_in, tokens_out, usages, states } = await ended('openai/gpt-4.1');
      assert.deepEqual([tokens_in, tokens_out], [0, 0]);
      assert.deepEqual(usages, [undefined, undefined, undefined]);
      assert.deepEqual(states, ['released']);
    });
  });

  it('are not followed by an attempt, nor by another model, that the budget has no room for', async () => {
    const cut = { ...text('half of'), usage: { input_tokens: 9000, output_tokens: 9 } };
    const llm_config = { default_model: 'claude-sonnet-5', base_delay: 0, max_tokens: 100 };
    const budget = { max_tokens: 9300 };
    for (const more of [{ max_retries: 2 }, { max_retries: 0, fallback_model: 'claude-haiku-4-5' }]) {
      engine.say([{ ...cut, error: { type: 'api_error', midStream: true } }, text('all of it')]);
      const agent = await engine.agent({ name: `cut off ${more.max_retries}`, llm_config: { ...llm_config, ...more } });
      const { run } = await engine.start(agent, 'word '.repeat(400), { config: { budget } });
      await engine.finish(run);
      const log = await engine.log(run);
      assert.equal(log.filter(({ type }) => type === 'budget.exceeded').length, 1);
      const { tokens_in, tokens_out } = await storedRun(engine, run);
      assert.equal(tokens_in + tokens_out, 9009);
      await soundNow();
    }
  });

  it('are settled with the budget where an answer after them cannot be kept', async () => {
    const { context } = engine;
    const faults = [new TypeError('not what it should be')];
    const commit: Context['commit'] = (change) => {
      const fault = change.new_calls && faults.shift();
      return fault ? Promise.reject(fault) : context.commit(change);
    };
    engine.say([use({ name: 'calculator', input: { expression: '1+1' } }), text('two')]);
    const agent = await engine.agent({ name: 'calculates', tools: ['calculator'] });
    const { run } = await engine.start(agent, 'go', { config: { budget: { max_tokens: 100_000 } } });
    await engine.drive(run, { ...context, commit });
    const reservations = await reservationsOfRun(engine, run);
    assert.deepEqual(
      reservations.map(({ state }) => state),
      ['settled', 'settled'],
    );
    await soundNow();
  });

  async function soundNow(): Promise<void> {
    assert.deepEqual(await findBudgetDrift(engine.context.db), []);
    assert.deepEqual((await rebuildProjections(engine.context.db, { check: true })).differences, []);
  }

  const dayFromNow = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);
});
