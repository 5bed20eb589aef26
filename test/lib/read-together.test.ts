import assert from 'node:assert/strict';
import fc from 'fast-check';
import { readTogether } from '../../lib/read-together.ts';

describe('readTogether', () => {
  it('gives each who asks the row as it was then or later, however reads and writes fall together', async () => {
    const ids = ['a', 'b', 'c'];
    const acts = fc.array(fc.record({ id: fc.constantFrom(...ids), writes: fc.boolean() }), { maxLength: 60 });
    const together = fc.record({ lanes: fc.integer({ min: 1, max: 3 }), most: fc.integer({ min: 1, max: 4 }) });
    await fc.assert(
      fc.asyncProperty(fc.scheduler(), acts, together, async (scheduler, list, options) => {
        const rows = new Map(ids.map((id) => [id, 0]));
        let underWay = 0;
        const reads = readTogether(async (asked: readonly { id: string }[]) => {
          underWay += 1;
          assert.ok(underWay <= options.lanes && asked.length <= options.most);
          assert.equal(new Set(asked.map(({ id }) => id)).size, asked.length);
          const read = asked.flatMap(({ id }) => (id === 'c' ? [] : [{ id, version: rows.get(id) ?? 0 }]));
          await scheduler.schedule(Promise.resolve());
          underWay -= 1;
          return read;
        }, options);
        const seen: Promise<void>[] = [];
        const sequence = scheduler.scheduleSequence(
          list.map(({ id, writes }) => async () => {
            if (writes) return void rows.set(id, (rows.get(id) ?? 0) + 1);
            const least = rows.get(id) ?? 0;
            seen.push(
              reads.read({ id }).then((row) => {
                if (id === 'c') assert.equal(row, undefined);
                else assert.ok(row && row.id === id && row.version >= least);
              }),
            );
          }),
        );
        await scheduler.waitFor(sequence.task);
        while (!reads.isIdle()) {
          await new Promise(setImmediate);
          await scheduler.waitAll();
        }
        await Promise.all(seen);
      }),
      { numRuns: 100 },
    );
  });

  it('tells all that went together of a failure, and goes on', async () => {
    let isAway = true;
    const reads = readTogether(
      async (asked: readonly { id: string }[]) => {
        if (isAway) throw new Error('away');
        return asked.map(({ id }) => ({ id }));
      },
      { lanes: 1, most: 10 },
    );
    const failed = await Promise.allSettled([reads.read({ id: 'a' }), reads.read({ id: 'b' })]);
    assert.deepEqual(
      failed.map(({ status }) => status),
      ['rejected', 'rejected'],
    );
    isAway = false;
    assert.deepEqual(await reads.read({ id: 'a' }), { id: 'a' });
    assert.ok(reads.isIdle(), 'who is answered finds nothing under way');
  });
});
