import assert from 'node:assert/strict';
import { ALL_READ } from '../../../db/claim-run.ts';
import type { NewEvent } from '../../../core/events.ts';
import { foldAll } from '../../../core/state.ts';
import {
  appendEvent,
  appendMessage,
  mark,
  openLog,
  rewind,
  type Pending,
  type RunLog,
} from '../../../modules/run-log/run-log.ts';
import { simulate } from '../../support/simulated-driver.ts';

describe('What the next commit of a run writes', () => {
  const { events } = simulate([], { maxSteps: 2, turnTimeoutMs: 1000 }, false);
  const committed = 3;

  const open = (): RunLog => {
    const state = foldAll(null, events.slice(0, committed));
    assert.ok(state);
    return openLog({
      state,
      at: undefined,
      messages: [],
      before: ALL_READ,
      lastCheckpointId: null,
      stepsAtCheckpoint: 0,
    });
  };

  /** Adds one to each list, and sets the rest. */
  const addOneOfEach = (log: RunLog, name: string) => {
    const event = events[log.state.seq];
    assert.ok(event);
    const { type, turn_id, payload } = event;
    appendEvent(log, { type, turn_id, payload } as NewEvent);
    appendMessage(log, { role: 'user', content: [{ type: 'text', text: name }], outcomes: null });
    const rows = log.pending as unknown as Record<string, unknown[]>;
    for (const list of ['newCalls', 'calls', 'waits', 'closedWaits', 'reservations']) rows[list]?.push(name);
    Object.assign(log.pending, { rateLimiter: name, checkpoint: { id: name, trigger: 'tool_result' } });
  };

  const shown = ({ pending, messages, state }: RunLog): { pending: Pending; messages: unknown; state: unknown } =>
    structuredClone({ pending, messages, state });

  it('is as it was at a mark, however often it is taken back to it', () => {
    const log = open();
    addOneOfEach(log, 'kept');
    const before = shown(log);
    const point = mark(log);
    for (const name of ['dropped', 'dropped again']) {
      addOneOfEach(log, name);
      assert.notDeepEqual(shown(log), before);
      rewind(log, point);
      assert.deepEqual(shown(log), before);
    }
  });
});
