import assert from 'node:assert/strict';
import { decide } from '../../core/decide.ts';
import { fold, foldAll, type RunState } from '../../core/state.ts';
import type { RunEvent } from '../../core/events.ts';
import { simulate } from '../support/simulated-driver.ts';

const LIMITS = { maxSteps: 2, turnTimeoutMs: 1000 };

/** The log of a run that answers at once, and the state after its first `events`. */
function stateAfter(events: number): RunState {
  const state = foldAll(null, simulate([], LIMITS, false).events.slice(0, events));
  assert.ok(state);
  return state;
}

function responded(state: RunState, payload: Record<string, unknown>): RunEvent {
  const log = simulate([], LIMITS, false).events;
  const answer = log.find(({ type }) => type === 'model.responded');
  assert.ok(answer);
  return { ...answer, seq: state.seq + 1, payload: { ...answer.payload, ...payload } } as RunEvent;
}

const CALLED = 7;

describe('The fold of a log', () => {
  const log = simulate([], LIMITS, false).events;
  const created = log[0];
  assert.ok(created);

  it('begins with the creation of the run', () => {
    assert.throws(() => foldAll(null, log.slice(1)), /starts with turn\.started instead of run\.created/);
  });

  it('refuses a gap, a repetition and a second beginning', () => {
    assert.throws(() => foldAll(null, log.toSpliced(1, 1)), /the log has a gap/);
    assert.throws(() => foldAll(null, log.toSpliced(2, 0, ...log.slice(1, 2))), /the log has a gap/);
    assert.throws(() => foldAll(null, log.toSpliced(1, 0, created)), /creates the run anew/);
    assert.throws(() => fold(null, { ...created, seq: 2 }), /creates the run anew/);
  });

  it('knows that a message was written by the event that goes with it', () => {
    const before = stateAfter(CALLED - 1);
    const after = stateAfter(CALLED);
    assert.deepEqual([before.length, before.turn?.begun], [0, false]);
    assert.deepEqual([after.length, after.turn?.begun], [1, true]);
  });

  it('counts a message of results with the tool uses that they belong to', () => {
    const state = stateAfter(CALLED);
    assert.equal(fold(state, responded(state, { ordinal: 1, tool_calls: 0 })).length, 2);
    assert.equal(fold(state, responded(state, { ordinal: 1, tool_calls: 3 })).length, 3);
  });

  it('takes the failure of a call whose turn has ended for none of the call that is open', () => {
    const state = stateAfter(CALLED);
    const failed = (turnId: string | undefined) => {
      const payload = { model: 'm', error: { code: 'interrupted', message: 'ended' } };
      const event = { ...responded(state, {}), type: 'model.failed', turn_id: turnId, payload } as RunEvent;
      return fold(state, event).modelCall?.failures;
    };
    assert.equal(state.modelCall?.failures, 0);
    assert.equal(failed('of-another-turn'), 0);
    assert.equal(failed(state.turn?.id), 1);
  });
});

describe('The next decision', () => {
  it('is another model call for a model that pauses, and the end of the turn where its steps are used up', () => {
    const state = stateAfter(CALLED);
    const paused = fold(state, responded(state, { stop_reason: 'pause_turn' }));
    assert.equal(decide(paused, LIMITS).kind, 'call_model');
    const last = { ...state, turn: state.turn && { ...state.turn, maxStepsReached: true } };
    const end = decide(fold(last, responded(last, { stop_reason: 'pause_turn' })), LIMITS);
    assert.deepEqual([end.kind, 'stopReason' in end && end.stopReason], ['complete_turn', 'max_steps']);
  });

  it('fails a turn that has used up its time, but not one that has its answer', () => {
    const state = stateAfter(CALLED);
    const slow = fold(state, responded(state, { latency_ms: 1001, tool_calls: 1 }));
    const end = decide(slow, LIMITS);
    assert.ok(end.kind === 'fail_turn');
    assert.equal(end.error.code, 'turn_timeout');
    assert.match(end.error.message, /its 1 s of driving time: execution_config\.timeout_seconds/);
    const answered = fold(state, responded(state, { latency_ms: 1001 }));
    assert.equal(decide(answered, LIMITS).kind, 'complete_turn');
  });
});
