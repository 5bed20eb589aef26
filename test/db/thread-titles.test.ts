import assert from 'node:assert/strict';
import { findThread, updateThread } from '../../db/threads.ts';
import { newId } from '../../lib/new-id.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { sessionsWaitingIn } from '../support/queries/postgres.ts';
import { insertThread } from '../support/stored-runs.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('the title that somebody gives a thread', () => {
  const [tenant, thread] = [newId(), newId()];
  let testDatabase: TestDatabase;

  before(async () => {
    testDatabase = await openTestDatabase(DOMAIN_MODE);
    await testDatabase.database.asOwner(async (client) => {
      await client.query(`insert into tenants (id, name) values ($1, 't')`, [tenant]);
      await client.query('set session_replication_role = replica');
      await insertThread(client, { tenant, id: thread });
      await client.query('set session_replication_role = origin');
    });
    await testDatabase.database.withTenant(tenant, (tx) =>
      tx.query('insert into due_titles (thread_id, tenant_id, due_at) values ($1, $2, now())', [thread, tenant]),
    );
  });
  after(() => testDatabase.close());

  it('holds the thread before what is due for it, as who makes a title does', async function () {
    if (DOMAIN_MODE === 'embedded') this.skip();
    const { database } = testDatabase;
    const { given } = await database.withTenant(tenant, async (tx) => {
      await tx.query('select from threads where id = $1 for no key update', [thread]);
      const giving = database.withTenant(tenant, (other) => updateThread(other, thread, { title: 'One' }));
      const waiting = () => sessionsWaitingIn(database, 'update threads');
      await waitUntil('it waits for the thread', async () => (await waiting()).length > 0);
      await tx.query('select from due_titles where thread_id = $1 for update nowait', [thread]);
      return { given: giving };
    });
    assert.equal(await given, true);
    await database.withTenant(tenant, async (tx) => {
      assert.equal((await findThread(tx, thread))?.title, 'One');
      assert.deepEqual(await tx.query('select from due_titles where thread_id = $1', [thread]), []);
    });
  });
});
