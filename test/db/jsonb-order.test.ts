import assert from 'node:assert/strict';
import fc from 'fast-check';
import { inJsonbOrder } from '../../db/jsonb-order.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { MODES } from '../support/modes.ts';

for (const mode of MODES.filter((each) => each !== 'full')) {
  describe(`The order of keys in jsonb, in ${mode} mode,`, () => {
    let test: TestDatabase;
    before(async () => {
      test = await openTestDatabase(mode);
    });
    after(() => test.close());

    it('is known before a value is stored', async () => {
      await fc.assert(
        fc.asyncProperty(fc.jsonValue({ maxDepth: 3, stringUnit: 'grapheme' }), async (value) => {
          // `jsonb` takes no NUL.
          fc.pre(!JSON.stringify(value).includes(String.raw`\u0000`));
          const [row] = await test.database.asMaintenance((tx) =>
            tx.query<{ stored: unknown }>('select $1::jsonb as stored', [JSON.stringify(value)]),
          );
          assert.equal(JSON.stringify(inJsonbOrder(value)), JSON.stringify(row?.stored));
        }),
      );
    });
  });
}
