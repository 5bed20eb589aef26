import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Message } from '../../core/content.ts';
import { forkPoint, messageFaults, segmentsOf, withMessages } from '../../core/fork.ts';
import { foldAll } from '../../core/state.ts';
import { simulate } from '../support/simulated-driver.ts';

const user = (...content: Extract<Message, { role: 'user' }>['content']): Message => ({ role: 'user', content });
const assistant = (...content: Extract<Message, { role: 'assistant' }>['content']): Message => ({
  role: 'assistant',
  content,
});
const text = (of: string) => ({ type: 'text' as const, text: of });
const use = (id: string) => ({ type: 'tool_use' as const, id, name: 'calculator', input: {} });
const result = (id: string) => ({ type: 'tool_result' as const, tool_use_id: id, content: '1' });

describe('a conversation that a client puts in the place of another', () => {
  const faultsOf = (...messages: Message[]) => messageFaults(messages, 'm').map(({ path }) => path);

  it('is sound where each tool use has its result in the next message', () => {
    const sound = [
      user(text('a')),
      assistant(use('1'), use('2')),
      user(result('2'), result('1')),
      assistant(text('b')),
    ];
    assert.deepEqual(faultsOf(...sound), []);
    assert.deepEqual(faultsOf(), []);
  });

  it('has a fault where a result or a use stands alone, comes twice or late, or where the model begins', () => {
    assert.deepEqual(faultsOf(assistant(text('a'))), ['m.0.role']);
    assert.deepEqual(faultsOf(user(text('a')), assistant(use('1'))), ['m.1.content']);
    assert.deepEqual(faultsOf(user(text('a'), result('1'))), ['m.0.content']);
    assert.deepEqual(faultsOf(user(text('a')), assistant(use('1')), user(result('1'), result('1'))), ['m.2.content']);
    const late = [user(text('a')), assistant(use('1')), user(text('b')), user(result('1'))];
    assert.deepEqual(faultsOf(...late), ['m.1.content', 'm.3.content']);
    const twice = [user(text('a')), assistant(use('1')), user(result('1')), assistant(use('1')), user(result('1'))];
    assert.deepEqual(faultsOf(...twice), ['m.3.content']);
  });

  it('opens a turn where it ends with a question, and none where it ends with an answer', () => {
    const { state } = simulate([], { maxSteps: 3, turnTimeoutMs: 1000 }, false);
    const asked = withMessages(state, [user(text('a')), assistant(text('b')), user(text('c'))]);
    assert.deepEqual([asked.turn?.input, asked.turn?.begun], [{ message: 'c' }, true]);
    assert.equal(withMessages(state, [user(text('a')), assistant(text('b'))]).turn, null);
  });

  it('asks an open turn its new question where it has one, and else what it was asked', () => {
    const { events } = simulate([6, 6, 6, 6], { maxSteps: 3, turnTimeoutMs: 1000 }, false);
    const called = events.findIndex(({ type }) => type === 'tool.requested');
    const state = foldAll(null, events.slice(0, called + 1));
    assert.ok(state?.turn?.begun);
    const input = { ...state.turn.input, output_schema: { type: 'object' }, message_id: 'm' };
    const open = { ...state, turn: { ...state.turn, input } };
    const asked = (...messages: Message[]) => withMessages(open, messages).turn?.input;
    const work = [assistant(use('1')), user(result('1'))];
    assert.deepEqual(asked(user(text(input.message)), ...work, user(text('steer'))), input);
    const other = { message: 'other', output_schema: input.output_schema };
    assert.deepEqual(asked(user(text('a')), assistant(text('b')), user(text('other')), ...work), other);
    assert.deepEqual(asked(user(text('other')), user(text('steer'))), other);
  });
});

describe('the point of a fork', () => {
  const stateAtCall = () => {
    const { events } = simulate([6, 6, 6, 6, 6, 6, 6, 6], { maxSteps: 3, turnTimeoutMs: 1000 }, false);
    const asked = events.findIndex(({ type }) => type === 'tool.requested');
    const called = foldAll(null, events.slice(0, asked + 1));
    assert.ok(called && asked > 0);
    return called;
  };

  it('lies before the answer whose call is open, whatever its user has said since then', () => {
    const called = stateAtCall();
    const calls = called.calls.map((call) => ({ ...call, status: 'unknown' as const }));
    const at = (said: number) => {
      const steered = Array.from({ length: said }, (_, index) => called.length + index);
      return forkPoint('r', { ...called, calls, length: called.length + said, steered }).length;
    };
    assert.deepEqual([at(0), at(1), at(2)], Array(3).fill(called.length - 2));
  });

  it('counts the calls that the turn had made before it, and none that was denied', () => {
    const state = stateAtCall();
    const [call] = state.calls;
    assert.ok(call && state.turn);
    const calls = (['denied', 'unknown'] as const).map((status) => ({ ...call, status }));
    const counted = {
      ...state,
      turn: { ...state.turn, toolCalls: 5 },
      deniedCalls: { turnId: state.turn.id, count: 2 },
      calls,
    };
    assert.equal(forkPoint('r', counted).turn?.toolCalls, 2);
    assert.equal(forkPoint('r', { ...counted, calls: [] }).turn?.toolCalls, 3);
  });
});

describe('the segments that a fork stands on', () => {
  /** Which lineage each of the first messages of a run lies in. */
  const places = (segments: { lineage: string; length: number }[], length: number) =>
    Array.from({ length }, (_, ordinal) => segments.find((segment) => ordinal < segment.length)?.lineage);

  it('hold the same first messages as those of the original, and no others', () => {
    const run = fc.array(fc.nat(5), { minLength: 1, maxLength: 6 }).map((sizes) => {
      let length = 0;
      const segments = sizes.map((size, index) => ({ lineage: String(index), length: (length += size) }));
      return { lineage_base: segments.slice(0, -1), lineage: String(sizes.length - 1), length };
    });
    fc.assert(
      fc.property(run, fc.nat(30), (original, cut) => {
        const length = Math.min(cut, original.length);
        const segments = segmentsOf(original, length);
        const all = [...original.lineage_base, { lineage: original.lineage, length: original.length }];
        assert.deepEqual(places(segments, length), places(all, length));
        assert.equal(segments.at(-1)?.length ?? 0, length);
      }),
    );
  });
});
