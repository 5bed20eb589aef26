import assert from 'node:assert/strict';
import { addActs, claimDueActs } from '../../db/maintenance-acts.ts';
import { MAINTENANCE_ACTS, scheduleOf, type MaintenanceAct } from '../../jobs/maintenance.ts';
import { sealAudit } from '../../modules/audit/seal-audit.ts';
import { MODES } from '../support/modes.ts';
import { openTestPlatform, type TestPlatform } from '../support/platform.ts';
import { ACTS_ON_DEMAND, makeWorkFor } from '../support/queries/maintenance.ts';
import { makeActsDue } from '../support/queries/tenants.ts';

for (const mode of MODES.filter((each) => each !== 'full')) {
  describe(`Acts of maintenance that may have something to do, in ${mode} mode`, () => {
    let platform: TestPlatform;
    before(async () => {
      platform = await openTestPlatform(mode);
      await addActs(platform.context.db, MAINTENANCE_ACTS);
      // What a first start does is in the audit log.
      await sealAudit(platform.context);
    });
    after(() => platform.close());

    const everyMs = Object.fromEntries(MAINTENANCE_ACTS.map((act) => [act, 60_000])) as Record<MaintenanceAct, number>;
    /** Of all acts, which are due. */
    const listBusy = async (): Promise<MaintenanceAct[]> => {
      await makeActsDue(platform.context.db);
      const claimed = await claimDueActs(platform.context.db, everyMs);
      return claimed.flatMap(({ act, is_busy }) => (is_busy ? [act] : [])).toSorted();
    };
    const lasting = MAINTENANCE_ACTS.filter((act) => scheduleOf(act, 30_000) > 5000);

    it('are those of more than five seconds, and no other in an installation where nothing happens', async () => {
      assert.deepEqual(await listBusy(), lasting.toSorted());
    });

    it('are as well those for which there is a row', async () => {
      const busy: string[] = [...lasting];
      for (const act of ACTS_ON_DEMAND) {
        await makeWorkFor(platform.context.db, [act]);
        busy.push(act);
        assert.deepEqual(await listBusy(), busy.toSorted());
      }
    });
  });
}
