import assert from 'node:assert/strict';
import fc from 'fast-check';
import { textOf, type AssistantBlock } from '../../core/content.ts';
import { decide } from '../../core/decide.ts';
import { recordAnswer } from '../../core/decision-events/model-calls.ts';
import { requestCall } from '../../core/decision-events/tool-calls.ts';
import { atSeq, checkEvent, type NewEvent } from '../../core/events.ts';
import { fixedId } from '../../core/ids.ts';
import { callsOf, faultOf, faultOfPlace, INTENT_KINDS, intentsOf, invalidAnswersBefore } from '../../core/intents.ts';
import { LIMITS } from '../../core/limits.ts';
import { NO_TOKENS } from '../../core/model.ts';
import { fold, foldAll, type RunState } from '../../core/state.ts';
import { RAW_ARGUMENTS, type ToolDefinition } from '../../core/tool.ts';
import { createArgumentValidator } from '../../tools/validate-arguments.ts';
import { simulate } from '../support/simulated-driver.ts';
import { toolOf } from '../support/tool-attempt.ts';

const { validateArguments } = createArgumentValidator();

const BUILTIN = { type: 'builtin' as const };
const PAY: ToolDefinition = {
  ...toolOf({ type: 'http', endpoint: 'https://bank.example/pay' }, 'pay'),
  input_schema: { type: 'object', properties: { amount: { type: 'number' } }, required: ['amount'] },
};
const TOOLS = new Map([PAY, toolOf(BUILTIN, 'ask_user')].map((tool) => [tool.name, tool]));
const known = { tools: TOOLS, validate: validateArguments };

const text = fc.string().map((words): AssistantBlock => ({ type: 'text', text: words }));
const toolUse = fc.record({
  type: fc.constant('tool_use' as const),
  id: fc.string(),
  name: fc.oneof(fc.constantFrom('pay', 'ask_user', '__proto__', 'constructor'), fc.string()),
  input: fc.dictionary(fc.string(), fc.jsonValue()),
});
const answers = fc.record({ content: fc.array(fc.oneof(text, toolUse), { maxLength: 8 }), paused: fc.boolean() });

describe('The intents of an answer', () => {
  it('hold every call that it asks for, once and in order, and change nothing of it', () => {
    fc.assert(
      fc.property(answers, (answer) => {
        const before = JSON.stringify(answer);
        const uses = answer.content.filter(({ type }) => type === 'tool_use');
        assert.deepEqual(
          callsOf(intentsOf(answer, TOOLS)).map(({ use }) => use),
          uses,
        );
        assert.equal(JSON.stringify(answer), before);
      }),
    );
  });

  it('are the end, or one plan, or calls, and never two of these; nothing only where the model pauses or says nothing', () => {
    const isBlank = ({ content }: { content: readonly { type: string }[] }) => textOf(content).trim() === '';
    fc.assert(
      fc.property(answers, (answer) => {
        const kinds = intentsOf(answer, TOOLS).map(({ kind }) => kind);
        const calls = answer.content.filter(({ type }) => type === 'tool_use').length;
        assert.ok(kinds.every((kind) => INTENT_KINDS.includes(kind)));
        if (calls >= LIMITS.callBatchMin) assert.deepEqual(kinds, ['plan']);
        else if (calls === 0) assert.deepEqual(kinds, answer.paused || isBlank(answer) ? [] : ['complete']);
        else assert.ok(kinds.length === calls && kinds.every((kind) => kind === 'tool_call' || kind === 'ask_user'));
      }),
    );
  });

  it('ask the user only by the built-in tool of that name', () => {
    const content = [{ type: 'tool_use' as const, id: 'a', name: 'ask_user', input: {} }];
    const kindIn = (tools: Map<string, ToolDefinition>) => intentsOf({ content, paused: false }, tools)[0]?.kind;
    assert.equal(kindIn(TOOLS), 'ask_user');
    assert.equal(kindIn(new Map()), 'tool_call');
    assert.equal(kindIn(new Map([['ask_user', toolOf({ type: 'client' }, 'ask_user')]])), 'tool_call');
  });
});

/** Whether a property anywhere has the name that no argument may have. */
const hasProto = (value: unknown): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (Object.hasOwn(value, '__proto__') || Object.values(value).some(hasProto));

