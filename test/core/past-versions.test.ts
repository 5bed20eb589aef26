import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { EVENT_TYPES, readEvent } from '../../core/events.ts';
import { foldAll } from '../../core/state.ts';
import { SCHEMA_VERSION, upcast, upcastState, type Upcast } from '../../core/upcast.ts';

type Row = Parameters<typeof readEvent>[0];

interface Fixture {
  version: number;
  logs: { name: string; events: Row[]; state: Record<string, unknown> }[];
}

const DIR = 'test/fixtures/logs';
const fixtures = readdirSync(DIR).map((file) => JSON.parse(readFileSync(`${DIR}/${file}`, 'utf8')) as Fixture);

describe('Logs of every version so far', () => {
  it('are there, each with every type of event that its version knew', () => {
    const versions = fixtures.map(({ version }) => version).toSorted((a, b) => a - b);
    assert.deepEqual(
      versions,
      Array.from({ length: SCHEMA_VERSION }, (_, index) => index + 1),
    );
    const current = fixtures.find(({ version }) => version === SCHEMA_VERSION);
    const types = new Set(current?.logs.flatMap(({ events }) => events.map(({ type }) => type)));
    assert.deepEqual([...types].toSorted(), EVENT_TYPES.toSorted());
  });

  for (const { version, logs } of fixtures) {
    for (const { name, events, state } of logs) {
      it(`of version ${version} fold to the state that they had: ${name}`, () => {
        const folded = foldAll(null, events.map(readEvent)) as unknown as Record<string, unknown>;
        // What a later version has added to the state is its own.
        for (const [channel, value] of Object.entries(state)) assert.deepEqual(plain(folded[channel]), value, channel);
      });
    }
  }
});

describe('An older event', () => {
  it('that asks for a cheap call asks for a pure one', () => {
    const payload = { tool_call_id: 'one', mode: 'cheap' };
    assert.deepEqual(upcast({ type: 'tool.requested', payload }, 1), {
      type: 'tool.requested',
      payload: { tool_call_id: 'one', mode: 'pure' },
    });
    assert.deepEqual(upcastState({ calls: [{ mode: 'cheap' }, { mode: 'wait' }] }), {
      calls: [{ mode: 'pure' }, { mode: 'wait' }],
    });
  });

  const upcasts: Upcast[] = [
    ({ type, payload }) => ({ type: type === 'old.name' ? 'new.name' : type, payload }),
    ({ type, payload }) => ({ type, payload: { ...(payload as object), added: true } }),
  ];

  it('goes through every version after its own', () => {
    const event = { type: 'old.name', payload: { kept: 1 } };
    assert.deepEqual(upcast(event, 1, upcasts), { type: 'new.name', payload: { kept: 1, added: true } });
    assert.deepEqual(upcast(event, 2, upcasts), { type: 'old.name', payload: { kept: 1, added: true } });
    assert.deepEqual(upcast(event, 3, upcasts), event);
    assert.deepEqual(event, { type: 'old.name', payload: { kept: 1 } });
  });
});

/** As a checkpoint would keep it. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value)) as unknown;
}
