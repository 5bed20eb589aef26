import assert from 'node:assert/strict';
import { listFragments } from '../../../db/memory-fragments.ts';
import { newId } from '../../../lib/new-id.ts';
import { dropExpired } from '../../../modules/memory/drop-expired.ts';
import { openTestPlatform, type TestPlatform } from '../../support/platform.ts';
import { addFragmentTexts, addFragmentVectors, addSpace, modelsOfFragments } from '../../support/queries/memory.ts';
import { endFragmentsOf } from '../../support/queries/memory.ts';
import { keepFromDeletion } from '../../support/queries/memory-indexes.ts';
import { analyze, countRowsRead } from '../../support/queries/postgres.ts';

const COUNT = 4000;

describe('A space with many fragments', () => {
  let test: TestPlatform;
  before(async () => {
    test = await openTestPlatform();
  });
  after(() => test.close());

  const fill = async (): Promise<string> => {
    const space = await addSpace(test);
    await addFragmentVectors(test, space, { model: 'test/eight', word: 'crowd', denied: [], away: 0.5, count: COUNT });
    return space;
  };

  it('is listed without a look at what is beyond the page, alone or with others', async () => {
    const spaceIds = [await fill(), await fill()];
    await analyze(test.context.db);
    for (const some of [spaceIds.slice(1), spaceIds]) {
      const { counts, found } = await countRowsRead(test.context.db, test.tenantId, (tx) =>
        listFragments(tx, { spaceIds: some, agentId: null, limit: 20 }),
      );
      const read = counts.get('memory_fragments') ?? 0;
      assert.equal(found.length, 20);
      assert.ok(read <= 20 * some.length, `${read} are read`);
    }
  });

  it('loses all that has expired in one round, whatever one of it is kept by', async () => {
    const space = await fill();
    const kept = newId();
    await addFragmentTexts(test, space, [{ id: kept, text: 'It stays.' }]);
    await keepFromDeletion(test.context.db, kept);
    await endFragmentsOf(test, space);
    assert.equal(await dropExpired(test.context), COUNT);
    assert.equal((await modelsOfFragments(test, space)).length, 1);
    assert.equal(await dropExpired(test.context), 0);
  });
});