describe('An intent', () => {
  it('is valid exactly where its tool is known and its arguments fit, whatever else they are', () => {
    fc.assert(
      fc.property(toolUse, ({ name, input }) => {
        const fault = faultOf({ name, arguments: input }, known);
        const fits = name === 'ask_user' || (name === 'pay' && typeof input['amount'] === 'number');
        if (!TOOLS.has(name)) assert.equal(fault?.code, 'unknown_tool');
        else if (fits && !hasProto(input) && !(RAW_ARGUMENTS in input)) assert.equal(fault, undefined);
        else if (!fits) assert.equal(fault?.code, 'invalid_arguments');
      }),
    );
  });

  it('is not valid with raw arguments, save where the tool has one of that name', () => {
    const raw = { [RAW_ARGUMENTS]: '{"amount": ' };
    assert.match(faultOf({ name: 'ask_user', arguments: raw }, known)?.message ?? '', /a JSON object, nested at most/);
    const input_schema = { type: 'object', properties: { [RAW_ARGUMENTS]: { type: 'string' } } };
    const own = { ...known, tools: new Map([['pay', { ...PAY, input_schema }]]) };
    assert.equal(faultOf({ name: 'pay', arguments: raw }, own), undefined);
  });

  it('is one too many from a certain place on', () => {
    assert.equal(faultOfPlace('pay', LIMITS.toolCallsPerStep - 1), undefined);
    assert.equal(faultOfPlace('pay', LIMITS.toolCallsPerStep)?.code, 'too_many_calls');
  });
});

describe('A model that proposes nothing valid', () => {
  const WITHIN = { maxSteps: 100, turnTimeoutMs: 60_000 };
  /** For each answer, whether each of its calls is valid. */
  const histories = fc.array(fc.array(fc.boolean(), { minLength: 1, maxLength: 4 }), { maxLength: 15 });

  it('is asked again a number of times in a row, which starts anew with any valid intent', () => {
    fc.assert(
      fc.property(histories, (history) => {
        let state = begun();
        let inRow = 0;
        for (const calls of history) {
          state = answered(state, calls);
          inRow = calls.includes(true) ? 0 : inRow + 1;
          const decision = decide(state, WITHIN);
          if (inRow < LIMITS.invalidAnswers) {
            assert.equal(decision.kind, 'call_model');
            continue;
          }
          assert.equal(decision.kind === 'fail_turn' && decision.error.code, 'invalid_intents');
          return;
        }
      }),
      { examples: [[Array.from({ length: LIMITS.invalidAnswers }, () => [false])]] },
    );
  });

  /** A state in the middle of a turn whose next answer is awaited. */
  function begun(): RunState {
    const { events } = simulate([], { ...WITHIN, onUnknown: 'ask' }, false);
    const state = foldAll(
      null,
      events.slice(
        0,
        events.findIndex(({ type }) => type === 'model.responded'),
      ),
    );
    assert.ok(state?.modelCall);
    return state;
  }

  function answered(before: RunState, valid: readonly boolean[]): RunState {
    const add = (state: RunState, ...events: NewEvent[]) =>
      events.reduce((at, event) => fold(at, atSeq(checkEvent(event), at.seq + 1)), state);
    const said = { provider: 'p', model: 'm', stopReason: 'tool_use' as const, usage: NO_TOKENS, cost: null };
    const of = { step: before.steps + 1, ordinal: before.length, toolCalls: valid.length, intents: [], latencyMs: 0 };
    const after = add(before, recordAnswer(before, { ...said, ...of }));
    const attempt = valid.includes(true) ? 0 : invalidAnswersBefore(after) + 1;
    const error = { code: 'c', message: 'm' };
    return valid.reduce((state, isValid, place) => {
      const id = fixedId(`${state.seq}`);
      const requested = { tool_call_id: id, tool_use_id: id, name: 't', place };
      const call = { ...requested, mode: 'queued' as const, effect: 'unknown' as const };
      // Whatever is valid here fails at once, too: an answer whose calls have their results is what matters.
      const outcome = { kind: 'invalid' as const, error, attempt: isValid ? undefined : attempt };
      return add(state, ...requestCall(state, { call, step: of.step, decided: [], outcome }));
    }, after);
  }
});
