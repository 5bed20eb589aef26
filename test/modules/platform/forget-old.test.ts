import assert from 'node:assert/strict';
import { createBudget } from '../../../modules/budgets/write-budget.ts';
import { findBudgetDrift } from '../../../modules/budgets/settle-budgets.ts';
import { maintain } from '../../../modules/platform/maintain.ts';
import { postSignal } from '../../../modules/waits/post-signal.ts';
import { openEngine, text, use, type Engine } from '../../support/engine.ts';
import { DOMAIN_MODES } from '../../support/modes.ts';
import { ageBudgets, usageOfBudget } from '../../support/queries/budgets.ts';
import { ageRun, countBeside, keepMaintenanceFromWaits } from '../../support/queries/waits.ts';

const ASK = use({ name: 'ask_user', input: { question: 'Go on?' } });
const NOTHING = {
  idempotency_keys: 0,
  webhook_deliveries: 0,
  webhooks: 0,
  waits: 0,
  signals: 0,
  reservations: 0,
  model_outages: 0,
  rate_counts: 0,
  own_model_calls: 0,
  memory_accesses: 0,
  memory_extractions: 0,
};

for (const mode of DOMAIN_MODES) {
  describe(`What is old in ${mode} mode`, () => {
    let engine: Engine;
    let agent: string;

    before(async () => {
      engine = await openEngine(mode);
      agent = await engine.agent({ tools: ['ask_user'] });
      const caller = { tenantId: engine.tenantId, workspaceId: engine.platform.workspaceId };
      await engine.context.db.withTenant(engine.tenantId, (tx) =>
        createBudget(tx, caller as Parameters<typeof createBudget>[1], {
          name: 'all',
          period: 'total',
          max_tokens: 1_000_000,
        }),
      );
      engine.context.budgets.forget(engine.tenantId);
    });
    after(() => engine.close());

    const forget = () => maintain(engine.context, 'forget-old');
    /** A run that was asked once and answered, and then has ended or is asked again. */
    async function answered(last: 'ends' | 'asks again'): Promise<string> {
      engine.say([ASK, last === 'ends' ? text('done') : ASK]);
      const { run } = await engine.start(agent, 'ask me');
      assert.equal(await engine.drive(run), 'dormant');
      await postSignal(engine.context, {
        tenantId: engine.tenantId,
        runId: run,
        type: 'user',
        payload: { message: 'yes' },
      });
      assert.equal(await engine.drive(run), 'dormant');
      await maintain(engine.context, 'settle-budgets');
      return run;
    }

    /** What there is of a run beside its log. */
    async function beside(run: string): Promise<Record<string, number>> {
      return countBeside(engine, run);
    }

    /** As if it had been forty days ago: its ids and times. Answers its id. */
    async function age(run: string): Promise<string> {
      return ageRun(engine, run);
    }

    it('is forgotten of a run that has ended, and the budgets keep what it has used', async () => {
      const run = await age(await answered('ends'));
      const young = await answered('ends');
      const spent = await usageOfBudget(engine);
      assert.deepEqual(await beside(run), { waits: 1, open_waits: 0, signals: 1, reservations: 2 });
      assert.deepEqual(await forget(), { ...NOTHING, waits: 1, signals: 1, reservations: 2 });
      assert.deepEqual(await beside(run), { waits: 0, open_waits: 0, signals: 0, reservations: 0 });
      assert.deepEqual(await beside(young), { waits: 1, open_waits: 0, signals: 1, reservations: 2 });
      assert.deepEqual(await usageOfBudget(engine), spent);
      await ageBudgets(engine);
      assert.deepEqual(await findBudgetDrift(engine.context.db), []);
    });

    it('is kept of a run that has not ended, but for the waits that are over', async () => {
      const run = await age(await answered('asks again'));
      assert.deepEqual(await forget(), { ...NOTHING, waits: 1 });
      assert.deepEqual(await beside(run), { waits: 0, open_waits: 1, signals: 1, reservations: 2 });
    });

    it('is forgotten of the other tables where one of them cannot be emptied', async () => {
      const run = await age(await answered('ends'));
      await keepMaintenanceFromWaits(engine.context.db, true);
      const { waits: _, ...others } = NOTHING;
      assert.deepEqual(await forget(), { ...others, signals: 1, reservations: 2 });
      await keepMaintenanceFromWaits(engine.context.db, false);
      assert.deepEqual(await forget(), { ...NOTHING, waits: 1 });
      assert.equal((await beside(run))['waits'], 0);
    });
  });
}
