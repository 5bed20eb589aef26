/** Sums of budgets and of usage, whoever else works on their rows. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { checkBudgets, insertBudget, rollUpBudgets, settleLostReservations } from '../../db/budgets.ts';
import { commitRun, NO_ROWS, type ReservationChange, type RunChange } from '../../db/commit-run.ts';
import { rollUpUsage } from '../../db/dashboard.ts';
import type { Database } from '../../db/database.ts';
import { newId } from '../../lib/new-id.ts';
import { findBudgetDrift } from '../../modules/budgets/settle-budgets.ts';
import { cancelRun } from '../../modules/runs/end-run.ts';
import { openEngine, type Engine } from '../support/engine.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import {
  ageReservations,
  removeBudgets,
  reservationsOfRun,
  spendingOfBudget,
  countAddedRuns,
} from '../support/queries/budgets.ts';
import { sideBySide } from '../support/side-by-side.ts';

describe('Adding up', () => {
  let engine: Engine;
  let agent: string;
  before(async () => {
    engine = await openEngine();
    agent = await engine.agent();
  });
  afterEach(() => removeBudgets(engine));
  after(() => engine?.close());

  const start = async () => (await engine.start(agent, 'hello')).run;
  const budget = async (most: number) => {
    const { tenantId } = engine;
    const limits = { max_tokens: most, max_cost_usd: null, soft_limit: null, on_soft_limit: null };
    const owner = { workspaceId: null, agentId: null, name: 'all', period: 'day' as const };
    const row = await inTenant((tx) => insertBudget(tx, { id: newId(), tenantId, ...owner, limits }));
    return row.id;
  };
  const inTenant: <T>(work: Parameters<typeof engine.context.db.withTenant<T>>[1]) => Promise<T> = (work) =>
    engine.context.db.withTenant(engine.tenantId, work);
  const commit = async (run: string, change: Partial<RunChange>) => {
    const of = { tenant_id: engine.tenantId, run_id: run, events: [], ...NO_ROWS };
    assert.ok((await commitRun(engine.context.db, { ...of, ...change })).ok);
  };
  const reservation = (run: string, step: number, tokens: number): ReservationChange => {
    const { workspaceId: workspace_id } = engine.platform;
    return { step, tokens, cost_usd: '0', workspace_id, agent_id: agent, root_run_id: run };
  };
  const spentOf = async (id: string) => Number((await spendingOfBudget(engine, id)).tokens);
  const statesOf = async (run: string) =>
    (await reservationsOfRun(engine, run)).map(({ state, tokens }) => `${state} ${tokens}`);
  const settleLost = () => inTenant((tx) => settleLostReservations(tx, engine.tenantId, 60_000));
  const addUp = (most: number) => inTenant((tx) => rollUpBudgets(tx, engine.tenantId, most));

  it('makes of a budget the sum of its calls, whoever adds them up beside whom', async function () {
    if (DOMAIN_MODE === 'embedded') return this.skip();
    const id = await budget(1_000_000);
    const run = await start();
    let step = 0;
    let sum = 0;
    const call = fc.record({
      tokens: fc.integer({ min: 1, max: 1000 }),
      settle: fc.constantFrom('settled', 'released'),
    });
    const most = fc.integer({ min: 1, max: 6 });
    await fc.assert(
      fc.asyncProperty(fc.array(call, { minLength: 1, maxLength: 5 }), most, most, async (calls, one, other) => {
        for (const { tokens, settle } of calls) {
          step++;
          await commit(run, { reservations: [reservation(run, step, 1000)] });
          const end = { step, settle, ...(settle === 'settled' && { tokens, cost_usd: '0' }) };
          await commit(run, { reservations: [end as ReservationChange] });
          sum += settle === 'settled' ? tokens : 0;
        }
        await sideBySide(engine, {
          first: (tx) => rollUpBudgets(tx, engine.tenantId, one),
          second: () => addUp(other),
          statement: 'roll_up_budgets',
        });
        assert.equal(await spentOf(id), sum);
      }),
      { numRuns: 5 },
    );
  });

  it('leaves a call at its estimate that is settled after that was added up, and not before', async () => {
    const id = await budget(1_000_000);
    const run = await start();
    await commit(run, { reservations: [reservation(run, 1, 1000)] });
    await ageReservations(engine, run);
    assert.equal(await settleLost(), 1);
    await commit(run, { reservations: [{ step: 1, settle: 'settled', tokens: 700, cost_usd: '0' }] });
    assert.deepEqual(await statesOf(run), ['settled 700']);
    await commit(run, { reservations: [reservation(run, 2, 1000), { step: 2, settle: 'estimated' }] });
    await addUp(9);
    const before = await spentOf(id);
    await commit(run, { reservations: [{ step: 2, settle: 'settled', tokens: 5, cost_usd: '0' }] });
    assert.deepEqual([(await statesOf(run))[1], await spentOf(id)], ['estimated 1000', before]);
    const differing = (await findBudgetDrift(engine.context.db)).filter(({ budget_id }) => budget_id !== null);
    assert.deepEqual(differing, []);
  });

  it('settles nothing that an earlier driver of the run has set aside for the same step', async () => {
    const run = await start();
    await commit(run, { reservations: [reservation(run, 1, 1000)] });
    await commit(run, { bump_fence: true, reservations: [reservation(run, 1, 500)] });
    await commit(run, { reservations: [{ step: 1, settle: 'settled', tokens: 5, cost_usd: '0' }] });
    assert.deepEqual(await statesOf(run), ['estimated 1000', 'settled 5']);
  });

  it('takes a call for lost only where its driver is, however long it takes', async () => {
    const driven = async () => {
      const run = await start();
      await commit(run, { bump_fence: true, lease_ms: 3_600_000, reservations: [reservation(run, 1, 1000)] });
      await ageReservations(engine, run);
      return run;
    };
    const [alive, followed, ended, young] = [await driven(), await driven(), await driven(), await start()];
    await commit(young, { reservations: [reservation(young, 1, 1000)] });
    await commit(followed, { bump_fence: true, lease_ms: 3_600_000 });
    await cancelRun(engine.context, { tenantId: engine.tenantId, runId: ended });
    assert.equal(await settleLost(), 2);
    const states = await Promise.all([alive, followed, ended, young].map(statesOf));
    assert.deepEqual(states.flat(), ['open 1000', 'estimated 1000', 'estimated 1000', 'open 1000']);
    await engine.everyoneDies();
    assert.equal(await settleLost(), 1);
    assert.deepEqual(await statesOf(alive), ['estimated 1000']);
  });

  it('lets one of two calls be made that do not both fit, although both have set aside theirs', async function () {
    if (DOMAIN_MODE === 'embedded') return this.skip();
    await budget(1000);
    const runs = [await start(), await start()];
    for (const run of runs) await commit(run, { reservations: [reservation(run, 1, 700)] });
    const of = { tenant_id: engine.tenantId, workspace_id: engine.platform.workspaceId, agent_id: agent };
    const wants = { step: 1, fence: 0, input: 100, input_cost: null, output: 600, output_cost: null, least: 500 };
    const asking = (run: string | undefined, db: Database) =>
      checkBudgets(db, { ...of, ...wants, run_id: run ?? '', root_run_id: run ?? '' });
    const [one, other] = await sideBySide(engine, {
      first: (tx) => asking(runs[0], { ...engine.context.db, call: ({ text, values }) => tx.query(text, values) }),
      second: () => asking(runs[1], engine.context.db),
      statement: 'check_budgets',
    });
    assert.deepEqual([one.fits, other.fits], [false, true]);
  });

  it('counts a run once in the usage, whoever adds it up beside whom', async function () {
    if (DOMAIN_MODE === 'embedded') return this.skip();
    await inTenant((tx) => rollUpUsage(tx, engine.tenantId, 100));
    const before = await countAddedRuns(engine);
    await engine.finish(await start());
    const adding = await sideBySide(engine, {
      first: (tx) => rollUpUsage(tx, engine.tenantId, 100),
      second: () => inTenant((tx) => rollUpUsage(tx, engine.tenantId, 100)),
      statement: 'roll_up_usage',
    });
    assert.deepEqual([adding, (await countAddedRuns(engine)) - before], [[1, 0], 1]);
  });
});
