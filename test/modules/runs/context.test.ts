import assert from 'node:assert/strict';
import type { Message } from '../../../core/content.ts';
import type { RunEvent } from '../../../core/events.ts';
import { listCheckpoints } from '../../../db/checkpoints.ts';
import { replayRun } from '../../../modules/runs/replay-run.ts';
import { openEngine, text, use, type Engine } from '../../support/engine.ts';
import type { AnthropicRequest } from '../../support/fake-anthropic.ts';
import { storedRun } from '../../support/queries/runs.ts';

const SMALL = 'anthropic/small';
const WORD = 'lorem ipsum ';
/** About so many tokens. */
const long = (tokens: number, about = '') => about + WORD.repeat(Math.ceil((tokens * 4) / WORD.length));

describe('The conversation that a model is sent', () => {
  let engine: Engine;

  before(async () => {
    engine = await openEngine(undefined, { DROVER_CONTEXT_WINDOWS: `${SMALL}=4000,anthropic/large=40000` });
  });

  after(() => engine.close());

  const small = { llm_config: { default_model: SMALL, max_tokens: 500 } };
  const cutsOf = (log: readonly RunEvent[]) =>
    log.flatMap((event) => (event.type === 'context.transformed' ? [event.payload] : []));
  const sent = (n: number) =>
    JSON.stringify((engine.model.requests[n]?.body as AnthropicRequest | undefined)?.messages);
  const metric = async (name: string) =>
    (await engine.context.metrics.registry.getMetricsAsJSON())
      .filter((each) => each.name === name)
      .flatMap(({ values }) => values.map(({ value }) => value))
      .reduce((sum, value) => sum + value, 0);

  /** The log of a run kept open, with one turn for each message. */
  async function talk(agent: string, messages: readonly string[]) {
    const [first = '', ...others] = messages;
    const { run } = await engine.start(agent, first, { config: { keep_open: true } });
    await engine.finish(run);
    for (const message of others) {
      await engine.post(agent, run, message);
      await engine.finish(run);
    }
    return { run, log: await engine.log(run) };
  }

  it('is all of it where nobody says otherwise and the model takes it', async () => {
    engine.say(() => text('noted'));
    const agent = await engine.agent();
    const { log } = await talk(agent, [long(9000, 'the first of all '), long(9000), 'and now?']);
    assert.deepEqual(cutsOf(log), []);
    assert.match(sent(2), /the first of all/);
  });

  it('begins later where the model takes no more, which is told once for each change of the cut', async () => {
    engine.say((_request, n) => (n === 3 ? use({ name: 'calculator', input: { expression: '1+1' } }) : text('noted')));
    const agent = await engine.agent({ ...small, tools: ['calculator'] });
    const before = await metric('drover_context_dropped_tokens_total');
    const messages = [long(1000, 'FIRST '), long(1000, 'SECOND '), long(1000, 'THIRD '), 'FOURTH'];
    const { log, run } = await talk(agent, messages);
    const [cut, ...more] = cutsOf(log);
    assert.deepEqual(more, []);
    assert.ok(cut);
    assert.deepEqual([cut.reason, cut.first_kept_ordinal, cut.dropped_messages], ['context_window', 2, 2]);
    assert.ok(cut.dropped_tokens > 900 && cut.budget_tokens < 3000, JSON.stringify(cut));
    assert.equal((await metric('drover_context_dropped_tokens_total')) - before, cut.dropped_tokens);
    const types = log.map(({ type }) => type);
    assert.equal(types[types.indexOf('context.transformed') + 1], 'model.called');
    assert.match(sent(1), /FIRST.*SECOND/);
    for (const n of [2, 3, 4]) {
      assert.match(sent(n), /SECOND.*THIRD/);
      assert.doesNotMatch(sent(n), /FIRST/);
    }
    assert.equal((await engine.conversation(run)).length, 10, 'nothing is lost');
  });

  it('is all of what a replay is given in its place, wherever that of the original begins', async () => {
    engine.say(() => text('noted'));
    const { log, run } = await talk(await engine.agent(small), [long(1000), long(1000), long(1000)]);
    assert.deepEqual(
      cutsOf(log).map((cut) => cut.first_kept_ordinal),
      [2],
    );
    const { context, tenantId } = engine;
    const [end] = await context.db.withTenant(tenantId, (tx) => listCheckpoints(tx, run, { limit: 1 }));
    const messages = ['FIRST', 'and', 'SECOND', 'and', 'now?'].map((said, n): Message => {
      return { role: n % 2 === 0 ? 'user' : 'assistant', content: [{ type: 'text', text: said }] };
    });
    const { body } = await replayRun(context, {
      tenantId,
      runId: run,
      checkpointId: end?.id ?? '',
      mode: 'live',
      rerunEffects: false,
      modified: { messages },
      config: {},
      mayRaiseAutonomy: true,
      traceparent: undefined,
      idempotency: { tenantId, route: 'replay', body: null },
    });
    await engine.finish(body.run_id);
    assert.match(sent(3), /FIRST.*SECOND.*now/);
    const [created, ...replayed] = await engine.log(body.run_id);
    assert.ok(created?.type === 'run.created' && !created.payload.cut, 'nothing of its own is left out');
    assert.deepEqual(cutsOf(replayed), []);
  });

  it('begins later where the agent limits it, and says that it was the agent', async () => {
    engine.say(() => text('noted'));
    const agent = await engine.agent({ memory_config: { short_term: { max_tokens: 300 } } });
    const { log } = await talk(agent, [long(200), long(200), 'and now?']);
    assert.deepEqual(
      cutsOf(log).map(({ reason, first_kept_ordinal, budget_tokens }) => [reason, first_kept_ordinal, budget_tokens]),
      [['conversation_limit', 2, 300]],
    );
  });

  it('fails a turn that cannot fit, before anything is sent, and says what would help', async () => {
    engine.say(() => text('noted'));
    const { run } = await engine.start(await engine.agent(small), long(5000));
    await engine.finish(run);
    const { error } = await storedRun(engine, run);
    assert.equal(error?.code, 'context_overflow');
    assert.match(error.message, /anthropic\/small leaves room for \d+.*takes 4000.*DROVER_CONTEXT_WINDOWS/);
    assert.equal(engine.model.requests.length, 0);
  });

  it('fails a turn that is longer than the agent allows by itself, and goes on with the next one', async () => {
    const query = "$join([1..400].$string(), ' ')";
    engine.say((_request, n) => (n === 1 ? use({ name: 'json_query', input: { data: null, query } }) : text('noted')));
    const agent = await engine.agent({ memory_config: { short_term: { max_tokens: 300 } }, tools: ['json_query'] });
    const { run, log } = await talk(agent, [long(250, 'FIRST '), 'SECOND', long(400), long(200, 'LAST ')]);
    const failed = log.flatMap((event) => (event.type === 'turn.failed' ? [event.payload.error] : []));
    assert.deepEqual(
      failed.map(({ code }) => code),
      ['context_overflow', 'context_overflow'],
    );
    for (const { message } of failed)
      assert.match(message, /about [3-9]\d\d tokens, and the agent's memory_config\.short_term\.max_tokens is 300/);
    assert.equal(engine.model.requests.length, 3, 'what does not fit is sent to no model');
    assert.match(sent(2), /LAST/);
    assert.doesNotMatch(sent(2), /FIRST|SECOND/);
    assert.equal(log.at(-1)?.type, 'turn.completed');
    assert.equal((await storedRun(engine, run)).status, 'awaiting_human');
  });

  it('goes to the fallback model where only that one takes it', async () => {
    engine.say(() => text('noted'));
    const agent = await engine.agent({ llm_config: { ...small.llm_config, fallback_model: 'anthropic/large' } });
    const { log } = await talk(agent, [long(1000, 'FIRST '), long(1500), long(5000)]);
    const asked = engine.model.requests.map(({ body }) => (body as AnthropicRequest).model);
    assert.deepEqual(asked, ['small', 'small', 'large']);
    assert.match(sent(2), /FIRST/);
    assert.deepEqual(
      cutsOf(log).map(({ dropped_messages }) => dropped_messages),
      [4, 0],
      'the cut for the one model, and that for the other',
    );
  });

  it('fails with the same code where the provider finds it too long', async () => {
    const error = { status: 400, type: 'invalid_request_error', message: 'prompt is too long: 5000 tokens' };
    engine.say(() => ({ error }));
    const { run } = await engine.start(await engine.agent(), 'hello');
    await engine.finish(run);
    assert.equal((await storedRun(engine, run)).error?.code, 'context_overflow');
  });

  it('has the limits that its run has pinned', async () => {
    engine.say(() => text('noted'));
    const agent = await engine.agent({ ...small, memory_config: { short_term: { max_tokens: 2000 } } });
    const { run, log } = await talk(agent, ['hello']);
    const limits = { model: SMALL, context_window: 4000, conversation_tokens: 2000, output_tokens: 500 };
    const [created] = log;
    assert.deepEqual(created?.type === 'run.created' && created.payload.pinned.limits, limits);
    const { pinned } = await storedRun(engine, run);
    assert.deepEqual(pinned.limits, limits);
    const other = { memory_config: {}, llm_config: { default_model: 'anthropic/claude-haiku-4-5' } };
    const known = (await talk(await engine.agent(other), ['hello'])).log[0];
    assert.deepEqual(known?.type === 'run.created' && known.payload.pinned.limits, {
      model: 'anthropic/claude-haiku-4-5',
      context_window: 200_000,
      conversation_tokens: null,
      output_tokens: 4096,
    });
  });
});
