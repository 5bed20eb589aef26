import assert from 'node:assert/strict';
import type { Tx } from '../../../db/database.ts';
import { listFragments } from '../../../db/memory-fragments.ts';
import { lockSpace } from '../../../db/memory-spaces.ts';
import { newId } from '../../../lib/new-id.ts';
import { dropExpired } from '../../../modules/memory/drop-expired.ts';
import { createSpace, removeFragment } from '../../../modules/memory/spaces.ts';
import { writeToSpace } from '../../../modules/memory/write-fragment.ts';
import { openEngine, type Engine } from '../../support/engine.ts';
import {
  addFragmentTexts,
  addFragmentVectors,
  endFragmentsOf,
  modelsOfFragments,
} from '../../support/queries/memory.ts';
import { forgetCounts, keepFromDeletion } from '../../support/queries/memory-indexes.ts';
import { analyze, countRowsRead } from '../../support/queries/postgres.ts';

const COUNT = 4000;

describe('A space with many fragments', () => {
  let test: Engine;
  before(async () => {
    test = await openEngine(undefined, { DROVER_EMBEDDING_MODEL: 'off' });
  });
  after(() => test.close());

  const inTenant = <T>(work: Parameters<typeof test.context.db.withTenant<T>>[1]) =>
    test.context.db.withTenant(test.tenantId, work);
  const make = async (most?: number) =>
    (await inTenant((tx) => createSpace(tx, test.caller, { scope: 'team', max_fragments: most }))).id;
  const fill = async (most?: number): Promise<string> => {
    const space = await make(most);
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

  it('of which there may be only so many are not counted anew for each that is added', async () => {
    const most = COUNT + 10;
    const space = await fill(most);
    const lock = (tx: Tx) => lockSpace(tx, { id: space, most });
    assert.equal(await inTenant(lock), false);
    const { counts, found } = await countRowsRead(test.context.db, test.tenantId, lock);
    assert.deepEqual([counts.get('memory_fragments') ?? 0, found], [0, false]);
  });

  it('are as many as may be, however many write at a time, and what goes makes room', async () => {
    const space = await make(5);
    const write = async (more: object = {}) => {
      const content = { type: 'text' as const, data: 'The bridge is closed.' };
      return (await inTenant((tx) => writeToSpace(tx, test.caller, { space_id: space, content, ...more }))).fragment.id;
    };
    const writeMany = async () => {
      const all = await Promise.allSettled(Array.from({ length: 8 }, () => write()));
      return all.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    };
    const [first, second, third, ...others] = await writeMany();
    assert.equal(others.length, 2);
    for (const id of [first, second]) await write({ fragment_id: id, expires_at: new Date(0) });
    assert.equal((await writeMany()).length, 2, 'what has expired has no place, before it is swept');
    await dropExpired(test.context);
    await inTenant((tx) => removeFragment(tx, test.caller, third ?? ''));
    assert.equal((await writeMany()).length, 1);
    await forgetCounts(test, space);
    assert.equal((await writeMany()).length, 0, 'it is counted once, as one from before');
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
