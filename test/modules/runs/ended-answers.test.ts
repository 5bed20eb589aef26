/** What is counted of an answer whose turn is ended before it is whole. */
import assert from 'node:assert/strict';
import type { RunEvent } from '../../../core/events.ts';
import { listEvents } from '../../../db/events.ts';
import { listSteppedTurns } from '../../../db/turn-contents.ts';
import { listTurns, withPartials } from '../../../db/turns.ts';
import { readThreadConversations } from '../../../modules/conversations/read-conversations.ts';
import { findBudgetDrift } from '../../../modules/budgets/settle-budgets.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { appendToRun } from '../../../modules/run-log/append-to-run.ts';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import { cancelRun } from '../../../modules/runs/end-run.ts';
import { announceInterruption, interruptedTurn } from '../../../modules/runs/interrupt-turn.ts';
import { door, openEngine, text, type Engine } from '../../support/engine.ts';
import type { AnthropicReply } from '../../support/fake-anthropic.ts';
import { sayToRun } from '../../support/say-to-run.ts';
import { reservationsOfRun } from '../../support/queries/budgets.ts';
import { storedRun, turnsOfRun } from '../../support/queries/runs.ts';

/** 2,000 characters. */
const LONG = 'word '.repeat(400);
const PROMPT = 1234;

