import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describeSchema } from '../../db/describe-schema.ts';
import { openTestDatabase } from '../support/database.ts';
import { MODES } from '../support/modes.ts';

for (const mode of MODES.filter((each) => each !== 'full')) {
  describe(`The schema in ${mode} mode`, () => {
    it('is the one of db/schema.sql (renew it: npx tsx scripts/dump-schema.ts)', async () => {
      const { database, close } = await openTestDatabase(mode);
      try {
        const written = await readFile(new URL('../../db/schema.sql', import.meta.url), 'utf8');
        const [, ...listing] = written.split('\n\n');
        assert.equal(await database.asOwner(describeSchema), listing.join('\n\n'));
      } finally {
        await close();
      }
    });
  });
}
