import assert from 'node:assert/strict';
import fc from 'fast-check';
import { createOneByOne } from '../../lib/one-by-one.ts';

describe('createOneByOne', () => {
  it('lets work with the same key follow each other in its order, whatever fails, and forgets its keys', async () => {
    const jobs = fc.array(fc.record({ key: fc.constantFrom('a', 'b', 'c'), fails: fc.boolean() }), { maxLength: 30 });
    const property = fc.asyncProperty(jobs, fc.scheduler(), async (list, scheduler) => {
      const line = createOneByOne();
      const begun: Record<string, number[]> = {};
      const under = new Set<string>();
      const all = list.map(({ key, fails }, place) =>
        line
          .run(key, async () => {
            assert.ok(!under.has(key), 'two at once');
            under.add(key);
            (begun[key] ??= []).push(place);
            await scheduler.schedule(Promise.resolve());
            under.delete(key);
            if (fails) throw new Error('fails');
            return place;
          })
          .then(
            (value) => assert.ok(!fails && value === place),
            (error: Error) => assert.ok(fails && error.message === 'fails'),
          ),
      );
      await scheduler.waitFor(Promise.all(all));
      for (const places of Object.values(begun))
        assert.deepEqual(
          places,
          places.toSorted((one, other) => one - other),
        );
      assert.equal(Object.values(begun).flat().length, list.length);
      for (const key of ['a', 'b', 'c']) assert.equal(line.countOf(key), 0);
    });
    await fc.assert(property);
  });
});
