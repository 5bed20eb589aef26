/** The log of a build between 0.1.0 and `0174-lines-of-events`, in which what differs between the events of a commit was arrays. */
import assert from 'node:assert/strict';
import { migrate } from '../../db/migrate.ts';
import { newId } from '../../lib/new-id.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { MODES } from '../support/modes.ts';

for (const mode of MODES.filter((each) => each !== 'full')) {
  describe(`The log of a build with arrays, in ${mode} mode,`, () => {
    const [tenant, run, turn, next] = [newId(), newId(), newId(), newId()];
    let test: TestDatabase;

    beforeEach(async () => {
      test = await openTestDatabase(mode);
    });
    afterEach(() => test.close());

    it('says the same when its events are lines, with those of 0.1.0 beside', async () => {
      await test.database.asOwner(async (client) => {
        await client.query(`alter table run_log add column types text[], add column schema_versions smallint[], add column turn_ids uuid[],
            add column steps integer[], add column actors text[];
          delete from schema_migrations where name = '0174-lines-of-events'`);
        await client.query(`select set_config('drover.tenant_id', $1, false)`, [tenant]);
        const add = (columns: string, values: string) =>
          client.query(
            `insert into run_log (tenant_id, workspace_id, run_id, occurred_at, ${columns})
               select $1, $1, $2, now(), ${values} from (select $3::uuid as turn, $4::uuid as next) ids`,
            [tenant, run, turn, next],
          );
        await add('seq, type, schema_version, actor, payload', `1, 'run.created', 3, 'user', '{"kind": "agent"}'`);
        await add(
          'seq, types, schema_versions, turn_id, step, actor, payload',
          `3, '{turn.started,run.started}', '{4,1}', turn, null, 'worker', '[{"number": 1}, {}]'`,
        );
        await add(
          'seq, types, schema_versions, turn_ids, steps, actors, payload',
          `6, '{model.responded,turn.completed,turn.started}', '{3,2,4}', array[turn, null, next], '{1,null,2}', '{agent,worker,user}',
             '[{"text": "one\\ntwo"}, {}, {"number": 2}]'`,
        );
      });
      await migrate({ databaseUrl: undefined, dataDir: 'memory:' }, test.database);
      const events = await test.database.withTenant(tenant, (tx) =>
        tx.query(
          'select seq, commit_seq, type, schema_version, turn_id, step, actor, payload from run_events where run_id = $1 order by seq',
          [run],
        ),
      );
      const [none, work] = [{ turn_id: null, step: null }, 'worker'];
      assert.deepEqual(events, [
        {
          seq: 1,
          commit_seq: 1,
          type: 'run.created',
          schema_version: 3,
          ...none,
          actor: 'user',
          payload: { kind: 'agent' },
        },
        {
          seq: 2,
          commit_seq: 3,
          type: 'turn.started',
          schema_version: 4,
          turn_id: turn,
          step: null,
          actor: work,
          payload: { number: 1 },
        },
        {
          seq: 3,
          commit_seq: 3,
          type: 'run.started',
          schema_version: 1,
          turn_id: turn,
          step: null,
          actor: work,
          payload: {},
        },
        {
          seq: 4,
          commit_seq: 6,
          type: 'model.responded',
          schema_version: 3,
          turn_id: turn,
          step: 1,
          actor: 'agent',
          payload: { text: 'one\ntwo' },
        },
        { seq: 5, commit_seq: 6, type: 'turn.completed', schema_version: 2, ...none, actor: work, payload: {} },
        {
          seq: 6,
          commit_seq: 6,
          type: 'turn.started',
          schema_version: 4,
          turn_id: next,
          step: 2,
          actor: 'user',
          payload: { number: 2 },
        },
      ]);
    });
  });
}
