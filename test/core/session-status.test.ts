import assert from 'node:assert/strict';
import { sessionStatus, type SessionFacts } from '../../core/session-status.ts';

const OPEN: SessionFacts = {
  run_status: 'executing',
  waits_for: null,
  turn_status: 'running',
  stop_reason: null,
  has_open_turn: true,
  is_calling: true,
  has_errors: false,
  has_queued: false,
};

describe('The status of a session with an open turn', () => {
  it('is that it waits for approval as soon as a plan asks, whatever else is called or queued meanwhile', () => {
    for (const has_queued of [false, true]) {
      for (const run_status of ['executing', 'awaiting_tool', 'awaiting_human'] as const) {
        assert.equal(sessionStatus({ ...OPEN, run_status, has_queued, waits_for: 'approval' }), 'waiting_approval');
      }
    }
  });

  it('is that it waits for an answer once the turn itself is not at work, also where a call goes on elsewhere', () => {
    assert.equal(sessionStatus({ ...OPEN, waits_for: 'user' }), 'executing');
    for (const run_status of ['awaiting_human', 'awaiting_tool'] as const) {
      assert.equal(sessionStatus({ ...OPEN, run_status, waits_for: 'user' }), 'waiting_approval');
    }
  });

  it('is executing while it waits for time or another system, and planning while nothing is called', () => {
    assert.equal(sessionStatus({ ...OPEN, is_calling: false, waits_for: 'other' }), 'executing');
    assert.equal(sessionStatus({ ...OPEN, is_calling: false }), 'planning');
    assert.equal(sessionStatus({ ...OPEN, has_queued: true }), 'executing_queued');
  });

  it('is executing with a message that waits between turns, for whoever the conversation is handed to', () => {
    const between = { ...OPEN, run_status: 'awaiting_human' as const, has_open_turn: false, turn_status: 'complete' };
    assert.equal(sessionStatus({ ...between, has_queued: true }), 'executing_queued');
    assert.equal(sessionStatus({ ...between, run_status: 'completed', has_queued: true }), 'completed');
  });
});
