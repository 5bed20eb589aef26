/** Migrations of rows that were there before: each test undoes a migration, writes as earlier builds did, and migrates again. */
import assert from 'node:assert/strict';
import { findByName, listAgents } from '../../db/agents.ts';
import { ERASERS } from '../../db/erasure.ts';
import { takeDueErasure } from '../../db/erasures.ts';
import { migrate } from '../../db/migrate.ts';
import { listRuns } from '../../db/runs.ts';
import { listThreads } from '../../db/threads.ts';
import { listTools } from '../../db/tools.ts';
import { newId } from '../../lib/new-id.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { MODES } from '../support/modes.ts';
import { asOwner, insertRun, insertThread } from '../support/stored-runs.ts';

for (const mode of MODES.filter((each) => each !== 'full')) {
  describe(`A migration of what was there before, in ${mode} mode,`, () => {
    let tenant: string;
    let test: TestDatabase;

    before(async () => {
      test = await openTestDatabase(mode);
    });
    after(() => test.close());
    beforeEach(() => {
      tenant = newId();
    });

    it('gives a name that agents shared to the oldest one that is not deprecated', async () => {
      const [workspace, old, retired, young, other] = [newId(), newId(), newId(), newId(), newId()];
      await test.database.asOwner(async (client) => {
        await client.query(`drop index agents_by_name, agents_named; alter table agents drop column own_name;
          delete from schema_migrations where name = '0173-names-of-agents'`);
        await client.query(`select set_config('drover.tenant_id', $1, false)`, [tenant]);
        await client.query(`insert into tenants (id, name) values ($1, 'tenant')`, [tenant]);
        await client.query(`set role drover_app`);
        await client.query(`insert into workspaces (id, tenant_id, name) values ($1, $2, 'default')`, [
          workspace,
          tenant,
        ]);
        for (const [id, name, status, minutes] of [
          [young, 'clerk', 'active', 1],
          [old, 'clerk', 'offline', 2],
          [retired, 'clerk', 'deprecated', 3],
          [other, 'lawyer', 'active', 1],
        ]) {
          await client.query(
            `insert into agents (id, tenant_id, workspace_id, name, status, current_version, created_at)
               values ($1, $2, $3, $4, $5, '1.0.0', now() - $6 * interval '1 minute')`,
            [id, tenant, workspace, name, status, minutes],
          );
        }
        await client.query('reset role');
      });
      await migrate({ databaseUrl: undefined, dataDir: 'memory:' }, test.database);
      const found = await test.database.withTenant(tenant, async (tx) => ({
        clerk: await findByName(tx, workspace, 'clerk'),
        lawyer: await findByName(tx, workspace, 'lawyer'),
        own: (await tx.query<{ id: string }>('select id from agents where own_name = name'))
          .map(({ id }) => id)
          .toSorted(),
      }));
      assert.deepEqual(found, { clerk: old, lawyer: other, own: [old, other].toSorted() });
    });

    it('makes lines of a log with arrays, as builds between 0.1.0 and 0174-lines-of-events wrote it, with events of 0.1.0 beside', async () => {
      const [run, turn, next] = [newId(), newId(), newId()];
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

    it('knows what permissions the current versions of tools need, also those that a process of the release before publishes', async () => {
      const tool = newId();
      const publish = (version: string, permissions: object[]): [string, unknown[]] => [
        `insert into tool_versions (tool_id, version, ordinal, tenant_id, definition, content_hash)
           select $1, $2::text, coalesce(max(ordinal), 0) + 1, $3, jsonb_build_object('permissions', $4::jsonb), '' from tool_versions where tool_id = $1`,
        [tool, version, tenant, JSON.stringify(permissions)],
      ];
      await test.database.asOwner(async (client) => {
        await client.query(`drop trigger list_permissions on tool_versions; drop function list_permissions();
          drop table tool_permissions; drop function permissions_in(jsonb);
          drop index agents_of_status; create index agents_by_status on agents (tenant_id, status);
          delete from schema_migrations where name = '0182-lists-by-what-they-have'`);
        await asOwner(client, `insert into tenants (id, name) values ($1, 'tenant')`, [tenant]);
        await asOwner(
          client,
          `insert into tools (id, tenant_id, name, status, current_version) values ($1, $2, 't', 'registered', '1.1.0')`,
          [tool, tenant],
        );
        await asOwner(client, ...publish('1.0.0', [{ name: 'old' }]));
        await asOwner(client, ...publish('1.1.0', [{ name: 'a' }, { name: 'b' }, { name: 'a' }]));
      });
      await migrate({ databaseUrl: undefined, dataDir: 'memory:' }, test.database);
      const needing = (name: string) =>
        test.database.withTenant(
          tenant,
          async (tx) => (await listTools(tx, { permissions: [name], limit: 9 })).rows.length,
        );
      assert.deepEqual([await needing('old'), await needing('a'), await needing('b')], [0, 1, 1]);
      await test.database.withTenant(tenant, async (tx) => {
        await tx.query(...publish('1.2.0', [{ name: 'b' }, { name: 'c' }]));
        await tx.query(`update tools set current_version = '1.2.0' where id = $1`, [tool]);
      });
      assert.deepEqual([await needing('a'), await needing('b'), await needing('c')], [0, 1, 1]);
    });

    it('lists the metadata of agents, runs and threads, and what becomes of it', async () => {
      const [agent, run, thread] = [newId(), newId(), newId()];
      const publish = (ordinal: number, metadata: object): [string, unknown[]] => [
        `insert into agent_versions (agent_id, version, ordinal, tenant_id, definition, content_hash) values ($1, $2, $3, $4, $5, '')`,
        [agent, `1.${ordinal}.0`, ordinal, tenant, { metadata }],
      ];
      await test.database.asOwner(async (client) => {
        await client.query(`drop trigger list_metadata on runs; drop trigger list_new_metadata on runs;
          drop trigger list_metadata on threads; drop trigger list_new_metadata on threads; drop trigger list_metadata on agent_versions;
          drop function list_metadata(), list_metadata_of_version(), metadata_entries_of(text, jsonb), metadata_entry(text, text, text);
          drop table metadata_entries; drop index objectives_of_run;
          delete from schema_migrations where name = '0192-found-by-what-they-hold'`);
        await asOwner(client, `insert into tenants (id, name) values ($1, 'tenant')`, [tenant]);
        await asOwner(client, `insert into workspaces (id, tenant_id, name) values ($1, $1, 'w')`, [tenant]);
        await asOwner(
          client,
          `insert into agents (id, tenant_id, workspace_id, name, status, current_version) values ($1, $2, $2, 'a', 'active', '1.2.0')`,
          [agent, tenant],
        );
        await asOwner(client, ...publish(1, { of: 'old' }));
        await asOwner(client, ...publish(2, { of: 'all' }));
        await insertThread(client, { tenant, id: thread });
        await insertRun(client, { tenant, id: run, thread, minutesAgo: 1 });
        for (const table of ['runs', 'threads'])
          await asOwner(client, `update ${table} set metadata = '{"of": "all"}' where id = any($1)`, [[run, thread]]);
      });
      await migrate({ databaseUrl: undefined, dataDir: 'memory:' }, test.database);
      const having = (of: string) =>
        test.database.withTenant(tenant, async (tx) => {
          const page = { workspaceId: tenant, metadata: { of }, limit: 9 };
          const agents = (await listAgents(tx, page)).rows;
          return [agents, (await listRuns(tx, page)).rows, await listThreads(tx, page)].map((found) => found.length);
        });
      assert.deepEqual(
        [await having('old'), await having('all')],
        [
          [0, 0, 0],
          [1, 1, 1],
        ],
      );
      await test.database.withTenant(tenant, async (tx) => {
        await tx.query(...publish(3, { of: 'new' }));
        await tx.query(`update agents set current_version = '1.3.0' where id = $1`, [agent]);
        for (const table of ['runs', 'threads']) await tx.query(`update ${table} set metadata = '{"of": "new"}'`);
      });
      assert.deepEqual(
        [await having('all'), await having('new')],
        [
          [0, 0, 0],
          [1, 1, 1],
        ],
      );
      const listed = () => test.database.withTenant(tenant, (tx) => tx.query('select from metadata_entries'));
      assert.equal((await listed()).length, 5, 'three versions of the agent, the run and the thread');
      await test.database.withTenant(tenant, (tx) => tx.query(ERASERS['runs'] ?? '', [run]));
      assert.equal((await listed()).length, 4, 'of an erased run nothing stays');
    });

    it('has threads erased to their end that earlier builds have marked, for whoever asked, and no others', async () => {
      const [cut, done, kept, key] = [newId(), newId(), newId(), newId()];
      await test.database.asOwner(async (client) => {
        await client.query(`drop table erasures; delete from schema_migrations where name = '0194-erasures'`);
        await asOwner(client, `insert into tenants (id, name) values ($1, 'tenant')`, [tenant]);
        for (const id of [cut, done, kept]) {
          await insertThread(client, { tenant, id });
          for (const minutesAgo of [2, 1]) await insertRun(client, { tenant, id: newId(), thread: id, minutesAgo });
        }
        await asOwner(client, 'update runs set erased_at = now() where thread_id = $1', [done]);
        await asOwner(client, 'update threads set erased_at = now() where id = any($1)', [[cut, done]]);
        for (const id of [cut, done])
          await asOwner(
            client,
            `insert into audit_log (id, tenant_id, workspace_id, action, actor_type, actor_id, target_type, target_id)
               values ($1, $2, $2, 'thread.erased', 'api_key', $3, 'thread', $4)`,
            [newId(), tenant, key, id],
          );
      });
      await migrate({ databaseUrl: undefined, dataDir: 'memory:' }, test.database);
      const taken = await takeDueErasure(test.database);
      const asked_by = { keyId: key, workspaceId: tenant, isOperator: false };
      assert.deepEqual(taken, { kind: 'thread', id: cut, tenant_id: tenant, dependents: true, asked_by });
      assert.equal(await takeDueErasure(test.database), undefined);
    });

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

    it('ranks the runs of a thread by when they were created, whatever their ids say', async () => {
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

    it('ranks the runs of a thread that a process of the release before creates', async () => {
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
