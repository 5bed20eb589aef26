import assert from 'node:assert/strict';
import { EVENT_NAMES, withoutWords, withWords } from '../../core/event-families.ts';
import { EVENT_TYPES } from '../../core/events.ts';

const FAMILIES = 'run turn model intent plan tool wait context check graph dag file budget'.split(' ');

describe('Families of events', () => {
  it('are all there, and have every type in one of them', () => {
    assert.deepEqual(
      FAMILIES.filter((family) => !EVENT_NAMES.has(family)),
      [],
    );
    const familiesOf = (type: string) =>
      FAMILIES.filter((family) => withWords([family]).includes(type.split('.')[0] ?? ''));
    assert.deepEqual(
      EVENT_TYPES.filter((type) => familiesOf(type).length !== 1),
      [],
    );
  });

  it('are shown as they were asked for', () => {
    assert.deepEqual(withWords(['wait', 'run.failed']).toSorted(), [
      'approval',
      'client_tools',
      'input',
      'run.failed',
      'signal',
      'timer',
      'wait',
    ]);
    for (const names of [['wait', 'run.failed'], ['*'], ['memory', 'turn'], FAMILIES])
      assert.deepEqual(withoutWords(withWords(names)), names);
  });
});
