import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { EVENT_TYPES, EVENTS, readEvent } from '../../core/events.ts';
import { foldAll } from '../../core/state.ts';
import { upcast, upcastState, type Upcast } from '../../core/upcast.ts';

type Row = Parameters<typeof readEvent>[0];

interface Fixture {
  logs: { name: string; events: Row[]; state: Record<string, unknown> }[];
}

const DIR = 'test/fixtures/logs';
const fixtures = readdirSync(DIR).map((file) => {
  return { file, ...(JSON.parse(readFileSync(`${DIR}/${file}`, 'utf8')) as Fixture) };
});

describe('Logs of every version so far', () => {
  it('have each type of event in each of its versions', () => {
    const events = fixtures.flatMap(({ logs }) => logs).flatMap((log) => log.events);
    const found = new Set(events.map(({ type, schema_version }) => `${type} ${schema_version}`));
    const all = EVENT_TYPES.flatMap((type) =>
      Array.from({ length: EVENTS[type].version }, (_, index) => `${type} ${index + 1}`),
    );
    assert.deepEqual([...found].toSorted(), all.toSorted());
  });

  for (const { file, logs } of fixtures) {
    for (const { name, events, state } of logs) {
      it(`fold to the state that they had: ${name}, ${file}`, () => {
        const folded = foldAll(null, events.map(readEvent)) as unknown as Record<string, unknown>;
        // What a later version has added to the state is its own.
        for (const [channel, value] of Object.entries(state)) assert.deepEqual(plain(folded[channel]), value, channel);
      });
    }
  }
});

describe('An older payload', () => {
  it('that asks for a cheap call asks for a pure one', () => {
    const payload = { tool_call_id: 'one', mode: 'cheap' };
    assert.deepEqual(upcast({ type: 'tool.requested', from: 1, to: 2 }, payload), {
      tool_call_id: 'one',
      mode: 'pure',
    });
    assert.deepEqual(upcastState({ calls: [{ mode: 'cheap' }, { mode: 'wait' }] }), {
      calls: [{ mode: 'pure' }, { mode: 'wait' }],
    });
  });

  const rename: Upcast = (payload) => ({ kept: (payload as { old: number }).old });
  const add: Upcast = (payload) => ({ ...(payload as object), added: true });
  const upcasts = { 'tool.requested': { 1: rename, 3: add } };

  it('goes through every version of its type after its own, most of which only widen it', () => {
    const of = (from: number) => ({ type: 'tool.requested', from, to: 5 });
    assert.deepEqual(upcast(of(1), { old: 1 }, upcasts), { kept: 1, added: true });
    assert.deepEqual(upcast(of(2), { kept: 1 }, upcasts), { kept: 1, added: true });
    assert.deepEqual(upcast(of(4), { kept: 1 }, upcasts), { kept: 1 });
    assert.deepEqual(upcast({ ...of(1), to: 1 }, { old: 1 }, upcasts), { old: 1 });
  });

  it('is left alone by the versions of other types', () => {
    for (const type of ['tool.started', 'constructor', '__proto__']) {
      assert.deepEqual(upcast({ type, from: 1, to: 5 }, { old: 1 }, upcasts), { old: 1 });
    }
  });
});

/** As a checkpoint would keep it. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value)) as unknown;
}
