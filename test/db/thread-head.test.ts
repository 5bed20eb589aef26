import assert from 'node:assert/strict';
import { newId } from '../../lib/new-id.ts';
import { migrate } from '../../db/migrate.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { MODES } from '../support/modes.ts';
import { insertRun, insertThread } from '../support/stored-runs.ts';

for (const mode of MODES.filter((each) => each !== 'full')) {
  describe(`What a thread knows of its runs, in ${mode} mode,`, () => {
    const tenant = newId();
    let test: TestDatabase;

    beforeEach(async () => {
      test = await openTestDatabase(mode);
    });
    afterEach(() => test.close());

    const threadOf = (id: string) =>
      test.database.withTenant(tenant, async (tx) => {
        const [thread] = await tx.query<{ head_run_id: string | null; run_count: number }>(
          'select head_run_id, run_count from threads where id = $1',
          [id],
        );
        const runs = await tx.query<{ id: string }>(
          'select id, thread_place from runs where thread_id = $1 order by thread_place',
          [id],
        );
        return { ...thread, runs: runs.map((run) => run.id) };
      });

    it('is ranked by when the runs were created, whatever their ids say, where they were there before', async () => {
      const thread = newId();
      const empty = newId();
      const [third, first, second] = [newId(), newId(), newId()];
      await test.database.asOwner(async (client) => {
        await client.query(`drop trigger place_run on runs; drop function place_run();
          alter table threads drop column head_run_id, drop column run_count;
          alter table runs drop column thread_place;
          delete from schema_migrations where name = '0024-thread-head'`);
        for (const id of [thread, empty]) await insertThread(client, { tenant, id });
        await insertRun(client, { tenant, id: first, thread, minutesAgo: 30 });
        await insertRun(client, { tenant, id: second, thread, minutesAgo: 20 });
        await insertRun(client, { tenant, id: third, thread, minutesAgo: 10 });
      });
      await migrate({ databaseUrl: undefined, dataDir: 'memory:' }, test.database);
      assert.deepEqual(await threadOf(thread), { head_run_id: third, run_count: 3, runs: [first, second, third] });
      assert.deepEqual(await threadOf(empty), { head_run_id: null, run_count: 0, runs: [] });
    });

    it('is kept where a process of the release before creates the runs', async () => {
      const thread = newId();
      const [second, first] = [newId(), newId()];
      await test.database.asOwner(async (client) => {
        await insertThread(client, { tenant, id: thread });
        for (const id of [first, second]) await insertRun(client, { tenant, id, thread, minutesAgo: 0 });
      });
      assert.deepEqual(await threadOf(thread), { head_run_id: second, run_count: 2, runs: [first, second] });
    });
  });
}
