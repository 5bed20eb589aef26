import assert from 'node:assert/strict';
import { newId } from '../../../lib/new-id.ts';
import { createPolicyCache } from '../../../modules/governance/policy-cache.ts';
import { openTestDatabase } from '../../support/database.ts';
import { DOMAIN_MODE } from '../../support/modes.ts';

describe('The policies that a process keeps', () => {
  it('are kept of a tenant that has deleted more tools than the weight of all that is kept', async () => {
    const testDatabase = await openTestDatabase(DOMAIN_MODE);
    try {
      const { database } = testDatabase;
      const tenant = newId();
      await database.asOwner(async (client) => {
        await client.query("insert into tenants (id, name) values ($1, 't')", [tenant]);
        await client.query(
          `insert into tools (id, tenant_id, name, status, current_version)
             select gen_random_uuid(), $1, 't' || i, 'deleted', '1.0.0' from generate_series(1, 55000) i`,
          [tenant],
        );
      });
      const cache = createPolicyCache(database);
      await database.withTenant(tenant, (tx) => cache.current(tx, tenant));
      assert.equal(cache.last(tenant)?.deletedTools.size, 55_000);
    } finally {
      await testDatabase.close();
    }
  });
});
