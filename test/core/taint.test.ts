import assert from 'node:assert/strict';
import type { RunEvent } from '../../core/events.ts';
import { LIMITS } from '../../core/limits.ts';
import { answeredTo, asked, taintedBy, unreadAtEnd } from '../../core/taint.ts';

const at = (seq: number) => ({ seq, type: 'tool.succeeded', payload: {} }) as unknown as RunEvent;
const answer = (seq: number) =>
  ({ seq, type: 'model.responded', payload: {} }) as unknown as Extract<RunEvent, { type: 'model.responded' }>;

describe('What a turn has read', () => {
  it('is unread at its end if it came after the last answer, however much came before', () => {
    let turn: { untrusted?: number[] } = {};
    for (let seq = 1; seq <= LIMITS.taintedBy; seq += 1) turn = { ...turn, ...taintedBy(turn, at(seq)) };
    const { read } = answeredTo({ turn, ...asked({}, at(200)) }, answer(201));
    assert.deepEqual(unreadAtEnd({ turn, ...(read && { read }) }), {});
    turn = { ...turn, ...taintedBy(turn, at(202)) };
    assert.equal(turn.untrusted?.length, LIMITS.taintedBy);
    assert.deepEqual(unreadAtEnd({ turn, ...(read && { read }) }), { untrustedUnread: [202] });
  });

  it('is unread if it came while the model was asked, and its own findings are not', () => {
    const reading = asked({}, at(10));
    const late = { untrusted: [5, 12] };
    const { read } = answeredTo({ turn: late, ...reading }, answer(13));
    assert.deepEqual(unreadAtEnd({ turn: late, ...(read && { read }) }), { untrustedUnread: [12] });
    const found = answeredTo({ turn: { untrusted: [5] }, ...reading }, answer(13));
    assert.deepEqual(unreadAtEnd({ turn: { untrusted: [5, 13] }, ...found }), {});
  });

  it('is unread where a build that noted no model calls has asked and been answered', () => {
    const turn = { untrusted: [5] };
    assert.deepEqual(answeredTo({ turn }, answer(9)), {});
    assert.deepEqual(unreadAtEnd({ turn }), { untrustedUnread: [5] });
  });
});