describe('An answer that is ended in its middle', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  /** Cancelled once all of this has come; `first`: answers to earlier attempts. */
  const cancelled = async (
    content: AnthropicReply['content'],
    { first = [] as AnthropicReply[], budget = {}, fallback = {} } = {},
  ) => {
    const llm_config = { default_model: 'claude-sonnet-5', base_delay: 0, ...fallback };
    const agent = await engine.agent({ llm_config });
    const usage = { input_tokens: PROMPT, output_tokens: 1 };
    engine.say((_, n) => ({ usage, ...(first[n] ?? { content: content ?? [], hang: true }) }));
    const { run } = await engine.start(agent, 'go', { config: budget });
    const heard = door();
    let chars = 0;
    const leave = engine.context.bus.watch(run, (message) => {
      if (message.kind === 'delta') chars += message.delta.text.length;
      if (chars >= LONG.length * (1 + first.length)) void heard.pass();
    });
    const driving = engine.drive(run);
    await heard.reached;
    await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run });
    assert.equal(await driving, 'lost');
    leave();
    return run;
  };

  /** Cancelled when its driver is about to commit an event of this type. */
  const cancelledBefore = async (type: RunEvent['type'], reply: AnthropicReply) => {
    engine.say(() => ({ usage: { input_tokens: PROMPT, output_tokens: 500 }, ...reply }));
    const { run } = await engine.start(await engine.agent(), 'go', { config: { budget: { max_tokens: 100_000 } } });
    const commit: Context['commit'] = async (change) => {
      const isDue = change.events.some((event) => event.type === type);
      if (isDue) await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run });
      return engine.context.commit(change);
    };
    assert.equal(await engine.drive(run, { ...engine.context, commit }), 'lost');
    return run;
  };

  const attemptsOf = async (run: string) =>
    (await engine.log(run)).flatMap((event) =>
      event.type === 'model.failed' || event.type === 'model.retried' ? [event.payload] : [],
    );

  /** The conversations of the run's thread come to what its turns do. */
  const assertToldAlike = async (run: string) => {
    const { thread_id: threadId, workspace_id: workspaceId } = await storedRun(engine, run);
    const caller = { workspaceId };
    const page = { threadId, before: undefined, limit: 10 };
    const read = await engine.context.db.withTenant(engine.tenantId, (tx) => readThreadConversations(tx, caller, page));
    const told = read.conversations.toReversed().map(({ usage, cost }) => {
      const kinds = [cost.input_cost, cost.output_cost, cost.cache_write_cost, cost.cache_read_cost];
      const sum = kinds.reduce((all, kind) => Number(all) + Number(kind), 0);
      return [usage.input_tokens, usage.output_tokens, cost.total_cost, Number(Number(sum).toFixed(9)), cost.model_id];
    });
    const rows = (await turnsOfRun(engine, run)).map(({ tokens_in, tokens_out, cost_usd }, turn) => {
      const cost = Number(cost_usd);
      return [tokens_in, tokens_out, cost, cost, told[turn]?.at(-1) ?? 'a model'];
    });
    assert.deepEqual(told, rows);
  };

  const assertCounted = async (run: string, { attempts = 1 } = {}) => {
    const { status, tokens_in, tokens_out, cost_usd } = await storedRun(engine, run);
    assert.deepEqual([status, tokens_in], ['cancelled', attempts * PROMPT]);
    assert.ok(tokens_out >= attempts * 400 && Number(cost_usd) > 0, `${tokens_out}, ${cost_usd}`);
    const [turn] = await turnsOfRun(engine, run);
    assert.deepEqual(
      [turn?.tokens_in, turn?.tokens_out, turn?.cost_usd].map(Number),
      [tokens_in, tokens_out, cost_usd].map(Number),
    );
    const logged = (await attemptsOf(run)).map(({ usage }) => usage?.input);
    assert.deepEqual(logged, Array.from({ length: attempts }).fill(PROMPT));
    assert.deepEqual(await findBudgetDrift(engine.context.db), []);
    assert.deepEqual((await rebuildProjections(engine.context.db, { check: true })).differences, []);
    await assertToldAlike(run);
    return tokens_in + tokens_out;
  };

  it('is paid for: log, run, turn and budget have what had come of it, and the same', async () => {
    const run = await cancelled(text(LONG).content, { budget: { budget: { max_tokens: 100_000 } } });
    const tokens = await assertCounted(run);
    const reserved = await reservationsOfRun(engine, run);
    assert.deepEqual(
      reserved.map((each) => [each.state, each.tokens]),
      [['estimated', tokens]],
    );
  });

  it('is paid for in budgets as in the sums where the time of its turn ends it', async () => {
    const agent = await engine.agent({ execution_config: { timeout_seconds: 2 } });
    engine.say(() => ({ ...text(LONG), hang: true }));
    const { run } = await engine.start(agent, 'go', { config: { budget: { max_tokens: 100_000 } } });
    assert.equal(await engine.drive(run), 'dormant');
    const { tokens_in, tokens_out, error } = await storedRun(engine, run);
    assert.deepEqual([error?.code, tokens_out >= 400], ['turn_timeout', true]);
    const reserved = await reservationsOfRun(engine, run);
    assert.deepEqual(
      reserved.map(({ tokens }) => tokens),
      [tokens_in + tokens_out],
    );
  });

  describe('before anything of it has come', () => {
    const BUDGET = { config: { keep_open: true, budget: { max_tokens: 100_000 } } };

    /** Starts a run whose model hears the request and says nothing. */
    const askInSilence = async (definition: Parameters<Engine['agent']>[0] = {}) => {
      const silence = door();
      engine.say(() => silence.pass().then(() => text('too late')));
      const { run } = await engine.start(await engine.agent(definition), 'go', BUDGET);
      const driving = engine.drive(run);
      await silence.reached;
      return { run, driving, silence };
    };

    const assertFree = async (run: string, reserved: [string, number][] = []) => {
      const states = (await reservationsOfRun(engine, run)).map(({ state, tokens }) => [state, tokens]);
      assert.deepEqual(states.slice(0, -1), reserved);
      assert.equal(states.at(-1)?.[0], 'released');
      const { tokens_in, tokens_out } = await storedRun(engine, run);
      const counted = reserved.reduce((sum, [, tokens]) => sum + tokens, 0);
      assert.equal(tokens_in + tokens_out, counted, 'budgets and sums count the same');
      assert.deepEqual(await findBudgetDrift(engine.context.db), []);
    };

    it('is free in budgets as in the sums where its run is cancelled', async () => {
      const { run, driving, silence } = await askInSilence();
      await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run });
      assert.equal(await driving, 'lost');
      silence.open();
      await assertFree(run);
      assert.deepEqual(await attemptsOf(run), [], 'nor does the log tell of an answer');
    });

    it('is free where its turn is interrupted, and the run goes on', async () => {
      const { run, driving, silence } = await askInSilence();
      const interruption = { reason: 'interrupt' as const, error: { code: 'interrupted', message: 'Stop.' } };
      const ref = { tenantId: engine.tenantId, runId: run };
      const ended = await appendToRun(engine.context, ref, (row, tx) => interruptedTurn(tx, row, interruption));
      assert.ok(ended);
      announceInterruption(engine.context, ended);
      assert.equal(await driving, 'lost');
      silence.open();
      assert.equal((await storedRun(engine, run)).status, 'awaiting_human');
      await assertFree(run);
    });

    it('is free where the time of its turn is up', async () => {
      const { run, driving, silence } = await askInSilence({ execution_config: { timeout_seconds: 1 } });
      assert.equal(await driving, 'dormant');
      silence.open();
      const [failed] = (await engine.log(run)).filter((event) => event.type === 'turn.failed');
      assert.equal(failed?.type === 'turn.failed' && failed.payload.error.code, 'turn_timeout');
      await assertFree(run);
    });

    it('is free where an attempt before it was paid for, which counts alone', async () => {
      const agent = await engine.agent({ llm_config: { default_model: 'claude-sonnet-5', base_delay: 0 } });
      const usage = { input_tokens: PROMPT, output_tokens: 1 };
      const silence = door();
      engine.say(async (_, n) => {
        if (n > 0) await silence.pass();
        return { usage, ...text(LONG), error: { type: 'api_error', midStream: true } };
      });
      const { run } = await engine.start(agent, 'go', BUDGET);
      assert.equal(await engine.drive(run), 'yielded');
      const driving = engine.drive(run);
      await silence.reached;
      await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run });
      assert.equal(await driving, 'lost');
      silence.open();
      const { tokens_in, tokens_out } = await storedRun(engine, run);
      assert.ok(tokens_in === PROMPT && tokens_out >= 400, `${tokens_in}, ${tokens_out}`);
      await assertFree(run, [['estimated', tokens_in + tokens_out]]);
    });
  });

  it('is paid for where it has no text yet, and none is shown', async () => {
    const thinking = { type: 'thinking', thinking: LONG, signature: 's' };
    const run = await cancelled([thinking]);
    await assertCounted(run);
    assert.ok((await attemptsOf(run)).every((payload) => !('partial' in payload)));
  });

  it('is paid for with the attempts before it that had broken off', async () => {
    const broken = { ...text(LONG), error: { type: 'api_error', midStream: true } };
    await assertCounted(await cancelled(text(LONG).content, { first: [broken] }), { attempts: 2 });
  });

  it('is paid for with the model before it that had failed, and the text shown is the last one', async () => {
    const refused = { ...text(`first ${LONG}`), error: { type: 'invalid_request_error', midStream: true } };
    const fallback = { fallback_model: 'claude-haiku-4-5' };
    const run = await cancelled(text(`second ${LONG}`).content, { first: [refused], fallback });
    await assertCounted(run, { attempts: 2 });
    const told = (await engine.log(run)).flatMap((event) => {
      if (event.type === 'model.fell_back') return [`to ${event.payload.to}`];
      return event.type === 'model.failed' ? [`${event.payload.model}: ${event.payload.error.code}`] : [];
    });
    assert.deepEqual(told, [
      'claude-sonnet-5: invalid_request',
      'to claude-haiku-4-5',
      'claude-haiku-4-5: interrupted',
    ]);
    const [turn] = await engine.context.db.withTenant(engine.tenantId, async (tx) =>
      withPartials(tx, (await listTurns(tx, run, { limit: 1 })).rows),
    );
    assert.match(turn?.partial ?? '', /^second /);
    const { events } = await engine.context.db.withTenant(engine.tenantId, (tx) =>
      listEvents(tx, { runId: run, after: 0, limit: 1, maxBytes: 1e6, types: ['turn.interrupted'] }),
    );
    assert.match(events[0]?.partial?.text ?? '', /^second /);
  });

  it('is paid for once where its last model has failed, and nobody has committed that yet', async () => {
    const error = { type: 'invalid_request_error', midStream: true };
    const run = await cancelledBefore('turn.failed', { ...text(LONG), error });
    const tokens = await assertCounted(run);
    const [failed] = (await engine.log(run)).filter(({ type }) => type === 'model.failed');
    assert.ok(failed?.type === 'model.failed');
    assert.deepEqual([failed.payload.error.code, failed.payload.partial], ['invalid_request', LONG]);
    assert.deepEqual(
      (await reservationsOfRun(engine, run)).map((each) => [each.state, each.tokens]),
      [['estimated', tokens]],
    );
  });

  it('is paid for where it had come whole, and nobody has committed it yet', async () => {
    const run = await cancelledBefore('model.responded', text(LONG));
    assert.equal(await assertCounted(run), PROMPT + 500, 'as the provider had counted');
  });

  it('is left to the next driver where its turn goes on there', async () => {
    const [heard, goesOn] = [door(), door()];
    engine.say(async (_, n) => {
      if (n === 0) return { ...text(LONG), hang: true };
      await goesOn.pass();
      return text('done');
    });
    const { run } = await engine.start(await engine.agent(), 'go');
    const leave = engine.context.bus.watch(run, ({ kind }) => {
      if (kind === 'delta') void heard.pass();
    });
    const config = { ...engine.context.config, leaseMs: 600 };
    const first = engine.drive(run, { ...engine.context, config });
    await heard.reached;
    await engine.everyoneDies();
    const second = engine.drive(run);
    assert.equal(await first, 'lost');
    assert.deepEqual(await attemptsOf(run), []);
    await goesOn.reached;
    goesOn.open();
    assert.equal(await second, 'dormant');
    leave();
    assert.equal((await storedRun(engine, run)).status, 'completed');
  });

  it('is paid for in the conversation of its turn where the next one had begun by the time it was counted', async () => {
    const agent = await engine.agent({ llm_config: { default_model: 'claude-sonnet-5' } });
    const usage = { input_tokens: PROMPT, output_tokens: 1 };
    engine.say((_, n) => ({ usage, ...text(LONG), ...(n === 0 && { hang: true }) }));
    const { run } = await engine.start(agent, 'go', { config: { keep_open: true } });
    const heard = door();
    const leave = engine.context.bus.watch(run, ({ kind }) => {
      if (kind === 'delta') void heard.pass();
    });
    const driving = engine.drive(run);
    await heard.reached;
    await sayToRun(engine, run, { mode: 'queue', input: { message: 'and then' } });
    const interruption = { reason: 'interrupt' as const, error: { code: 'interrupted', message: 'Stop.' } };
    const ref = { tenantId: engine.tenantId, runId: run };
    const ended = await appendToRun(engine.context, ref, (row, tx) => interruptedTurn(tx, row, interruption));
    assert.ok(ended);
    announceInterruption(engine.context, ended);
    assert.equal(await driving, 'lost');
    leave();
    await engine.finish(run);
    const [first, second] = await turnsOfRun(engine, run);
    assert.deepEqual([first?.tokens_in, second?.tokens_in], [PROMPT, PROMPT]);
    await assertToldAlike(run);
  });

  it('is paid for in conversations and in the run log where the model began it again', async () => {
    const agent = await engine.agent({ llm_config: { default_model: 'claude-sonnet-5', base_delay: 0 } });
    const usage = { input_tokens: PROMPT, output_tokens: 1 };
    const broken = { ...text(LONG), error: { type: 'api_error', midStream: true } };
    engine.say((_, n) => ({ usage, ...(n === 0 ? broken : text('whole')) }));
    const { run } = await engine.start(agent, 'go');
    await engine.finish(run);
    await assertToldAlike(run);
    const [turn] = await turnsOfRun(engine, run);
    const [told] = await engine.context.db.withTenant(engine.tenantId, (tx) => listSteppedTurns(tx, [turn?.id ?? '']));
    assert.deepEqual([told?.input_tokens, told?.output_tokens], [turn?.tokens_in, turn?.tokens_out]);
    assert.equal(turn?.tokens_in, 2 * PROMPT);
  });
});
