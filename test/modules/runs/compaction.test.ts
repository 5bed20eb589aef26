import assert from 'node:assert/strict';
import type { RunEvent } from '../../../core/events.ts';
import { contextPart } from '../../../core/handoff-brief.ts';
import { newId } from '../../../lib/new-id.ts';
import { completeRun } from '../../../modules/runs/end-run.ts';
import { wakeParkedRuns } from '../../../modules/runs/wake-parked.ts';
import { door, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { replayRecorded } from '../../support/recorded-replay.ts';
import { assertPaired } from '../../support/explained-context.ts';
import {
  conversationRequests,
  isOwnRequest,
  type AnthropicReply,
  type AnthropicRequest,
} from '../../support/fake-anthropic.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { failuresOfOutages, makeOutagesDue, overdueRuns, parkedRuns } from '../../support/queries/model-calls.ts';
import { storedRun } from '../../support/queries/runs.ts';

const WORD = 'lorem ipsum ';
/** About so many tokens. */
const long = (tokens: number, about = '') => about + WORD.repeat(Math.ceil((tokens * 4) / WORD.length));

type Blocks = { type: string; tool_use_id?: string; id?: string; text?: string; content?: unknown }[];

describe('A conversation that has grown too long', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  /** Answers what is asked of Drover's own with a summary, all else as the script says. */
  const script = (answer: (n: number) => AnthropicReply, summary: () => AnthropicReply) => {
    let n = 0;
    engine.say((request) => (isOwnRequest(request) ? summary() : answer(n++)));
  };
  const summaryOf = (words: string) => use({ name: 'submit_summary', input: { summary: words } });
  const sent = () => conversationRequests(engine.model).map(({ body }) => body.messages);
  const agentOf = (strategy: string, more: Record<string, unknown> = {}) =>
    engine.agent({
      name: `${strategy} ${Math.random()}`,
      llm_config: { default_model: 'anthropic/claude-haiku-4-5' },
      memory_config: { short_term: { max_tokens: 1000, strategy: strategy as 'hybrid' } },
      ...more,
    });
  const compactions = (log: readonly RunEvent[]) =>
    log.flatMap((event) => (event.type === 'context.compacted' ? [event.payload] : []));

  async function talk(agent: string, messages: readonly string[], thread?: string) {
    const [first = '', ...others] = messages;
    const started = await engine.start(agent, first, { config: { keep_open: true }, threadId: thread });
    await engine.finish(started.run);
    for (const message of others) {
      await engine.post(agent, started.run, message);
      await engine.finish(started.run);
    }
    return { ...started, log: await engine.log(started.run) };
  }

  /** A call whose result has about so many tokens. */
  const queryOf = (tokens: number, id?: string) => {
    const query = `$join([1..${tokens}].$string(), ' ')`;
    return { name: 'json_query', input: { data: null, query }, ...(id !== undefined && { id }) };
  };

  it('is sent with a summary in place of its oldest turns, which the log has', async () => {
    const turns = [long(300, 'FIRST '), long(300, 'SECOND '), long(300, 'THIRD '), long(300, 'FOURTH '), 'and now?'];
    script(
      () => text('noted'),
      () => summaryOf('The user has said FIRST things.'),
    );
    const { run, log } = await talk(await agentOf('summarize'), turns);
    const [first, ...more] = compactions(log);
    assert.ok(first);
    assert.deepEqual(more, []);
    assert.equal(first.summary, 'The user has said FIRST things.');
    assert.ok(first.tokens_after <= first.budget_tokens && first.tokens_before > first.budget_tokens);
    const own = log.filter((event) => event.type === 'model.responded' && event.payload.tool === 'submit_summary');
    assert.equal(own.length, 1, 'the call stands in the log');
    const last = sent().at(-1) ?? [];
    assert.match(JSON.stringify(last[0]), /<summary>\\nThe user has said FIRST things\.\\n<\/summary>/);
    assert.doesNotMatch(JSON.stringify(last), /FIRST lorem/);
    assert.match(JSON.stringify(last), /and now\?/);
    assert.equal((await engine.conversation(run)).length, 2 * turns.length, 'the messages stay');
    const system = JSON.stringify(engine.model.requests.at(-1)?.body['system']);
    assert.match(system, /You are summarize/, 'instructions are not summarised');
  });

  it('is summarised without the fragments that a handoff has given and that are forgotten', async () => {
    const memory_fragments = [{ id: newId(), content: 'The canary is green.' }];
    const brief = `${long(600)}\n\n${contextPart({ memory_fragments, task_context: { original_query: 'Which bird?' } })}`;
    let asked = '';
    engine.say((request) => {
      if (!isOwnRequest(request)) return text('noted');
      asked = JSON.stringify(request);
      return summaryOf('A BIRD');
    });
    const agent = await agentOf('summarize');
    const { run } = await talk(agent, [brief]);
    // As for a process that has not asked a model yet.
    engine.context.runCache.clear();
    await engine.post(agent, run, long(600));
    await engine.finish(run);
    assert.match(asked, /Which bird\?/);
    assert.doesNotMatch(asked, /canary/);
  });

  it('goes on with its summary in the next run of its thread, and in a process that knows nothing of it', async () => {
    script(
      () => text('noted'),
      () => summaryOf('ALL OF IT'),
    );
    const agent = await agentOf('summarize');
    const { run, thread } = await talk(agent, [long(600), long(600), 'c']);
    await engine.everyoneDies();
    await engine.post(agent, run, 'd');
    await engine.finish(run);
    assert.match(JSON.stringify(sent().at(-1)?.[0]), /ALL OF IT/);
    await completeRun(engine.context, { tenantId: engine.tenantId, runId: run });
    await talk(agent, ['e'], thread);
    const next = sent().at(-1) ?? [];
    assert.match(JSON.stringify(next[0]), /ALL OF IT/);
    assert.match(JSON.stringify(next), /"d".*"e"/);
  });

  it('has its oldest results set aside first, with a handle that the model can read them by', async () => {
    const agent = await agentOf('tool_result_removal', { tools: ['json_query'] });
    script(
      (n) => (n < 3 ? use(queryOf(450, `toolu_${n + 1}`)) : text('done')),
      () => text('never'),
    );
    const { log } = await talk(agent, ['Look at these.']);
    const made = compactions(log);
    assert.ok(made.length > 0);
    assert.ok(made.every(({ first_kept_ordinal, summary }) => first_kept_ordinal === 0 && summary === undefined));
    const last = sent().at(-1) ?? [];
    assertPaired(last);
    const results = last.flatMap(({ content }) => (content as Blocks).filter(({ type }) => type === 'tool_result'));
    assert.match(JSON.stringify(results[0]), /set aside.*read_tool_output.*toolu_1/);
    assert.doesNotMatch(JSON.stringify(results.at(-1)), /set aside/, 'the latest result stays');
    const [request] = engine.model.requests;
    const names = (request?.body as AnthropicRequest | undefined)?.tools?.map(({ name }) => name) ?? [];
    assert.ok(names.includes('read_tool_output'));
  });

  it('loses its oldest turns where no summary is to be had', async () => {
    script(
      () => text('noted'),
      () => text('I would rather not'),
    );
    const { log } = await talk(await agentOf('hybrid'), [long(500, 'FIRST '), long(600), 'and now?']);
    assert.deepEqual(compactions(log), []);
    assert.ok(log.some(({ type }) => type === 'context.transformed'));
    assert.equal(log.at(-1)?.type, 'turn.completed');
  });

  it('has its question whole where whoever drove it died while a summary was asked', async () => {
    const asked = door();
    let summaries = 0;
    engine.say(async (request) => {
      if (!isOwnRequest(request)) return text('noted');
      if (summaries++ === 0) await asked.pass();
      return summaryOf('The user has said FIRST things.');
    });
    const agent = await agentOf('summarize');
    const { run } = await talk(agent, [long(400, 'FIRST '), long(400, 'SECOND ')]);
    await engine.post(agent, run, long(400, 'LAST of all '));
    const lost = engine.drive(run);
    await asked.reached;
    await engine.everyoneDies();
    await engine.finish(run);
    asked.open();
    assert.equal(await lost, 'lost');
    const log = await engine.log(run);
    assert.equal(log.at(-1)?.type, 'turn.completed');
    const last = sent().at(-1) ?? [];
    assert.match(JSON.stringify(last[0]), /The user has said FIRST things/);
    assert.match(JSON.stringify(last.at(-1)), /LAST of all/);
    assert.equal((await engine.conversation(run)).length, 6);
  });

  it('loses its summary, too, where the turn fits only without it, which the log has', async () => {
    script(
      () => text('noted'),
      () => summaryOf(long(500, 'SUMMARY of FIRST ')),
    );
    const agent = await agentOf('summarize');
    const { log } = await talk(agent, [long(700, 'FIRST '), long(400, 'SECOND '), long(800, 'THIRD ')]);
    const made = compactions(log).map(({ summary }) => summary?.slice(0, 16));
    assert.deepEqual(made, ['SUMMARY of FIRST', undefined]);
    assert.match(JSON.stringify(sent().at(1)), /SUMMARY of FIRST.*SECOND/);
    assert.doesNotMatch(JSON.stringify(sent().at(2)), /SUMMARY|SECOND/);
    assert.equal(log.at(-1)?.type, 'turn.completed');
  });

  const AWAY: AnthropicReply = { error: { status: 500, type: 'api_error', headers: { 'retry-after-ms': '0' } } };

  it('waits for its summary where the provider is away, and forgets nothing for that', async () => {
    let isAway = true;
    script(
      () => text('noted'),
      () => (isAway ? AWAY : summaryOf('The user has said FIRST things.')),
    );
    const agent = await agentOf('summarize');
    const { run } = await talk(agent, [long(400, 'FIRST '), long(400, 'SECOND ')]);
    await engine.post(agent, run, long(400, 'LAST of all '));
    assert.equal(await engine.drive(run), 'dormant');
    const waits = await storedRun(engine, run);
    assert.deepEqual([waits.dormant, waits.status, waits.waiting_for?.type], [true, 'executing', 'provider']);
    const parked = await engine.log(run);
    assert.equal(parked.at(-1)?.type, 'model.deferred');
    assert.ok(!parked.some(({ type }) => type.startsWith('context.')));
    assert.equal(await engine.drive(run), 'dormant');
    await makeOutagesDue(engine);
    assert.equal(await wakeParkedRuns(engine.context), 1);
    isAway = false;
    await engine.finish(run);
    assert.equal(await wakeParkedRuns(engine.context), 0);
    const log = await engine.log(run);
    const resumed = log.flatMap((event) => (event.type === 'model.resumed' ? [event.payload.waited_ms] : []));
    assert.equal(resumed.length, 1);
    assert.ok((resumed[0] ?? 0) > 0);
    assert.equal(compactions(log).length, 1);
    assert.ok(!log.some(({ type }) => type === 'context.transformed'));
    assert.equal(log.at(-1)?.type, 'turn.completed');
    assert.match(JSON.stringify(sent().at(-1)), /The user has said FIRST things.*LAST of all/);
    assert.deepEqual(await failuresOfOutages(engine), []);
    assert.deepEqual(await parkedRuns(engine), []);
  });

  it('fails its turn where no provider is back in time, and the next one has all of it', async () => {
    let isAway = true;
    script(
      () => text('noted'),
      () => (isAway ? AWAY : summaryOf('The user has said FIRST things.')),
    );
    const agent = await agentOf('summarize', { execution_config: { provider_outage_seconds: 0 } });
    const { run } = await talk(agent, [long(400, 'FIRST '), long(400, 'SECOND ')]);
    await engine.post(agent, run, long(400, 'LAST of all '));
    await engine.finish(run);
    const log = await engine.log(run);
    const failed = log.flatMap((event) => (event.type === 'turn.failed' ? [event.payload.error.code] : []));
    assert.deepEqual(failed, ['provider_unavailable']);
    assert.ok(!log.some(({ type }) => type.startsWith('context.')));
    isAway = false;
    await engine.providersBack();
    await engine.post(agent, run, 'once more');
    await engine.finish(run);
    const kept = (await engine.conversation(run)).filter(({ role }) => role === 'user');
    assert.match(JSON.stringify(kept), /FIRST .*SECOND .*LAST of all .*once more/);
    assert.match(JSON.stringify(sent().at(-1)), /The user has said FIRST things.*once more/);
  });

  it('goes on without the summary that no provider gives in time, where it answers others', async () => {
    script(
      () => text('noted'),
      () => AWAY,
    );
    const agent = await agentOf('summarize', { execution_config: { provider_outage_seconds: 1 } });
    const { run } = await talk(agent, [long(400, 'FIRST '), long(400, 'SECOND ')]);
    await engine.post(agent, run, long(400, 'LAST of all '));
    assert.equal(await engine.drive(run), 'dormant');
    await waitUntil('the time is up', async () => (await overdueRuns(engine)).length > 0);
    await engine.providersBack();
    await wakeParkedRuns(engine.context);
    await engine.finish(run);
    const log = await engine.log(run);
    assert.ok(
      log.some(({ type }) => type === 'context.transformed'),
      'the log says what is left out',
    );
    assert.equal(log.at(-1)?.type, 'turn.completed');
    assert.deepEqual(await parkedRuns(engine), []);
  });

  it('is sent by a recorded replay as it was, byte for byte, and no summary is asked for', async () => {
    let summaries = 0;
    script(
      (n) => (n === 2 ? use({ name: 'calculator', input: { expression: '1+1' }, id: 'toolu_c' }) : text('noted')),
      () => summaryOf(`SUMMARY ${++summaries}`),
    );
    const agent = await agentOf('hybrid', { tools: ['calculator'] });
    const { run } = await talk(agent, [long(500, 'FIRST '), long(600, 'SECOND '), long(300, 'THIRD '), 'FOURTH']);
    assert.ok(summaries > 0);
    const before = engine.model.requests.length;
    const replayed = await replayRecorded(engine, run);
    await engine.finish(replayed);
    const log = await engine.log(replayed);
    const answered = log.flatMap((event) => (event.type === 'model.responded' ? [event.payload] : []));
    assert.ok(answered.length > 0);
    assert.ok(
      answered.every(({ recorded }) => recorded === true),
      JSON.stringify(answered.map(({ differs }) => differs)),
    );
    assert.equal(engine.model.requests.length, before);
  });
});
