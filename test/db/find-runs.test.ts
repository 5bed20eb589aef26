import assert from 'node:assert/strict';
import type { Tx } from '../../db/database.ts';
import { findRunRefs, findRuns } from '../../db/runs.ts';
import { newId } from '../../lib/new-id.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { countPlans, plansOf } from '../support/queries/postgres.ts';
import { insertRun } from '../support/stored-runs.ts';

/** So often a prepared statement is planned before Postgres compares what a plan for all values would cost. */
const PLANNED_FIRST = 5;

const RUNS = 200;

describe('reading runs by their ids', () => {
  const tenant = newId();
  let testDatabase: TestDatabase;
  before(async () => {
    testDatabase = await openTestDatabase(DOMAIN_MODE);
    await testDatabase.database.asOwner(async (client) => {
      for (let n = 0; n < RUNS; n++) await insertRun(client, { tenant, id: newId(), thread: newId(), minutesAgo: n });
      await client.query('analyze runs');
    });
  });
  after(() => testDatabase.close());

  it('is not planned anew each time, which takes many times as long as the reading', async () => {
    const plans = await testDatabase.database.withTenant(tenant, async (tx) => {
      let sql = '';
      const keep: Tx['query'] = async (text) => {
        sql = text;
        return [];
      };
      await findRuns({ ...tx, query: keep }, [newId()]);
      return countPlans(tx, sql, { values: `'{${newId()}}'`, times: 20 });
    });
    assert.equal(plans, PLANNED_FIRST);
  });

  it('keeps its plan where the tables have grown since the first ones were made, and leaves other statements theirs', async () => {
    const { database } = testDatabase;
    const mode = async (tx: Tx) =>
      (await tx.query<{ mode: string }>("select current_setting('plan_cache_mode') as mode")).map((row) => row.mode);
    assert.deepEqual(await database.withTenantOnce(tenant, mode), ['force_generic_plan']);
    assert.deepEqual(await database.withTenant(tenant, mode), ['auto']);
  });

  it('goes by indexes, for one as for many', async () => {
    const ids = Array.from({ length: 50 }, newId);
    for (const asked of [ids.slice(0, 1), ids]) {
      for (const find of [findRuns, findRunRefs]) {
        const plan = await plansOf(testDatabase.database, tenant, (tx) => find(tx, asked));
        assert.doesNotMatch(plan, /Seq Scan/);
        assert.match(plan, /runs_pkey/);
      }
    }
  });
});
