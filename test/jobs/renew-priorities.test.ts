import assert from 'node:assert/strict';
import { openQueueBackend, type QueueBackend } from '../../jobs/backend.ts';
import { createFairOrder, ROUND_MS } from '../../jobs/fair-order.ts';
import { renewPriorities } from '../../jobs/renew-priorities.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { MODES } from '../support/modes.ts';

const ROUND_END = 850 * ROUND_MS;

for (const mode of MODES) {
  describe(`jobs that wait while priorities begin again, in ${mode} mode`, function () {
    let testDatabase: TestDatabase;
    let backend: QueueBackend;

    before(async () => {
      testDatabase = await openTestDatabase(mode);
      backend = await openQueueBackend(testDatabase.config, testDatabase.database);
    });
    after(async () => {
      await backend?.close(0);
      await testDatabase?.close();
    });

    it('go before all that were sent afterwards, in their order', async () => {
      const queue = backend.queue('rounds');
      let now = ROUND_END - 5000;
      const order = createFairOrder(() => now);
      const send = (id: string, tenant: string) => queue.add('work', {}, { jobId: id, priority: order.next(tenant) });
      for (let n = 1; n <= 12; n++) await send(`old-${String(n).padStart(2, '0')}`, 'flood');
      now = ROUND_END + 2000;
      await send('new-1', 'other');
      assert.equal(await renewPriorities(queue, now), 12);
      await send('new-2', 'other');
      const waiting = await queue.getPrioritized();
      assert.deepEqual(
        waiting.map(({ id }) => id),
        [...Array.from({ length: 12 }, (_, n) => `old-${String(n + 1).padStart(2, '0')}`), 'new-1', 'new-2'],
      );
      assert.equal(await renewPriorities(queue, now), 0, 'those of this round stay where they are');
    });
  });
}
