import assert from 'node:assert/strict';
import fc from 'fast-check';
import { sameWork, wholeElements, type PlannedWork } from '../../core/plan-stream.ts';

describe('A plan that is still being written', () => {
  const text = fc.oneof(fc.string(), fc.constantFrom('"', '\\', '{', ']', '"subtasks":[', '}'));
  const subtask = fc.record({
    id: text,
    description: text,
    dependencies: fc.array(text, { maxLength: 3 }),
    more: fc.object({ maxDepth: 2 }),
  });
  const plan = fc.record({ before: text, subtasks: fc.array(subtask, { maxLength: 5 }), after: fc.object() });

  it('has each subtask once it is whole, and no piece of one', () => {
    fc.assert(
      fc.property(plan, fc.nat(), fc.boolean(), (made, cut, isPretty) => {
        const json = JSON.stringify(made, null, isPretty ? 2 : 0);
        const known = JSON.parse(json) as typeof made;
        const found = wholeElements(json.slice(0, cut % (json.length + 1)), 'subtasks');
        assert.deepEqual(found, known.subtasks.slice(0, found.length));
        assert.deepEqual(wholeElements(json, 'subtasks'), known.subtasks);
      }),
    );
  });

  it('has none where there is no list of that name among its own fields', () => {
    for (const json of ['', '{', '[{"id":1}]', '{"x":{"subtasks":[{"id":1}]}}', '{"subtasks":{"id":1}}', 'no { json']) {
      assert.deepEqual(wholeElements(json, 'subtasks'), [], json);
    }
    assert.deepEqual(wholeElements('{"subtasks": [{"id":1}, {bad}, {"id":2}]}', 'subtasks'), [{ id: 1 }]);
  });

  const work = (id: string, description: string, ...dependencies: string[]): PlannedWork => ({
    id,
    description,
    dependencies,
  });

  it('shares with the whole plan what is the same work on the same inputs, whatever its id', () => {
    const begun = [work('a', 'A'), work('b', 'B', 'a'), work('c', 'C', 'done')];
    assert.deepEqual(
      [...sameWork([work('x', 'A'), work('y', 'B', 'x'), work('c', 'C', 'done')], begun, ['done'])],
      [
        ['x', 'a'],
        ['y', 'b'],
        ['c', 'c'],
      ],
    );
    assert.deepEqual([...sameWork([work('a', 'Other'), work('b', 'B', 'a')], begun, [])], []);
    assert.deepEqual([...sameWork([work('1', 'A'), work('a', 'A')], [work('a', 'A')], [])].length, 1);
  });

  it('shares no work with a plan that names another agent for it, nor what needs that', () => {
    const begun = [{ ...work('a', 'A'), agent: 'ann' }, work('b', 'B', 'a'), work('c', 'C')];
    const ids = (agent: string | undefined) => [
      ...sameWork([{ ...work('a', 'A'), agent }, work('b', 'B', 'a'), work('c', 'C')], begun, []).keys(),
    ];
    assert.deepEqual(ids('ann'), ['a', 'b', 'c']);
    assert.deepEqual(ids(undefined), ['a', 'b', 'c']);
    assert.deepEqual(ids('bob').toSorted(), ['c']);
  });

  it('is shared with itself, under whatever ids', () => {
    const dag = fc.array(fc.tuple(fc.constantFrom('A', 'B', 'C'), fc.array(fc.nat(), { maxLength: 3 })), {
      maxLength: 12,
    });
    fc.assert(
      fc.property(dag, (nodes) => {
        const made = (prefix: string) =>
          nodes.map(([description, deps], at) =>
            work(`${prefix}${at}`, description, ...(at === 0 ? [] : deps.map((dep) => `${prefix}${dep % at}`))),
          );
        const same = sameWork(made('n'), made('o'), []);
        assert.equal(same.size, nodes.length);
        assert.equal(new Set(same.values()).size, nodes.length);
      }),
    );
  });
});
