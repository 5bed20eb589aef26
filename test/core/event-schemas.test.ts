import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { EVENT_TYPES, EVENTS } from '../../core/events.ts';
import { UPCASTS } from '../../core/upcast.ts';
import { schemaOf, type SchemaFixture } from '../support/event-schema.ts';

const known = JSON.parse(readFileSync('test/fixtures/event-schemas.json', 'utf8')) as SchemaFixture;

describe('The payload of an event', () => {
  for (const type of EVENT_TYPES) {
    const { version } = EVENTS[type];
    it(`has not changed within version ${version}: ${type}`, () => {
      const committed = known[type]?.[version];
      assert.ok(committed, `write it down: npx tsx test/support/make-log-fixture.ts (${type}, version ${version})`);
      assert.deepEqual(schemaOf(type), committed, `raise the version of ${type}, with an upcast in core/upcast.ts`);
    });
  }

  it('has each version so far written down, and no upcast of another', () => {
    assert.deepEqual(Object.keys(known).toSorted(), EVENT_TYPES.toSorted(), 'a type is never taken away');
    for (const type of EVENT_TYPES) {
      const versions = Array.from({ length: EVENTS[type].version }, (_, index) => String(index + 1));
      assert.deepEqual(Object.keys(known[type] ?? {}), versions, type);
      const others = Object.keys(UPCASTS[type] ?? {}).filter((from) => !versions.slice(0, -1).includes(from));
      assert.deepEqual(others, [], type);
    }
    for (const type of Object.keys(UPCASTS)) assert.ok(type in EVENTS, type);
  });
});
