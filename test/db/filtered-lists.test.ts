/** Its subject is SQL: a list costs what it shows, whatever its filters leave. */
import assert from 'node:assert/strict';
import { listWorkers } from '../../db/workers.ts';
import { newId } from '../../lib/new-id.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { plansOf } from '../support/queries/postgres.ts';

describe('A list with many filters', () => {
  let testDatabase: TestDatabase;

  before(async () => {
    testDatabase = await openTestDatabase(DOMAIN_MODE);
  });
  after(() => testDatabase.close());

  it('joins a few of the things asked for: a plan of a hundred joins takes seconds to make', async () => {
    const [tenant, workspaceId] = [newId(), newId()];
    const skills = Array.from({ length: 100 }, (_, index) => [`s${index}`]);
    const plans = await plansOf(testDatabase.database, tenant, (tx) =>
      listWorkers(tx, { workspaceId, skills, isHealthless: true }),
    );
    const joins = plans.match(/(?:Join|Nested Loop)[\w ]* {2}\(/g) ?? [];
    assert.ok(joins.length <= 10, `${joins.length} joins`);
    assert.equal(plans.match(/\(hashed SubPlan \d+\) IS TRUE/g)?.length, 96);
  });
});
