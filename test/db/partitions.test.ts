import assert from 'node:assert/strict';
import type { Database } from '../../db/database.ts';
import { makePartitions } from '../../db/partitions.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { MODES } from '../support/modes.ts';

const PARENTS = ['run_log', 'messages', 'checkpoints'];
const YEAR = 366;

interface Bounds {
  parent: string;
  first: string;
  /** The day after its last. */
  end: string;
  month: string;
}

for (const mode of MODES.filter((each) => each !== 'full')) {
  describe(`Partitions in ${mode} mode`, () => {
    let testDatabase: TestDatabase;
    let db: Database;

    beforeEach(async () => {
      testDatabase = await openTestDatabase(mode);
      db = testDatabase.database;
      // A migration makes all of them, which the template of the tests leaves out on Postgres.
      if (mode !== 'embedded') await makePartitions(db, YEAR);
    });
    afterEach(() => testDatabase.close());

    it('reach twelve months ahead without a gap, those of months after those of days', async () => {
      const bounds = await boundsOf(db);
      const { rows } = await db.asOwner((client) =>
        client.query<{ yesterday: string; horizon: string }>(
          `select (current_date - 1)::text as yesterday, (current_date + interval '12 months')::date::text as horizon`,
        ),
      );
      const [{ yesterday, horizon } = { yesterday: '', horizon: '' }] = rows;
      for (const parent of PARENTS) {
        const own = bounds.filter((each) => each.parent === parent);
        assert.ok(own.length < 32, 'a few of days, and one a month');
        assert.ok((own[0]?.first ?? '') <= yesterday);
        assert.ok((own.at(-1)?.end ?? '') > horizon);
        for (const [index, each] of own.slice(1).entries()) assert.equal(each.first, own[index]?.end);
        for (const each of own) assert.ok(each.end <= nextMonth(each.month), 'none reaches into another month');
      }
      assert.deepEqual(await makePartitions(db, YEAR), { made: 0, delayed: 0, astray: 0 });
    });

    it('of a month come back when they are missing', async () => {
      const before = await boundsOf(db);
      await dropLast(db);
      assert.deepEqual(await makePartitions(db, YEAR), { made: 1, delayed: 0, astray: 0 });
      assert.deepEqual(await boundsOf(db), before);
    });

    it('leave room for no second one where those of days cover the beginning and the end of a month', async () => {
      await db.asOwner((client) =>
        client.query(`create table first_days partition of run_log
            for values from (uuid_floor('2020-02-01')) to (uuid_floor('2020-02-03'));
          create table last_days partition of run_log
            for values from (uuid_floor('2020-02-27')) to (uuid_floor('2020-03-01'))`),
      );
      const attach = (day: string) =>
        db.asMaintenance((tx) => tx.query(`select attach_partition('run_log', $1::date) as made`, [day]));
      assert.deepEqual(await attach('2020-02-01'), [{ made: false }]);
      assert.deepEqual(await attach('2020-02-10'), [{ made: true }]);
      assert.deepEqual(await attach('2020-02-26'), [{ made: false }]);
      const own = (await boundsOf(db)).filter(({ month }) => month === '2020-02-01');
      assert.deepEqual(
        own.map(({ first, end }) => [first, end]),
        [
          ['2020-02-01', '2020-02-03'],
          ['2020-02-03', '2020-02-27'],
          ['2020-02-27', '2020-03-01'],
        ],
      );
    });
  });
}

async function dropLast(db: Database): Promise<void> {
  await db.asOwner((client) =>
    client.query(`do $$ declare part text; begin
      select inhrelid::regclass into part from pg_inherits
        where inhparent = 'run_log'::regclass order by inhrelid::regclass::text desc limit 1;
      execute format('drop table %I', part);
    end $$`),
  );
}

async function boundsOf(db: Database): Promise<Bounds[]> {
  const { rows } = await db.asOwner((client) =>
    client.query<Bounds>(
      `select p as parent, first_day::text as first, end_day::text as end, date_trunc('month', first_day)::date::text as month
       from unnest($1::text[]) p, partition_bounds(p) order by p, first_day`,
      [PARENTS],
    ),
  );
  return rows;
}

function nextMonth(month: string): string {
  const date = new Date(month);
  date.setUTCMonth(date.getUTCMonth() + 1);
  return date.toISOString().slice(0, 10);
}
