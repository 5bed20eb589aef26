import assert from 'node:assert/strict';
import { listBusyActs } from '../../db/maintenance-acts.ts';
import { MAINTENANCE_ACTS, scheduleOf } from '../../jobs/maintenance.ts';
import { MODES } from '../support/modes.ts';
import { openTestPlatform, type TestPlatform } from '../support/platform.ts';
import { ACTS_ON_DEMAND, makeWorkFor } from '../support/queries/maintenance.ts';

for (const mode of MODES.filter((each) => each !== 'full')) {
  describe(`Acts of maintenance that may have something to do, in ${mode} mode`, () => {
    let platform: TestPlatform;
    before(async () => {
      platform = await openTestPlatform(mode);
    });
    after(() => platform.close());

    it('are those of more than a second, and no other in an installation where nothing happens', async () => {
      const lasting = MAINTENANCE_ACTS.filter((act) => scheduleOf(act, 30_000) > 1000);
      assert.deepEqual((await listBusyActs(platform.context.db, MAINTENANCE_ACTS)).toSorted(), lasting.toSorted());
    });

    it('are as well those for which there is a row', async () => {
      const busy: string[] = [];
      for (const act of ACTS_ON_DEMAND) {
        await makeWorkFor(platform.context.db, [act]);
        busy.push(act);
        assert.deepEqual((await listBusyActs(platform.context.db, ACTS_ON_DEMAND)).toSorted(), busy.toSorted());
      }
    });
  });
}
