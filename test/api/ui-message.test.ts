import assert from 'node:assert/strict';
import { safeValidateUIMessages, type UIMessage } from 'ai';
import fc from 'fast-check';
import { readTurn } from '../../api/wire/ui-message.ts';
import type { LoggedEvent } from '../../modules/runs/read-runs.ts';

const TURN = '01a00000-0000-7000-8000-000000000001';
const CALLS = ['01a00000-0000-7000-8000-000000000002', '01a00000-0000-7000-8000-000000000003'];

type Told = [type: string, payload: object];

/** What may be logged about calls of one answer: each question with what may become of it, and outcomes. */
function storiesOf(calls: readonly string[]): Told[][] {
  const [tool_call_id = ''] = calls;
  const approval_id = `${tool_call_id}.asked`;
  const about = calls.length > 1 ? { calls } : { tool_call_id };
  const ask = (kind: string): Told => [
    'approval.requested',
    { approval_id, tool: 'pay', message: 'May I?', kind, ...about },
  ];
  const decided = (type: string, more: object = {}): Told => [type, { approval_id, ...more }];
  const error = { code: 'failed', message: 'It has failed.' };
  const ended = (type: string, more: object = {}): Told => [type, { tool_call_id, error, ...more }];
  const decisions = [
    decided('approval.granted'),
    decided('approval.denied', { reason: 'too dear' }),
    decided('approval.expired'),
    ...['happened', 'rerun', 'give_up'].map((decision) => decided('approval.settled', { decision })),
  ];
  const outcomes = [
    ...['tool.succeeded', 'tool.failed', 'tool.denied', 'tool.unknown'].map((type) => ended(type)),
    ...['succeeded', 'failed'].map((outcome) => ended('tool.resolved', { outcome })),
  ];
  const answers = [...outcomes, ended('signal.received')];
  return [
    ...['approval', 'unknown'].flatMap((kind) => [[ask(kind)], ...decisions.map((each) => [ask(kind), each])]),
    ...answers.map((each): Told[] => [['client_tools.requested', { tool_call_ids: [tool_call_id] }], each]),
    ...answers.map((each): Told[] => [['input.requested', { type: 'user', tool_call_id, question: 'Why?' }], each]),
    ...[ended('tool.started'), ...outcomes].map((each) => [each]),
  ];
}

const ENDS: Told[] = [
  ['turn.completed', { stop_reason: 'completed' }],
  ['turn.failed', { error: { code: 'timeout', message: 'The time is up.' } }],
  ['turn.interrupted', { reason: 'cancel' }],
];

describe('a message that is read from a log', () => {
  it('passes the validator of the AI SDK, whatever becomes of its calls in whatever order', async () => {
    const begun = CALLS.map((call, place): Told => ['tool.requested', { tool_call_id: call, name: 'pay', place }]);
    const stories = [...CALLS.flatMap((call) => storiesOf([call])), ...storiesOf(CALLS)];
    const anything = fc.array(fc.constantFrom(...stories), { maxLength: 6 });
    const property = fc.asyncProperty(anything, fc.constantFrom(...ENDS, undefined), async (told, end) => {
      const reader = readTurn({
        threadId: 't',
        runId: 'r',
        turnId: TURN,
        place: 1,
        start: 1,
        head: 99,
        isOpen: true,
      });
      const all = [['turn.started', { input: { message: 'Pay.' } }] satisfies Told, ...begun, ...told.flat()];
      for (const [place, each] of [...all, ...(end ? [end] : [])].entries()) reader.take(logged(place + 1, each));
      const messages = [JSON.parse(JSON.stringify(reader.message())) as UIMessage];
      const result = await safeValidateUIMessages({ messages });
      assert.ok(result.success, JSON.stringify(messages));
    });
    // Two calls are asked about together, one of them once more and granted; the first question ends with the turn.
    const [[together = []], [, granted = []]] = [storiesOf(CALLS), storiesOf(CALLS.slice(1))];
    await fc.assert(property, { numRuns: 300, examples: [[[together, granted], ENDS[0]]] });
  });
});

function logged(seq: number, [type, payload]: Told): LoggedEvent {
  const call = { name: 'pay', tool_use_id: 'u', arguments: {}, output: 'paid', output_bytes: 4, is_left_out: false };
  return {
    seq,
    type,
    schema_version: 1,
    turn_id: TURN,
    step: 1,
    actor: 'system',
    payload,
    occurred_at: new Date(0),
    content: null,
    call: type.startsWith('tool.') ? { ...call, is_error: false, status: 'succeeded', error: null } : null,
    calls: null,
    steps: null,
    partial: null,
  };
}
