import assert from 'node:assert/strict';
import { loadRun } from '../../../db/claim-run.ts';
import { openEngine, text, use, type Engine } from '../../support/engine.ts';
import { isOwnRequest, type AnthropicRequest } from '../../support/fake-anthropic.ts';
import { changeMessage } from '../../support/queries/logs.ts';
import { replayRecorded } from '../../support/recorded-replay.ts';

/** About so many tokens. */
const long = (tokens: number, about = '') => about + 'lorem ipsum '.repeat(Math.ceil(tokens / 3));

describe('A conversation longer than what models are sent of it', () => {
  let engine: Engine;

  before(async () => {
    engine = await openEngine(undefined, { DROVER_CONTEXT_WINDOWS: 'anthropic/small=4000,anthropic/large=40000' });
  });

  after(() => engine.close());

  const limited = { memory_config: { short_term: { max_tokens: 300 } } };
  const MESSAGES = ['FIRST', 'SECOND', 'THIRD', 'FOURTH'];

  const sent = () => engine.model.requests.map(({ body }) => JSON.stringify((body as AnthropicRequest).messages));

  /** A run with a turn for each of `MESSAGES`, dormant; `forgets`: no drive finds what another has left. */
  async function talk({ agent, forgets = false }: { agent: string; forgets?: boolean }): Promise<string> {
    const { run } = await engine.start(agent, long(150, 'FIRST '), { config: { keep_open: true } });
    await engine.finish(run);
    for (const message of MESSAGES.slice(1)) {
      if (forgets) engine.context.runCache.clear();
      await engine.post(agent, run, long(150, `${message} `));
      await engine.finish(run);
    }
    return run;
  }

  const read = async (run: string, window: true | undefined) => {
    const found = await loadRun(engine.context.db, { tenant_id: engine.tenantId, run_id: run, window });
    assert.ok(found.ok);
    return found;
  };

  const cutsOf = async (run: string) =>
    (await engine.log(run)).flatMap((event) => (event.type === 'context.transformed' ? [event.payload] : []));

  it('is read from the first message that they are sent', async () => {
    engine.say(() => text('noted'));
    const run = await talk({ agent: await engine.agent(limited) });
    const whole = await read(run, undefined);
    const { messages, before } = await read(run, true);
    assert.equal(before?.messages, 6);
    assert.equal(before.chain, whole.messages[5]?.chain);
    assert.deepEqual(messages, whole.messages.slice(6));
    assert.equal(whole.messages.length, 8);
  });

  it('is kept in mind from there on as well', async () => {
    engine.say(() => text('noted'));
    const run = await talk({ agent: await engine.agent(limited) });
    const cached = engine.context.runCache.take(run);
    assert.deepEqual([cached?.before.messages, cached?.messages.length], [6, 2]);
    assert.deepEqual(cached?.before, (await read(run, true)).before);
  });

  it('gives models the same whether it was kept in mind or read, and its log says the same', async () => {
    const seen: unknown[] = [];
    for (const forgets of [false, true]) {
      engine.say(() => text('noted'));
      const run = await talk({ agent: await engine.agent(limited), forgets });
      seen.push({ sent: sent(), cuts: await cutsOf(run) });
    }
    assert.deepEqual(seen[0], seen[1]);
  });

  it('goes on where a message was changed that nobody reads any more, and not where one was that is read', async () => {
    const agent = await engine.agent(limited);
    for (const [ordinal, status] of [
      [0, 'completed'],
      [6, 'waiting'],
    ] as const) {
      engine.say(() => text('noted'));
      const run = await talk({ agent });
      await changeMessage(engine, run, ordinal);
      await engine.post(agent, run, 'and now?');
      const driven = engine.finish(run);
      if (status === 'completed') await driven;
      else await assert.rejects(driven, /message 6 does not fit its hash/);
    }
  });

  /** A run on one thread for each of `MESSAGES`, all ended but the last, which nobody has driven. */
  async function talkByRuns(agent: string): Promise<string> {
    let last: { run: string; thread: string } | undefined;
    for (const message of MESSAGES) {
      if (last) await engine.finish(last.run);
      last = await engine.start(agent, long(150, `${message} `), { threadId: last?.thread });
    }
    return last?.run ?? '';
  }

  it('is read from there by the next run of its thread, which sends the same and says in its log where it began', async () => {
    const agent = await engine.agent(limited);
    engine.say(() => text('noted'));
    await talk({ agent });
    const byTurns = sent();
    engine.say(() => text('noted'));
    const run = await talkByRuns(agent);
    // As the run before has left it: of three turns one was sent.
    const { before, messages, checkpoint } = await read(run, true);
    assert.deepEqual([before?.messages, messages.length, checkpoint], [4, 2, null]);
    await engine.finish(run);
    assert.deepEqual(sent(), byTurns);
    assert.deepEqual(
      (await cutsOf(run)).map((cut) => cut.first_kept_ordinal),
      [6],
    );
  });

  it('is read from there by a run of its thread whose own cut is the same, which says so, too', async () => {
    const agent = await engine.agent(limited);
    engine.say(() => text('noted'));
    const run = await talkByRuns(agent);
    await engine.finish(run);
    const { thread_id: threadId } = (await read(run, undefined)).run;
    const next = await engine.start(agent, 'short', { threadId });
    await engine.finish(next.run);
    assert.deepEqual(await cutsOf(next.run), await cutsOf(run));
    assert.equal((await cutsOf(next.run)).length, 1);
  });

  it('is cut in a recorded replay of such a run as it was in the run: no model is asked for the summary that was not to be had', async () => {
    const agent = await engine.agent({ memory_config: { short_term: { max_tokens: 300, strategy: 'summarize' } } });
    engine.say((request) => text(isOwnRequest(request) ? 'none' : 'noted'));
    const run = await talkByRuns(agent);
    await engine.finish(run);
    const asked = engine.model.requests.length;
    const replayed = await replayRecorded(engine, run);
    await engine.finish(replayed);
    assert.equal(engine.model.requests.length, asked);
    assert.deepEqual(await cutsOf(replayed), await cutsOf(run));
  });

  it('is verified whole by a replay, also what models are not sent any more', async () => {
    const agent = await engine.agent(limited);
    engine.say(() => text('noted'));
    const run = await talkByRuns(agent);
    await engine.finish(run);
    const replayed = await replayRecorded(engine, run);
    await changeMessage(engine, run, 0);
    await assert.rejects(engine.finish(replayed), /message 0 does not fit its hash/);
  });

  it('is read whole again where a model of the run takes more of it', async () => {
    engine.say(() => text('noted'));
    const llm_config = { default_model: 'anthropic/small', max_tokens: 500, fallback_model: 'anthropic/large' };
    const agent = await engine.agent({ llm_config });
    const { run } = await engine.start(agent, long(1200, 'FIRST '), { config: { keep_open: true } });
    await engine.finish(run);
    for (const message of [long(1200, 'SECOND '), long(1200, 'THIRD ')]) {
      await engine.post(agent, run, message);
      await engine.finish(run);
    }
    assert.ok(((await read(run, true)).before?.messages ?? 0) > 0);
    engine.context.runCache.clear();
    engine.say(() => text('noted'));
    await engine.post(agent, run, long(5000, 'FOURTH '));
    await engine.finish(run);
    const [last = ''] = sent();
    for (const word of ['FIRST', 'SECOND', 'THIRD', 'FOURTH']) assert.match(last, new RegExp(word));
  });

  it('has each id of a tool use once, also where it was not read', async () => {
    const calculate = { ...use({ name: 'calculator', input: { expression: '1+1' } }) };
    engine.say((_request, n) => (n % 2 === 0 ? calculate : text('noted')));
    const run = await talk({ agent: await engine.agent({ ...limited, tools: ['calculator'] }), forgets: true });
    const { messages } = await read(run, undefined);
    const ids = messages.flatMap(({ content }) =>
      content.flatMap((block) => (block.type === 'tool_use' ? block.id : [])),
    );
    assert.equal(ids.length, MESSAGES.length);
    assert.equal(new Set(ids).size, ids.length);
  });
});
