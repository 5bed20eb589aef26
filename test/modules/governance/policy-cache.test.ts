import assert from 'node:assert/strict';
import { newId } from '../../../lib/new-id.ts';
import { createPolicyCache } from '../../../modules/governance/policy-cache.ts';
import { openTestDatabase } from '../../support/database.ts';
import { DOMAIN_MODE } from '../../support/modes.ts';
import { addTenantWithDeletedTools } from '../../support/queries/tenants.ts';

describe('The policies that a process keeps', () => {
  it('are kept of a tenant that has deleted more tools than the weight of all that is kept', async () => {
    const testDatabase = await openTestDatabase(DOMAIN_MODE);
    try {
      const { database } = testDatabase;
      const tenant = newId();
      await addTenantWithDeletedTools(database, tenant, 55_000);
      const cache = createPolicyCache(database);
      await database.withTenant(tenant, (tx) => cache.current(tx, tenant));
      assert.equal(cache.last(tenant)?.deletedTools.size, 55_000);
    } finally {
      await testDatabase.close();
    }
  });
});
