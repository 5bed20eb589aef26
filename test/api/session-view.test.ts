import assert from 'node:assert/strict';
import type { SessionFrame } from '../../api/sessions/session-frame.ts';
import { foldEvent } from '../../api/sessions/session-view.ts';
import { beforeTurns } from '../../api/sessions/turn-view.ts';
import type { LoggedEvent } from '../../modules/runs/read-runs.ts';

const TURN = '01a00000-0000-7000-8000-000000000001';
const CALL = '01a00000-0000-7000-8000-000000000002';
const PLAN = '01a00000-0000-7000-8000-000000000003';

/** Payloads of the frames of a session (docs/sessions.md, Watching). */
const DOCUMENTED: Record<string, string[]> = {
  plan_proposed: ['purpose', 'steps', 'max_risk_level', 'tool_count'],
  tool_call_started: ['step_index', 'tool', 'arguments'],
  tool_call_completed: ['step_index', 'tool', 'duration_ms', 'result_preview'],
  tool_call_failed: ['step_index', 'tool', 'error', 'retry_count'],
  waiting_for_approval: ['message'],
  message_queued: ['queued_message_preview', 'will_process_after'],
  answer_ready: ['answer', 'tool_calls_count', 'duration_ms'],
};

describe("A session's frames", () => {
  let turn = beforeTurns();
  let seq = 0;
  beforeEach(() => {
    turn = beforeTurns();
    seq = 0;
  });

  const call = { name: 'pay', arguments: { sum: 4 }, output: { ok: true }, is_left_out: false, output_bytes: 11 };
  const fold = (type: string, payload: object, more: Partial<LoggedEvent> = {}): SessionFrame | null => {
    const event: LoggedEvent = {
      seq: ++seq,
      type,
      schema_version: 1,
      turn_id: TURN,
      step: 1,
      actor: 'worker',
      payload,
      occurred_at: new Date(seq * 1000),
      content: null,
      call: null,
      calls: null,
      steps: null,
      partial: null,
      ...more,
    };
    const folded = foldEvent(turn, { event, place: 1 }, 'session');
    turn = folded.turn;
    return folded.frame;
  };
  const ofCall = { call } as unknown as Partial<LoggedEvent>;
  const begun = () => {
    fold('turn.started', { number: 1 });
    fold('tool.requested', { tool_call_id: CALL, name: 'pay', place: 0 }, ofCall);
    const steps = [{ tool_call_id: CALL, tool: 'pay', risk_level: 'WRITE_LOW_RISK' }];
    const plan = { plan_id: PLAN, auto_executing: false, purpose: 'Pay', steps, max_risk_level: 'WRITE_LOW_RISK' };
    return [
      fold('plan.proposed', plan),
      fold('approval.requested', { plan_id: PLAN, approval_id: CALL, kind: 'approval', message: 'Pay?' }),
      fold('message.queued', { message_id: CALL, mode: 'queue', input: { message: 'And in Dodixie?' } }),
      fold('tool.started', { tool_call_id: CALL, attempt: 1 }, ofCall),
    ];
  };

  it("have the document's fields, each of them with a value", () => {
    const error = { code: 'http', message: 'ESI API timeout' };
    const frames = [
      ...begun(),
      fold('tool.failed', { tool_call_id: CALL, error, attempts: 3 }, ofCall),
      fold('tool.succeeded', { tool_call_id: CALL, latency_ms: 234, output_bytes: 11 }, ofCall),
      fold('run.status_changed', { from: 'executing', to: 'reflecting' }),
    ];
    const seen = frames.flatMap((frame) => frame ?? []);
    assert.deepEqual(new Set(seen.map(({ type }) => type)), new Set(Object.keys(DOCUMENTED)));
    for (const { type, payload } of seen) {
      for (const field of DOCUMENTED[type] ?? []) assert.notEqual(payload[field], undefined, `${type}.${field}`);
    }
    const failed = seen.find(({ type }) => type === 'tool_call_failed');
    assert.deepEqual([failed?.payload['retry_count'], failed?.plan_id], [2, PLAN]);
  });

  it('say how long it took until it was known that a call of unknown outcome has happened', () => {
    begun();
    fold('tool.unknown', { tool_call_id: CALL, error: { code: 'lost', message: 'lost' }, attempts: 1 }, ofCall);
    const frame = fold('tool.resolved', { tool_call_id: CALL, outcome: 'succeeded', by: 'late_result' }, ofCall);
    assert.equal(frame?.type, 'tool_call_completed');
    assert.deepEqual([frame?.payload['duration_ms'], frame?.payload['result_preview']], [2000, '{"ok":true}']);
  });
});
