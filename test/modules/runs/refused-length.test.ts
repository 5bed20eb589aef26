/** What follows when a provider refuses a conversation for its length that was estimated to fit. */
import assert from 'node:assert/strict';
import type { RunEvent } from '../../../core/events.ts';
import { completeRun } from '../../../modules/runs/end-run.ts';
import { openEngine, text, use, type Engine } from '../../support/engine.ts';
import type { AnthropicReply, AnthropicRequest } from '../../support/fake-anthropic.ts';
import { checkpointsOfRun } from '../../support/queries/logs.ts';
import { replayRecorded } from '../../support/recorded-replay.ts';
import { storedRun } from '../../support/queries/runs.ts';

const SMALL = 'anthropic/small';
const MOST = 3500;
/** About so many estimated tokens. */
const long = (tokens: number, about: string) => about + 'lorem ipsum '.repeat(Math.ceil(tokens / 3));

describe('A provider that refuses a conversation for its length', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine(undefined, { DROVER_CONTEXT_WINDOWS: `${SMALL}=4000` });
  });
  after(() => engine.close());

  const agent = (more = {}) =>
    engine.agent({ llm_config: { default_model: SMALL, max_tokens: 500 }, tools: ['calculator'], ...more });
  const sent = () => engine.model.requests.map(({ body }) => JSON.stringify((body as AnthropicRequest).messages));
  /** Counts 1.6 characters a token. */
  const strict = (
    script: (n: number) => AnthropicReply,
    says = (tokens: number) => `prompt is too long: ${tokens} tokens > 3500 maximum`,
  ) => {
    let answers = 0;
    engine.say((request) => {
      const tokens = Math.ceil(JSON.stringify(request.messages).length / 1.6);
      if (tokens > MOST) return { error: { status: 400, type: 'invalid_request_error', message: says(tokens) } };
      return script(answers++);
    });
  };
  const endsOf = (log: readonly RunEvent[]) =>
    log.flatMap((event) => {
      if (event.type === 'turn.failed') return [event.payload.error.code];
      return event.type === 'turn.completed' ? ['completed'] : [];
    });
  const talk = async (by: string, messages: readonly string[]) => {
    const [first = '', ...others] = messages;
    const { run, thread } = await engine.start(by, first, { config: { keep_open: true } });
    await engine.finish(run);
    for (const message of others) {
      await engine.post(by, run, message);
      await engine.finish(run);
    }
    return { run, thread, log: await engine.log(run) };
  };

  it('changes no estimate by counting no more than was estimated: the answer was to be too long', async () => {
    const by = await agent();
    const says = 'input length and `max_tokens` exceed context limit: 600 + 64000 > 4000';
    engine.say([{ error: { status: 400, type: 'invalid_request_error', message: says } }, text('noted')]);
    const { log } = await talk(by, [long(900, 'FIRST '), 'hello again']);
    assert.deepEqual(endsOf(log), ['context_overflow', 'completed']);
    assert.equal(sent().length, 2);
    assert.ok(log.every((event) => event.type !== 'model.failed' || event.payload.calibration === undefined));
  });

  it('is asked once more at once, without the oldest turns, which the log has', async () => {
    strict(() => text('noted'));
    const { log } = await talk(await agent(), [long(600, 'FIRST '), long(1150, 'SECOND '), 'hello again']);
    assert.deepEqual(endsOf(log), ['completed', 'completed', 'completed']);
    const [, refused, again, last, ...more] = sent();
    assert.match(refused ?? '', /FIRST.*SECOND/);
    for (const request of [again, last]) assert.doesNotMatch(request ?? '', /FIRST/);
    assert.match(again ?? '', /SECOND/);
    assert.deepEqual(more, []);
    const types = log.map(({ type }) => type);
    const at = types.indexOf('model.retried');
    assert.deepEqual(types.slice(at, at + 3), ['model.retried', 'context.transformed', 'model.responded']);
  });

  it('fails the turn that is too long by itself, and no later one, whoever drives it and in whichever run', async () => {
    strict(() => text('noted'));
    const by = await agent();
    const { run, thread, log } = await talk(by, [long(600, 'FIRST '), long(1900, 'SECOND '), 'hello again']);
    assert.deepEqual(endsOf(log), ['completed', 'context_overflow', 'completed']);
    assert.equal(sent().length, 3, 'what is left is not too long again');
    assert.doesNotMatch(sent()[2] ?? '', /SECOND/);
    const warm = sent()[2];
    await engine.everyoneDies();
    await engine.post(by, run, 'and again');
    await engine.finish(run);
    assert.ok(sent()[3]?.startsWith((warm ?? '').slice(0, 40)));
    await completeRun(engine.context, { tenantId: engine.tenantId, runId: run });
    const next = await engine.start(by, 'in the next run', { threadId: thread });
    await engine.finish(next.run);
    assert.equal((await storedRun(engine, next.run)).status, 'completed');
    assert.equal(sent().length, 5);
    assert.doesNotMatch(sent()[4] ?? '', /SECOND/);
  });

  it('is not asked once more where the current turn would be too long without the oldest ones, too', async () => {
    strict(() => text('noted'));
    const { log } = await talk(await agent(), [long(600, 'FIRST '), long(1650, 'SECOND '), 'hello again']);
    assert.deepEqual(endsOf(log), ['completed', 'context_overflow', 'completed']);
    assert.match(sent()[1] ?? '', /FIRST.*SECOND/);
    assert.equal(sent().length, 3);
  });

  it('is not corrected by what Drover itself refuses for its length', async () => {
    engine.say(() => text('noted'));
    const { log } = await talk(await agent(), [long(5000, 'FIRST '), 'hello again']);
    assert.deepEqual(endsOf(log), ['context_overflow', 'completed']);
    assert.equal(sent().length, 1);
    const failed = log.flatMap((event) => (event.type === 'model.failed' ? [event.payload.calibration] : []));
    assert.deepEqual(failed, [undefined]);
  });

  it('fails the turn with words on the window that is assumed, and on the setting for another', async () => {
    const by = await engine.agent({ llm_config: { default_model: 'anthropic/local', max_tokens: 500 } });
    const message = "This model's maximum context length is 8192 tokens, however you requested 9500 tokens.";
    engine.say(() => ({ error: { status: 400, type: 'invalid_request_error', message } }));
    const { run } = await engine.start(by, 'hello');
    await engine.finish(run);
    const { error } = await storedRun(engine, run);
    assert.equal(error?.code, 'context_overflow');
    assert.match(error.message, /maximum context length is 8192 tokens/);
    assert.match(error.message, /128000 tokens.*DROVER_CONTEXT_WINDOWS=anthropic\/local=/);
  });

  it('need not say how long it is', async () => {
    strict(
      () => text('noted'),
      () => 'input is too long',
    );
    const { log } = await talk(await agent(), [long(600, 'FIRST '), long(1900, 'SECOND '), 'hello again']);
    assert.deepEqual(endsOf(log), ['completed', 'context_overflow', 'completed']);
  });

  it('corrects nothing where a short conversation is too long, as by the bytes of its files', async () => {
    const error = { status: 413, type: 'request_too_large', message: 'Request exceeds the maximum size' };
    engine.say(() => ({ error }));
    const { run } = await engine.start(await agent(), long(600, 'short '));
    await engine.finish(run);
    assert.equal((await storedRun(engine, run)).error?.code, 'context_overflow');
    const failed = (await engine.log(run)).find(({ type }) => type === 'model.failed');
    assert.ok(failed?.type === 'model.failed' && failed.payload.calibration === undefined);
    assert.equal(sent().length, 1);
  });

  it('is replayed from the record with the same cuts, and no model is asked', async () => {
    strict((n) => (n === 1 ? use({ name: 'calculator', input: { expression: '1 + 1' } }) : text('noted')));
    const { run, log } = await talk(await agent(), [long(600, 'FIRST '), long(1150, 'SECOND ')]);
    assert.deepEqual(endsOf(log), ['completed', 'completed']);
    const places = await checkpointsOfRun(engine, run);
    engine.say(() => text('asked'));
    const cutOf = (events: readonly RunEvent[]) =>
      events.flatMap((event) => (event.type === 'context.transformed' ? [event.payload.first_kept_ordinal] : []));
    for (const { id } of places.slice(0, -1)) {
      const replayed = await replayRecorded(engine, run, { checkpointId: id });
      await engine.finish(replayed);
      const again = await engine.log(replayed);
      assert.deepEqual(cutOf(again), cutOf(log));
      assert.ok(again.every((event) => event.type !== 'model.responded' || event.payload.recorded));
    }
    assert.equal(engine.model.requests.length, 0);
  });
});
