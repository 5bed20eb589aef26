import assert from 'node:assert/strict';
import type { RunEvent } from '../../../core/events.ts';
import { LIMITS } from '../../../core/limits.ts';
import { wakeParkedRuns } from '../../../modules/runs/wake-parked.ts';
import { door, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { replayRecorded } from '../../support/recorded-replay.ts';
import {
  conversationRequests,
  isOwnRequest,
  type AnthropicReply,
  type AnthropicRequest,
} from '../../support/fake-anthropic.ts';
import { makeOutagesDue } from '../../support/queries/model-calls.ts';
import { checkpointsOfRun } from '../../support/queries/logs.ts';
import { storedRun } from '../../support/queries/runs.ts';

describe('An agent whose answers are reflected on', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  const verdict = (...gaps: string[]) =>
    use({ name: 'submit_verdict', input: { meets_criteria: gaps.length === 0, gaps } });
  /** The `n`th answer of the agent, and the `n`th verdict. */
  const script = (answer: (n: number) => AnthropicReply, judge: (n: number) => AnthropicReply) => {
    let [answers, verdicts] = [0, 0];
    engine.say((request) => (isOwnRequest(request) ? judge(verdicts++) : answer(answers++)));
  };
  const agentOf = (more: Record<string, unknown> = {}, execution: Record<string, unknown> = {}) =>
    engine.agent({
      name: `reflects ${Math.random()}`,
      llm_config: { default_model: 'anthropic/claude-haiku-4-5' },
      execution_config: { reflect: true, ...execution },
      ...more,
    });
  const judged = () => engine.model.requests.filter(({ body }) => isOwnRequest(body as AnthropicRequest));
  const reflections = (log: readonly RunEvent[]) =>
    log.flatMap((event) => (event.type === 'reflection.completed' ? [event.payload] : []));
  const statuses = (log: readonly RunEvent[]) =>
    log.flatMap((event) => (event.type === 'run.status_changed' ? [event.payload.to] : []));
  const answerOf = async (run: string) => (await engine.conversation(run)).at(-1)?.content;

  async function ask(agent: string, message = 'Name the capital and its river.') {
    const { run } = await engine.start(agent, message);
    await engine.finish(run);
    return { run, log: await engine.log(run) };
  }

  it('ends its turn with an answer that does what was asked for', async () => {
    script(
      () => text('Vienna, on the Danube.'),
      () => verdict(),
    );
    const { run, log } = await ask(await agentOf());
    assert.deepEqual(statuses(log), ['initializing', 'planning', 'executing', 'reflecting', 'completed']);
    assert.deepEqual(reflections(log), [
      { ordinal: 1, attempt: 1, meets_criteria: true, gaps: [], last: true, length: 2 },
    ]);
    const own = log.flatMap(({ type, payload }) =>
      'tool' in payload && payload.tool === 'submit_verdict' ? [type] : [],
    );
    assert.deepEqual(own, ['model.responded'], 'the call stands in the log');
    assert.match(JSON.stringify(judged().at(-1)?.body), /Name the capital.*Vienna, on the Danube/);
    assert.equal((await storedRun(engine, run)).steps, 1, 'a verdict is no step');
  });

  it('is told what its answer lacks, plans anew, and answers again', async () => {
    script(
      (n) => text(n === 0 ? 'Vienna.' : 'Vienna, on the Danube.'),
      (n) => (n === 0 ? verdict('the river') : verdict()),
    );
    const { run, log } = await ask(await agentOf());
    const way = ['reflecting', 'planning', 'executing', 'reflecting', 'completed'];
    assert.deepEqual(statuses(log), ['initializing', 'planning', 'executing', ...way]);
    assert.deepEqual(
      reflections(log).map(({ attempt, last }) => [attempt, last]),
      [
        [1, false],
        [2, true],
      ],
    );
    assert.match(
      JSON.stringify(conversationRequests(engine.model).at(-1)?.body.messages.at(-1)),
      /does not do.*the river/,
    );
    assert.deepEqual(await answerOf(run), [{ type: 'text', text: 'Vienna, on the Danube.' }]);
    assert.equal((await engine.conversation(run)).length, 4);
  });

  it('answers in the end, however much a verdict finds', async () => {
    script(
      (n) => text(`answer ${n}`),
      (n) => verdict(`gap ${n}`),
    );
    const { run, log } = await ask(await agentOf());
    assert.equal(reflections(log).length, LIMITS.reflectionsPerTurn + 1);
    assert.deepEqual(reflections(log).at(-1)?.gaps, [`gap ${LIMITS.reflectionsPerTurn}`]);
    assert.deepEqual(await answerOf(run), [{ type: 'text', text: `answer ${LIMITS.reflectionsPerTurn}` }]);
    assert.equal(log.at(-1)?.type, 'turn.completed');
  });

  it('takes an answer that no model gives a usable verdict on, which is asked for twice', async () => {
    script(
      () => text('Vienna.'),
      () => text('I would rather not'),
    );
    const { log } = await ask(await agentOf());
    assert.equal(judged().length, 2);
    assert.deepEqual(
      reflections(log).map(({ meets_criteria, last }) => [meets_criteria, last]),
      [[null, true]],
    );
    assert.equal(log.at(-1)?.type, 'turn.completed');
  });

  it('asks nobody about the answer at the limit of its steps', async () => {
    script(
      (n) => (n === 0 ? use({ name: 'json_query', input: { data: 1, query: '1' } }) : text('all there is')),
      () => verdict('more'),
    );
    const { log } = await ask(await agentOf({ tools: ['json_query'] }, { max_turns: 1 }));
    assert.equal(judged().length, 0);
    assert.deepEqual(reflections(log), []);
    assert.equal(log.at(-1)?.type, 'turn.completed');
  });

  it('is looked at again where whoever drove it died while a verdict was asked, and gives its answer once', async () => {
    const asked = door();
    let [verdicts, answers] = [0, 0];
    engine.say(async (request) => {
      if (!isOwnRequest(request)) return text(`answer ${answers++}`);
      if (verdicts++ === 0) await asked.pass();
      return verdict();
    });
    const { run } = await engine.start(await agentOf(), 'What?');
    const lost = engine.drive(run);
    await asked.reached;
    assert.equal((await storedRun(engine, run)).status, 'reflecting');
    await engine.everyoneDies();
    await engine.finish(run);
    asked.open();
    assert.equal(await lost, 'lost');
    assert.equal(answers, 1);
    assert.equal(reflections(await engine.log(run)).length, 1);
    assert.deepEqual(await answerOf(run), [{ type: 'text', text: 'answer 0' }]);
  });

  it('waits for the verdict where the provider is away', async () => {
    let isAway = true;
    script(
      () => text('Vienna.'),
      () => (isAway ? { error: { status: 500, type: 'api_error', headers: { 'retry-after-ms': '0' } } } : verdict()),
    );
    const { run } = await engine.start(await agentOf(), 'What?');
    assert.equal(await engine.drive(run), 'dormant');
    assert.equal((await storedRun(engine, run)).waiting_for?.type, 'provider');
    isAway = false;
    await makeOutagesDue(engine);
    assert.equal(await wakeParkedRuns(engine.context), 1);
    await engine.finish(run);
    const log = await engine.log(run);
    assert.equal(log.filter(({ type }) => type === 'model.resumed').length, 1);
    assert.deepEqual(
      reflections(log).map(({ meets_criteria }) => meets_criteria),
      [true],
    );
    await engine.providersBack();
  });

  it('takes its answer unseen where the offline model would have to judge it', async () => {
    const { log } = await ask(await agentOf({ llm_config: { default_model: 'offline' } }), 'say hello');
    assert.deepEqual(
      reflections(log).map(({ meets_criteria, gaps }) => [meets_criteria, gaps]),
      [[null, []]],
    );
    assert.ok(!log.some((event) => event.type === 'model.called' && typeof event.payload.tool_choice === 'object'));
  });

  it('takes its answer unseen where no budget is left for a verdict', async () => {
    script(
      () => ({ ...text('Vienna.'), usage: { input_tokens: 1000, output_tokens: 50 } }),
      () => verdict('the river'),
    );
    const { run } = await engine.start(await agentOf(), 'What?', { config: { budget: { max_tokens: 1100 } } });
    await engine.finish(run);
    const log = await engine.log(run);
    assert.deepEqual(judged(), []);
    assert.deepEqual(
      reflections(log).map(({ meets_criteria }) => meets_criteria),
      [null],
    );
    assert.equal(log.at(-1)?.type, 'turn.completed');
  });

  it('finds in a recorded replay what was found then, and asks nobody', async () => {
    script(
      (n) => text(n === 0 ? 'Vienna.' : 'Vienna, on the Danube.'),
      (n) => (n === 0 ? verdict('the river') : verdict()),
    );
    const { run, log } = await ask(await agentOf());
    engine.say(() => assert.fail('a model is asked'));
    const id = await replayRecorded(engine, run);
    await engine.finish(id);
    assert.deepEqual(engine.model.requests, []);
    const replayed = await engine.log(id);
    assert.deepEqual(reflections(replayed), reflections(log));
    assert.deepEqual(await engine.conversation(id), await engine.conversation(run));
  });

  it('ends as then in a recorded replay from after the first look, where there were as many as there may be', async () => {
    const sum = use({ name: 'calculator', input: { expression: '1+1' } });
    script(
      (n) => (n === 1 ? sum : text(`answer ${n}`)),
      () => verdict('more'),
    );
    const more = { tools: ['calculator'] };
    const { run, log } = await ask(await agentOf(more, { checkpoint_frequency: 'on_change' }));
    const looks = reflections(log);
    assert.deepEqual(
      looks.map(({ last }) => last),
      [...Array<boolean>(LIMITS.reflectionsPerTurn).fill(false), true],
    );
    const [point] = (await checkpointsOfRun(engine, run)).filter(({ steps }) => steps === 2);
    assert.ok(point);
    engine.say(() => assert.fail('a model is asked'));
    const id = await replayRecorded(engine, run, { checkpointId: point.id });
    await engine.finish(id);
    assert.deepEqual(engine.model.requests, []);
    assert.equal(reflections(await engine.log(id)).at(-1)?.last, true);
  });

  it('goes on at the node of its graph that has answered', async () => {
    script(
      (n) => text(`answer ${n}`),
      (n) => (n === 0 ? verdict('more') : verdict()),
    );
    const graph = {
      entry_point: 'first',
      nodes: [
        { name: 'first', type: 'llm' as const, config: { prompt: 'Begin.' } },
        { name: 'second', type: 'llm' as const, config: { prompt: 'End.' } },
      ],
      edges: [{ from: 'first', to: 'second', condition: null }],
    };
    const { run, log } = await ask(await agentOf({ workflow_graph: graph }));
    const visits = log.flatMap((event) =>
      event.type === 'node.entered' ? [`${event.payload.node} ${event.payload.visit}`] : [],
    );
    assert.deepEqual(visits, ['first 1', 'second 1', 'second 2']);
    assert.deepEqual(await answerOf(run), [{ type: 'text', text: 'answer 2' }]);
  });
});
