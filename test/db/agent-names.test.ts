import assert from 'node:assert/strict';
import { newId } from '../../lib/new-id.ts';
import { findByName } from '../../db/agents.ts';
import { migrate } from '../../db/migrate.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { MODES } from '../support/modes.ts';

for (const mode of MODES.filter((each) => each !== 'full')) {
  describe(`Names that agents shared before they were unique, in ${mode} mode,`, () => {
    const [tenant, workspace] = [newId(), newId()];
    let test: TestDatabase;

    beforeEach(async () => {
      test = await openTestDatabase(mode);
    });
    afterEach(() => test.close());

    it('are those of the oldest agent that is not deprecated', async () => {
      const [old, retired, young, other] = [newId(), newId(), newId(), newId()];
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
  });
}
