import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { eraseEvent } from '../../core/erasure.ts';
import { EVENTS, readEvent, type StoredEvent } from '../../core/events.ts';
import { foldAll } from '../../core/state.ts';

const { logs } = JSON.parse(readFileSync('test/fixtures/logs/version-3.json', 'utf8')) as {
  logs: { name: string; events: StoredEvent[] }[];
};

describe('An erased event', () => {
  for (const { name, events } of logs) {
    it(`is still one that this build reads and folds, with the run's position, length and costs: ${name}`, () => {
      const erased = events.map((event) => ({ ...event, ...eraseEvent(event) }));
      const [before, after] = [foldAll(null, events.map(readEvent)), foldAll(null, erased.map(readEvent))];
      assert.ok(before && after);
      for (const field of ['seq', 'status', 'length', 'steps', 'turnCount', 'lineage', 'budget'] as const) {
        assert.deepEqual(after[field], before[field], field);
      }
      for (const event of erased) assert.deepEqual({ ...event, ...eraseEvent(event) }, event, 'again changes nothing');
    });
  }

  it('keeps ids, numbers, outcomes and names of what was set up, and nothing that anybody has said', () => {
    const call = '0192a000-0000-7000-8000-000000000001';
    const erase = (type: keyof typeof EVENTS, payload: unknown) =>
      eraseEvent({ type, schema_version: EVENTS[type].version, payload }).payload;
    const attachments = [{ type: 'text', text: 'canary' }];
    assert.deepEqual(
      erase('turn.started', { number: 2, input: { message: 'canary', attachments }, requested_by: call }),
      {
        number: 2,
        input: { message: '' },
        requested_by: call,
      },
    );
    assert.deepEqual(
      erase('signal.received', { signal_id: 'canary', type: 'user', name: 'canary', payload: { canary: 42 } }),
      { signal_id: '', type: 'user', payload: null },
    );
    assert.deepEqual(
      erase('tool.failed', { tool_call_id: call, error: { code: 'c', message: 'canary' }, attempts: 2 }),
      {
        tool_call_id: call,
        error: { code: 'c', message: '' },
        attempts: 2,
      },
    );
    const policy = { id: call, name: 'no payments', version: 3 };
    const asked = { approval_id: call, kind: 'approval', tool: 'pay', digest: 'd', expires_in_seconds: 60, policy };
    assert.deepEqual(erase('approval.requested', { ...asked, arguments: { canary: 1 }, message: 'canary' }), {
      ...asked,
      arguments: {},
    });
    assert.deepEqual(
      erase('model.failed', { model: 'm', error: { code: 'c', message: 'canary' }, partial: 'canary' }),
      {
        model: 'm',
        error: { code: 'c', message: '' },
      },
    );
  });

  it('of a type that this build does not know has nothing left', () => {
    assert.deepEqual(eraseEvent({ type: 'dream.seen', schema_version: 4, payload: { text: 'canary' } }), {
      payload: {},
      schema_version: 4,
    });
  });
});
