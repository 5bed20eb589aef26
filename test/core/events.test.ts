import assert from 'node:assert/strict';
import { ZodError } from 'zod';
import {
  checkEvent,
  EVENT_TYPES,
  EVENTS,
  readEvent,
  toLogged,
  UnknownEventError,
  type NewEvent,
} from '../../core/events.ts';

const row = {
  seq: 3,
  type: 'run.status_changed',
  schema_version: EVENTS['run.status_changed'].version,
  turn_id: null,
  step: null,
  actor: 'worker',
  payload: { from: 'created', to: 'initializing' },
  occurred_at: '2026-01-02T03:04:05.678901+00:00',
};

describe('Reading an event', () => {
  it('gives what was written, with absent places left out and the time as it stands', () => {
    const { schema_version: _, turn_id: __, step: ___, ...rest } = row;
    assert.deepEqual(readEvent(row), { ...rest, turn_id: undefined, step: undefined });
  });

  it('takes a time from either driver', () => {
    assert.equal(readEvent({ ...row, occurred_at: new Date(0) }).occurred_at, '1970-01-01T00:00:00.000Z');
  });

  it('refuses a type that this build does not know', () => {
    assert.throws(() => readEvent({ ...row, type: 'run.teleported' }), UnknownEventError);
    for (const type of ['constructor', '__proto__', 'toString']) {
      assert.throws(() => readEvent({ ...row, type }), UnknownEventError, type);
    }
  });

  it('refuses a newer version of a type that it knows, whatever the payload', () => {
    for (const type of EVENT_TYPES) {
      const newer = { ...row, type, payload: null, schema_version: EVENTS[type].version + 1 };
      assert.throws(() => readEvent(newer), UnknownEventError, type);
    }
  });

  it('refuses a payload that does not fit its type', () => {
    assert.throws(() => readEvent({ ...row, payload: { from: 'created', to: 'asleep' } }), ZodError);
  });
});

describe('Writing an event', () => {
  it('gives it the version of its own type', () => {
    const event: NewEvent = { type: 'run.started', actor: 'worker', payload: {} };
    assert.equal(toLogged(event).schema_version, EVENTS['run.started'].version);
  });

  it('refuses a payload that does not fit its type', () => {
    for (const type of EVENT_TYPES) {
      const event = { type, actor: 'worker', payload: 'none' } as unknown as NewEvent;
      assert.throws(() => checkEvent(event), ZodError, type);
    }
  });
});
