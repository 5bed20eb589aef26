import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { PROJECTIONS } from '../../core/projections.ts';
import { describeSchema } from '../../db/describe-schema.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { MODES } from '../support/modes.ts';

for (const mode of MODES.filter((each) => each !== 'full')) {
  describe(`The schema in ${mode} mode`, () => {
    let test: TestDatabase;
    before(async () => {
      test = await openTestDatabase(mode);
    });
    after(() => test.close());

    it('is the one of db/schema.sql (renew it: npx tsx scripts/dump-schema.ts)', async () => {
      const written = await readFile('db/schema.sql', 'utf8');
      const [, ...listing] = written.split('\n\n');
      assert.equal(await test.database.asOwner(describeSchema), listing.join('\n\n'));
    });

    it('has each projection with its columns, and a function that applies its changes', async () => {
      const list = (sql: string, value: string) =>
        test.database.asOwner(async (client) =>
          (await client.query<{ name: string }>(sql, [value])).rows.map(({ name }) => name),
        );
      for (const { table, columns, unlogged } of PROJECTIONS) {
        const stored = await list(
          'select column_name as name from information_schema.columns where table_name = $1',
          table,
        );
        assert.deepEqual([...columns, ...unlogged].toSorted(), stored.toSorted(), table);
        // The row of a run is a part of commit_runs itself.
        const applied = table === 'runs' ? 'commit_runs' : `apply_${table}`;
        assert.deepEqual(await list('select proname as name from pg_proc where proname = $1', applied), [applied]);
      }
    });
  });
}
