import type { Context } from '../../../modules/governance/context.ts';
import assert from 'node:assert/strict';
import { newId } from '../../../lib/new-id.ts';
import { quotasOf } from '../../../core/rate-limits.ts';
import { LIMITS } from '../../../core/limits.ts';
import { ARGUMENT_DEPTH } from '../../../core/tool.ts';
import { createPolicy } from '../../../modules/governance/write-policy.ts';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import { openEngine, text, use, type Engine } from '../../support/engine.ts';
import type { AnthropicReply } from '../../support/fake-anthropic.ts';
import { turnsOfRun } from '../../support/queries/runs.ts';

const UNKNOWN = use({ name: 'teleport' });
const SUM = use({ name: 'calculator', input: { expression: '1+1' } });

describe('An intent that is not valid', () => {
  let engine: Engine;
  let agent: string;

  before(async () => {
    engine = await openEngine();
    agent = await engine.agent({ tools: ['calculator', 'ask_user'] });
  });

  after(async () => {
    const { differences } = await rebuildProjections(engine.context.db, { check: true });
    await engine.close();
    assert.deepEqual(differences, []);
  });

  /** The log of a run whose model gives these answers. */
  async function play(answers: AnthropicReply[], context = engine.context) {
    engine.say(answers);
    const { run } = await engine.start(agent, 'hello');
    await engine.drive(run, context);
    const log = await engine.log(run);
    const rejected = log.flatMap((event) => (event.type === 'intent.rejected' ? [event.payload] : []));
    const intents = log.flatMap((event) => (event.type === 'model.responded' ? [event.payload.intents] : []));
    const [turn] = await turnsOfRun(engine, run);
    assert.ok(turn);
    const [block] = turn.output ?? [];
    const said = block?.type === 'text' ? block.text : null;
    return { log, rejected, intents, turn: { status: turn.status, code: turn.error?.code, said } };
  }

  it('goes back to the model a number of times; then the turn fails, and what was said is kept', async () => {
    const stubborn = Array.from({ length: LIMITS.invalidAnswers + 3 }, () => UNKNOWN);
    const [first] = stubborn;
    stubborn[0] = { content: [{ type: 'text', text: 'Let me see.' }, ...(first?.content ?? [])] };
    const { log, rejected, turn } = await play(stubborn);
    assert.deepEqual(turn, { status: 'failed', code: 'invalid_intents', said: 'Let me see.' });
    assert.equal(engine.model.requests.length, LIMITS.invalidAnswers);
    assert.deepEqual(
      rejected.map(({ name, code, attempt }) => [name, code, attempt]),
      Array.from({ length: LIMITS.invalidAnswers }, (_, index) => ['teleport', 'unknown_tool', index + 1]),
    );
    assert.match(JSON.stringify(engine.model.requests.at(-1)?.body), /Unknown tool .{1,3}teleport/);
    const calls = log.filter(({ type }) => type === 'model.called').length;
    assert.equal(calls, LIMITS.invalidAnswers, 'a call is announced that is never made');
  });

  it('is in the log under the name that the model gave it, and goes back under one that providers take', async () => {
    const name = 'calculator<|channel|>commentary';
    const refused: AnthropicReply = { error: { type: 'invalid_request_error', status: 400, message: 'Invalid name' } };
    engine.say(({ messages }, n) => {
      const blocks = messages.flatMap(({ content }) => (typeof content === 'string' ? [] : content));
      const isTaken = ({ type, name: sent }: Record<string, unknown>) =>
        type !== 'tool_use' || (typeof sent === 'string' && /^[a-zA-Z0-9_-]{1,64}$/.test(sent));
      if (!blocks.every(isTaken)) return refused;
      return n === 0 ? use({ name }) : text('sorry');
    });
    const { run } = await engine.start(agent, 'hello', { config: { keep_open: true } });
    await engine.drive(run);
    await engine.post(agent, run, 'what is 2+2?');
    await engine.drive(run);
    const log = await engine.log(run);
    const rejected = log.flatMap((event) => (event.type === 'intent.rejected' ? [event.payload] : []));
    assert.deepEqual(
      rejected.map((each) => [each.name, each.code]),
      [[name, 'unknown_tool']],
    );
    assert.equal(log.filter(({ type }) => type === 'turn.completed').length, 2);
    assert.match(JSON.stringify(await engine.conversation(run)), /"calculator<\|channel\|>commentary"/);
  });

  it('is forgotten once the model proposes something valid', async () => {
    const nearly = Array.from({ length: LIMITS.invalidAnswers - 1 }, () => UNKNOWN);
    const { rejected, turn, intents } = await play([...nearly, SUM, ...nearly, text('two')]);
    assert.deepEqual(turn, { status: 'complete', code: undefined, said: 'two' });
    const attempts = nearly.map((_, index) => index + 1);
    assert.deepEqual(
      rejected.map(({ attempt }) => attempt),
      [...attempts, ...attempts],
    );
    assert.deepEqual([...new Set(intents.flat())], ['tool_call', 'complete']);
  });

  it('does not count beside a valid one, and is told apart in the log', async () => {
    const both = use({ name: 'calculator', input: { expression: '1+1' } }, { name: 'calculator', input: { sum: 1 } });
    const mixed = Array.from({ length: LIMITS.invalidAnswers + 1 }, () => both);
    const { rejected, turn } = await play([...mixed, text('two')]);
    assert.equal(turn.status, 'complete');
    assert.deepEqual(
      rejected.map(({ code, attempt }) => [code, attempt]),
      mixed.map(() => ['invalid_arguments', 0]),
    );
  });

  it('is one whose arguments are no object or too deep, or one call too many', async () => {
    const deep = `${'{"a":'.repeat(ARGUMENT_DEPTH + 1)}1${'}'.repeat(ARGUMENT_DEPTH + 1)}`;
    const raw = (rawInput: string): AnthropicReply => ({ ...use({ name: 'calculator' }), rawInput });
    const many = use(...Array.from({ length: LIMITS.toolCallsPerStep + 1 }, () => ({ name: 'teleport' })));
    const { rejected, intents, turn } = await play([raw('{"expr'), raw(deep), many, text('sorry')]);
    assert.equal(turn.status, 'complete');
    assert.deepEqual(
      [rejected[0], rejected[1], rejected[2], rejected.at(-1)].map((each) => [each?.code, each?.attempt]),
      [
        ['invalid_arguments', 1],
        ['invalid_arguments', 2],
        ['unknown_tool', 3],
        ['too_many_calls', 3],
      ],
    );
    assert.deepEqual(intents, [['tool_call'], ['tool_call'], ['plan'], ['complete']]);
  });

  it('uses up none of the calls that a turn may make where it is valid and denied', async () => {
    const tool_rails = { allowed_tools: ['calculator'], max_calls_per_turn: 2 };
    const limited = await engine.agent({ tools: ['calculator', 'ask_user'], guardrail_config: { tool_rails } });
    const ask = { name: 'ask_user', input: { question: 'Well?' } };
    const sum = { name: 'calculator', input: { expression: '1+1' } };
    engine.say([use(ask, sum), use(ask), use(ask, sum, sum), use(sum), text('two')]);
    const { run } = await engine.start(limited, 'hello');
    await engine.drive(run);
    const codes = (await engine.log(run)).flatMap((event) =>
      event.type === 'tool.denied' ? [event.payload.error.code] : [],
    );
    const not = 'tool_not_allowed';
    assert.deepEqual(codes, [not, not, not, 'too_many_calls', 'too_many_calls']);
  });

  describe('where an answer holds neither text nor a call', () => {
    const EMPTY: AnthropicReply = { content: [] };
    const THOUGHT: AnthropicReply = { content: [{ type: 'thinking', thinking: 'Well.', signature: 's' }] };

    it('is no answer: the model is told and asked again', async () => {
      const blank: AnthropicReply = { content: [{ type: 'text', text: ' \n' }] };
      const { log, rejected, intents, turn } = await play([EMPTY, THOUGHT, blank, text('here')]);
      assert.deepEqual(turn, { status: 'complete', code: undefined, said: 'here' });
      assert.deepEqual(intents, [[], [], [], ['complete']]);
      assert.deepEqual(
        rejected.map(({ code, attempt, tool_call_id }) => [code, attempt, tool_call_id]),
        [1, 2, 3].map((attempt) => ['empty_answer', attempt, undefined]),
      );
      for (const { body } of engine.model.requests.slice(1)) {
        const messages = body['messages'] as { role: string; content: { text?: string }[] }[];
        assert.deepEqual(
          messages.map(({ role }) => role),
          ['user'],
        );
        assert.match(messages[0]?.content.at(-1)?.text ?? '', /your last answer was empty/i);
      }
      const answers = log.flatMap((event) => (event.type === 'model.responded' ? [event.payload.usage.input] : []));
      assert.ok(
        answers.every((tokens) => tokens > 0),
        'each was paid for',
      );
    });

    it('fails the turn after a number of times, or shows what was said before', async () => {
      const stubborn = Array.from({ length: LIMITS.invalidAnswers + 1 }, () => EMPTY);
      const { turn } = await play(stubborn);
      assert.deepEqual(turn, { status: 'failed', code: 'empty_answer', said: null });
      assert.equal(engine.model.requests.length, LIMITS.invalidAnswers);
      const said = { content: [{ type: 'text', text: 'Let me see.' }, ...(SUM.content ?? [])] };
      const after = await play([said, ...stubborn]);
      assert.deepEqual(after.turn, { status: 'failed', code: 'empty_answer', said: 'Let me see.' });
    });

    it('is one that cannot be kept, too: each is paid for, counted, and asked for again', async () => {
      const { context } = engine;
      const faults = [
        new TypeError('not what it should be'),
        Object.assign(new Error('out of range'), { code: '22008' }),
      ];
      const commit: Context['commit'] = (change) => {
        const fault = change.new_calls && faults.shift();
        return fault ? Promise.reject(fault) : context.commit(change);
      };
      const { rejected, turn, log } = await play([SUM, SUM, text('three')], { ...context, commit });
      assert.deepEqual(turn, { status: 'complete', code: undefined, said: 'three' });
      assert.deepEqual(
        rejected.map(({ code, message }) => [code, message]),
        [1, 2].map(() => ['empty_answer', 'The answer had a form that cannot be kept.']),
      );
      assert.equal(log.filter(({ type }) => type === 'model.responded').length, 3);
      assert.equal(engine.model.requests.length, 3);
    });

    it('fails the turn at once where thinking took all output tokens, and names the setting', async () => {
      const { turn, log } = await play([{ ...THOUGHT, stop_reason: 'max_tokens' }, text('never asked')]);
      assert.equal(turn.code, 'output_limit');
      assert.equal(engine.model.requests.length, 1);
      assert.match(JSON.stringify(log.at(-1)?.payload), /llm_config.max_tokens/);
    });

    it('is an answer where the model refuses', async () => {
      const { turn, rejected } = await play([{ content: [], stop_reason: 'refusal' }]);
      assert.deepEqual([turn.status, rejected], ['complete', []]);
    });
  });

  it('is not one that a policy has spoilt', async () => {
    const rewrite = { arguments: { sum: 1 } };
    const when = 'tool.name == "calculator" && arguments.expression == "6*7"';
    const rule = { name: 'spoils', priority: 1, when, decision: 'rewrite' as const, reason: 'r', rewrite };
    const by = {
      tenantId: engine.tenantId,
      workspaceId: engine.platform.workspaceId,
      keyId: newId(),
      isOperator: true,
    };
    const caller = {
      ...by,
      boundWorkspaceId: undefined,
      scopes: ['admin' as const],
      quotas: quotasOf({ planTier: 'standard', isDefault: true, settings: {} }),
    };
    await engine.context.db.withTenant(engine.tenantId, (tx) => createPolicy(tx, caller, rule));
    const spoilt = use({ name: 'calculator', input: { expression: '6*7' } });
    const { rejected, turn } = await play([...Array.from({ length: LIMITS.invalidAnswers }, () => spoilt), text('42')]);
    assert.deepEqual([rejected, turn.status], [[], 'complete']);
  });
});
