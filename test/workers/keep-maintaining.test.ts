import assert from 'node:assert/strict';
import { claimDueActs } from '../../db/maintenance-acts.ts';
import { MAINTENANCE_ACTS, type MaintenanceAct } from '../../jobs/maintenance.ts';
import { sealAudit } from '../../modules/audit/seal-audit.ts';
import { scrapeMetrics } from '../../modules/platform/scrape-metrics.ts';
import { keepMaintaining } from '../../workers/keep-maintaining.ts';
import { DOMAIN_MODES } from '../support/modes.ts';
import { openTestPlatform, type TestPlatform } from '../support/platform.ts';
import { waitUntil } from '../support/wait-until.ts';
import { ACTS_ON_DEMAND, makeWorkFor } from '../support/queries/maintenance.ts';
import { addAct, makeActsDue } from '../support/queries/tenants.ts';

const everyMs = (ms: number) =>
  Object.fromEntries(MAINTENANCE_ACTS.map((act) => [act, ms])) as Record<MaintenanceAct, number>;

const namesOf = (claimed: readonly { act: string }[]) => claimed.map(({ act }) => act).toSorted();

for (const mode of DOMAIN_MODES) {
  describe(`The clock of maintenance in ${mode} mode`, () => {
    let platform: TestPlatform;

    beforeEach(async () => {
      platform = await openTestPlatform(mode, { env: { DROVER_LEASE_MS: '1000' } });
    });
    afterEach(() => platform.close());

    /** Names of the jobs as they are carried out. */
    const listen = () => {
      const seen: string[] = [];
      const { queues } = platform.context;
      const worker = queues.worker('maintenance', async (job) => void seen.push(job.name), { concurrency: 1 });
      return { seen, close: () => worker.close() };
    };
    const countOf = (seen: readonly string[], act: MaintenanceAct) => seen.filter((name) => name === act).length;

    it('sends each act when it is due, again and again, those of every second or five only where there is something to do', async () => {
      await sealAudit(platform.context);
      const { seen, close } = listen();
      const clock = keepMaintaining(platform.context);
      const [onDemand, others] = [new Set<string>(ACTS_ON_DEMAND), new Set<string>(MAINTENANCE_ACTS)];
      for (const act of onDemand) others.delete(act);
      await waitUntil('every other act', () => [...others].every((act) => seen.includes(act)));
      await waitUntil('some seconds are over', () => countOf(seen, 'reconcile') >= 3);
      assert.deepEqual(
        seen.filter((act) => onDemand.has(act)),
        [],
      );
      await makeWorkFor(platform.context.db, ACTS_ON_DEMAND);
      await waitUntil('every act', () => MAINTENANCE_ACTS.every((act) => seen.includes(act)));
      await waitUntil('a third reconciliation', () => countOf(seen, 'reconcile') >= 3);
      assert.equal(countOf(seen, 'make-partitions'), 1, 'once an hour');
      await clock.stop();
      await close();
    });

    it('gives an act to one of many, and not before its time', async () => {
      const clock = keepMaintaining(platform.context);
      await clock.stop();
      const { db } = platform.context;
      await makeActsDue(db);
      const claims = await Promise.all([1, 2, 3, 4].map(() => claimDueActs(db, everyMs(60_000))));
      assert.deepEqual(namesOf(claims.flat()), MAINTENANCE_ACTS.toSorted());
      assert.deepEqual(await claimDueActs(db, everyMs(60_000)), []);
    });

    it('is a number that grows where nobody keeps it', async () => {
      const overdue = async () => {
        const { text } = await scrapeMetrics(platform.context);
        return Number(/^drover_maintenance_overdue_seconds (\S+)$/m.exec(text)?.[1]);
      };
      const clock = keepMaintaining(platform.context);
      await clock.stop();
      await makeActsDue(platform.context.db, -60);
      assert.equal(await overdue(), 0);
      await makeActsDue(platform.context.db, 300);
      assert.ok(Math.abs((await overdue()) - 300) < 60, String(await overdue()));
    });

    it('has acts due still that the queue has not taken', async () => {
      const { context } = platform;
      let refused = 0;
      const addBulk = () => {
        refused += 1;
        return Promise.reject(new Error('the queue is away'));
      };
      const queue = Object.assign(Object.create(context.queues.queue('maintenance')), { addBulk });
      const clock = keepMaintaining({ ...context, queues: { ...context.queues, queue: () => queue } });
      await waitUntil('it has tried', () => refused > 0);
      await clock.stop();
      assert.deepEqual(namesOf(await claimDueActs(context.db, everyMs(60_000))), MAINTENANCE_ACTS.toSorted());
    });

    it('leaves acts alone that only another build knows', async () => {
      const { db } = platform.context;
      await addAct(db, 'of the future');
      assert.ok(!namesOf(await claimDueActs(db, everyMs(1))).includes('of the future'));
    });

    it('does not depend on what the queue remembers', async () => {
      const { seen, close } = listen();
      const clock = keepMaintaining(platform.context);
      await waitUntil('a reconciliation', () => seen.includes('reconcile'));
      await platform.context.queues.queue('maintenance').obliterate({ force: true });
      const before = countOf(seen, 'reconcile');
      await waitUntil('a reconciliation after it', () => countOf(seen, 'reconcile') > before + 1);
      await clock.stop();
      await close();
    });
  });
}
