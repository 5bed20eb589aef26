import assert from 'node:assert/strict';
import type { Database } from '../../db/database.ts';
import { createQueuePool } from '../../db/queue-pool.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('a connection on which the queue listens', () => {
  let testDatabase: TestDatabase;
  before(async () => {
    testDatabase = await openTestDatabase('postgres');
  });
  after(() => testDatabase.close());

  it('listens once, and no more once it is given back, be it while it begins to', async () => {
    const { database } = testDatabase;
    let begin = () => {};
    const held = new Promise<void>((resolve) => (begin = resolve));
    const [begun, ended]: [string[], string[]] = [[], []];
    const listen: Database['listen'] = async (channel, ...told) => {
      begun.push(channel);
      await held;
      const stop = await database.listen(channel, ...told);
      return async () => {
        await stop();
        ended.push(channel);
      };
    };
    const run = () => Promise.resolve({ rows: [], rowCount: 0 });
    const client = await createQueuePool(run, { ...database, listen }).connect();
    const both = Promise.all([client.query('LISTEN "jobs"'), client.query('LISTEN "jobs"')]);
    client.release();
    begin();
    await both;
    await waitUntil('it has ended', () => ended.length > 0);
    assert.deepEqual([begun, ended], [['jobs'], ['jobs']]);
  });
});
