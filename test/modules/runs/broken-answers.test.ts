import assert from 'node:assert/strict';
import { sumMoney } from '../../../core/money.ts';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import { openEngine, text, type Engine } from '../../support/engine.ts';
import { findBudgetDrift } from '../../../modules/budgets/settle-budgets.ts';
import { reservationsOfRun } from '../../support/queries/budgets.ts';
import { storedRun } from '../../support/queries/runs.ts';

describe('Answers that broke off', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

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
    const [reservation, ...others] = await reservationsOfRun(engine, run);
    assert.deepEqual(others, []);
    assert.equal(reservation?.state, 'estimated');
    const aside = [reservation?.tokens, reservation?.cost_usd].map(Number);
    assert.deepEqual(aside, [sumOf('input') + sumOf('output'), money]);
    assert.deepEqual(await findBudgetDrift(engine.context.db), []);
    assert.deepEqual((await rebuildProjections(engine.context.db, { check: true })).differences, []);
  });
});
