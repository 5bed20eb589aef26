import assert from 'node:assert/strict';
import { foldDelta, foldEvent } from '../../api/wire/fold-turn.ts';
import { beforeTurn, type TurnView } from '../../api/wire/turn-view.ts';
import { UI_STREAM } from '../../api/wire/ui-stream.ts';
import type { LoggedEvent } from '../../modules/runs/read-runs.ts';

const TURN = '01a00000-0000-7000-8000-000000000001';
const CALL = '01a00000-0000-7000-8000-000000000002';

describe('A turn of which the pieces overtake the log', () => {
  let view: TurnView;
  let seq: number;
  beforeEach(() => {
    view = beforeTurn(TURN);
    seq = 0;
  });

  const event = (type: string, step: number, more: Partial<LoggedEvent> = {}): LoggedEvent => ({
    seq: ++seq,
    type,
    schema_version: 1,
    turn_id: TURN,
    step,
    actor: 'system',
    payload: {},
    occurred_at: new Date(0),
    content: null,
    call: null,
    calls: null,
    steps: null,
    partial: null,
    ...more,
  });
  const fold = (...args: Parameters<typeof event>) => foldEvent(view, event(...args));
  const piece = (step: number, at: number, text: string) =>
    foldDelta(view, { subject: 'r', kind: 'delta', turnId: TURN, step, at, delta: { type: 'text', text } });
  const written = (
    callId: string,
    text: string,
    more: { step?: number; at?: number; place?: number; after?: number },
  ) => {
    const { step = 1, at = 0, place = 0, after = 0 } = more;
    const call = { callId, place, tool: 'calculator', text, at, after };
    return foldDelta(view, { subject: 'r', kind: 'call_piece', turnId: TURN, step, ...call });
  };
  const kinds = (changes: ReturnType<typeof fold>) => changes.map(({ kind }) => kind);
  const answered = (step: number, text: string) => fold('model.responded', step, { content: [{ type: 'text', text }] });
  const requested = (step: number, place = 0) =>
    fold('tool.requested', step, { payload: { tool_call_id: CALL, name: 'calculator', place } });
  const asks = (step: number, ...names: string[]) =>
    fold('model.responded', step, {
      content: names.map((name) => ({ type: 'tool_use', id: name, name, input: {} })),
    });

  it('has no place for a piece of the next step before this one is in the log, and shows all of it then', () => {
    fold('model.called', 1);
    assert.deepEqual(piece(2, 0, 'later'), []);
    assert.equal(piece(1, 0, 'now').length, 2);
    answered(1, 'now');
    assert.equal(piece(2, 0, 'la').length, 2, 'the step before it has ended');
    assert.deepEqual(piece(4, 0, 'too early'), []);
    answered(2, 'later');
    assert.deepEqual(
      view.parts.map((part) => part.kind !== 'call' && part.text),
      ['now', 'later'],
    );
  });

  it('has what the user has said before the answer to it, where pieces of that have overtaken it', () => {
    const payload = { message_id: CALL, as: 'steer', mode: 'steer', input: { message: 'in short' } };
    const turn = (isOvertaken: boolean) => {
      view = beforeTurn(TURN);
      seq = 0;
      fold('model.called', 1);
      fold('message.queued', 0, { payload });
      answered(1, 'long');
      if (isOvertaken) piece(2, 0, 'sh');
      fold('message.dequeued', 0, { payload });
      fold('model.called', 2);
      if (isOvertaken) piece(2, 2, 'ort');
      answered(2, 'short');
      const { parts, messages } = view;
      const [message] = messages;
      const texts = (some: TurnView['parts']) =>
        some.flatMap((part) => (part.kind === 'call' || part.isVoid ? [] : part.text));
      const place = message?.place ?? 0;
      return { before: texts(parts.slice(0, place)), after: texts(parts.slice(place)), status: message?.status };
    };
    assert.deepEqual(turn(false), { before: ['long'], after: ['short'], status: 'read' });
    assert.deepEqual(turn(true), turn(false));
  });

  it('has no message that waits any more once a newer one has come in a later turn', () => {
    const queued = (id: string, more: Partial<LoggedEvent> = {}) =>
      fold('message.queued', 0, { payload: { message_id: id, mode: 'queue', input: { message: id } }, ...more });
    queued('first');
    fold('turn.completed', 0);
    assert.equal(queued('second', { turn_id: CALL }).length, 1);
    assert.deepEqual(
      view.messages.map(({ id, status }) => [id, status]),
      [['first', 'replaced']],
    );
  });

  it('has what a turn reads again beside the message that waits', () => {
    const queued = (id: string, more: object = {}) =>
      fold('message.queued', 0, { payload: { message_id: id, mode: 'steer', input: { message: id }, ...more } });
    queued('again', { read_at: 3 });
    queued('first');
    queued('second');
    fold('message.dequeued', 0, { payload: { message_id: 'again', as: 'steer', length: 3 } });
    assert.deepEqual(
      view.messages.map(({ id, status }) => [id, status]),
      [
        ['again', 'read'],
        ['first', 'replaced'],
        ['second', 'waiting'],
      ],
    );
  });

  it('knows a call again in the log that it has shown while it was written', () => {
    assert.deepEqual(kinds(written(CALL, '', {})), ['call_begun']);
    assert.deepEqual(kinds(written(CALL, '{"a":', {})), ['call_grew']);
    assert.deepEqual(written(CALL, 'x', { at: 9 }), [], 'a piece before it was lost');
    assert.deepEqual(kinds(written(CALL, '1}', { at: 5 })), ['call_grew']);
    assert.deepEqual(asks(1, 'calculator'), []);
    assert.deepEqual(kinds(requested(1)), ['call_written']);
    assert.deepEqual(written(CALL, '2', { at: 7 }), [], 'it is whole');
  });

  it('shows no call of which what the answer had before it was not shown', () => {
    assert.deepEqual(written(CALL, '{}', { after: 3 }), []);
    piece(1, 0, 'now');
    assert.deepEqual(written(CALL, '{}', { after: 3, place: 1 }), []);
    assert.deepEqual(kinds(written(CALL, '{}', { after: 3 })), ['call_begun', 'call_grew']);
  });

  const OTHER = '01a00000-0000-7000-8000-000000000003';
  const ANEW: Record<string, { act: () => ReturnType<typeof fold>; others: string[] }> = {
    'the next attempt begins with a call': {
      act: () => written(OTHER, '', {}),
      others: ['call_begun'],
    },
    'the next attempt begins with a text': { act: () => piece(1, 0, 'no'), others: ['text_opened', 'text_grew'] },
    'the answer in the log has none': { act: () => answered(1, ''), others: [] },
    'the answer in the log has a call of another tool': { act: () => asks(1, 'ask_user'), others: [] },
    'the log has another call in its place': { act: () => requested(1), others: ['call_requested'] },
    'the next step begins': { act: () => fold('model.called', 2), others: [] },
    'the turn ends': { act: () => fold('turn.failed', 0), others: ['ended'] },
    'the user has said something before it': {
      act() {
        const payload = { message_id: CALL, as: 'steer', mode: 'steer', input: { message: 'in short' } };
        fold('message.queued', 0, { payload });
        return fold('message.dequeued', 0, { payload });
      },
      others: ['message_changed'],
    },
  };
  for (const [when, { act, others }] of Object.entries(ANEW)) {
    it(`takes a call back that was written by an attempt that is void: ${when}`, () => {
      written('01a00000-0000-7000-8000-000000000009', '{"a"', {});
      assert.deepEqual(kinds(act()), ['calls_withdrawn', ...others]);
      assert.deepEqual(written('01a00000-0000-7000-8000-000000000009', ':1}', { at: 4 }), [], 'nothing more is told');
    });
  }

  it('takes a text back where the next attempt begins with a call', () => {
    piece(1, 0, 'now');
    assert.deepEqual(kinds(written(CALL, '{}', {})), ['text_closed', 'call_begun', 'call_grew']);
  });

  it('voids the answer that was being written when its turn failed, and keeps what its user has stopped', () => {
    for (const [type, isVoid] of [
      ['turn.failed', true],
      ['turn.interrupted', false],
    ] as const) {
      view = beforeTurn(TURN);
      seq = 0;
      fold('model.called', 1);
      answered(1, 'whole');
      piece(2, 0, 'unfin');
      assert.deepEqual(kinds(fold(type, 2)), ['text_closed', 'ended'], type);
      assert.deepEqual(
        view.parts.map((part) => part.kind !== 'call' && [part.text, part.isVoid]),
        [
          ['whole', false],
          ['unfin', isVoid],
        ],
        type,
      );
    }
  });

  it('has what the log has of an answer that its user has stopped, and keeps what was shown beyond that', () => {
    const reasoning = (text: string) =>
      foldDelta(view, { subject: 'r', kind: 'delta', turnId: TURN, step: 2, at: 0, delta: { type: 'thinking', text } });
    const shownBefore: Record<string, [act: () => unknown, texts: string[]]> = {
      nothing: [() => [], ['unfinished']],
      'a part of it': [() => piece(2, 0, 'unfin'), ['unfinished']],
      more: [() => piece(2, 0, 'unfinished, too'), ['unfinished, too']],
      'its reasoning': [() => reasoning('well'), ['well', 'unfinished']],
    };
    for (const [what, [act, texts]] of Object.entries(shownBefore)) {
      for (const [type, step] of [
        ['turn.interrupted', 2],
        ['turn.interrupted', 1],
        ['turn.failed', 2],
      ] as const) {
        view = beforeTurn(TURN);
        seq = 0;
        fold('model.called', 1);
        answered(1, 'whole');
        act();
        const before = view.parts.length;
        fold(type, 2, { partial: { step, text: 'unfinished' } });
        const shown = view.parts.slice(1).flatMap((part) => (part.kind === 'call' ? [] : part.text));
        const isKept = type === 'turn.interrupted' && step === 2;
        assert.deepEqual(isKept ? shown : view.parts.length, isKept ? texts : before, `${what}, ${type} in ${step}`);
      }
    }
  });

  it('begins no step anew for a client of the AI SDK, which would lose the text that is open', () => {
    const show = (changes: ReturnType<typeof fold>) =>
      changes.flatMap((change) => UI_STREAM.show(change, view)).map(({ type }) => type);
    assert.deepEqual(show(piece(2, 0, 'early')), ['start-step', 'text-start', 'text-delta']);
    assert.deepEqual(show(requested(1)), ['tool-input-available']);
    assert.deepEqual(show(answered(2, 'early')), ['text-end']);
  });

  it('leaves no call at work that its log has left open: one that was begun is unknown, and another was not made', () => {
    requested(1);
    fold('tool.started', 1, { payload: { tool_call_id: CALL, attempt: 1 } });
    const other = CALL.replace(/2$/, '3');
    fold('tool.requested', 1, { payload: { tool_call_id: other, name: 'calculator', place: 1 } });
    fold('turn.interrupted', 1, { payload: { reason: 'cancel' } });
    const left = view.parts.map((part) => part.kind === 'call' && [part.state, part.error]);
    assert.deepEqual(left, [
      ['unknown', 'The turn ended during this call: it may or may not have taken effect.'],
      ['failed', 'The turn ended before this call was made.'],
    ]);
  });

  it('waits no more once what it has asked is settled by the end of its run', () => {
    requested(1);
    fold('input.requested', 1, { payload: { tool_call_id: CALL, type: 'user', question: 'Really?' } });
    fold('run.status_changed', 1, { payload: { from: 'executing', to: 'awaiting_human' } });
    assert.ok(view.isPaused);
    fold('tool.failed', 1, { payload: { tool_call_id: CALL, error: { code: 'cancelled', message: 'Cancelled.' } } });
    assert.ok(!view.isPaused, 'a stream that begins here goes on to the end of the turn');
  });
});
