import assert from 'node:assert/strict';
import { findThread, updateThread } from '../../../db/threads.ts';
import { plainTitle } from '../../../core/titles.ts';
import { titleThread } from '../../../modules/conversations/title-thread.ts';
import { titleThreads } from '../../../modules/conversations/title-threads.ts';
import { eraseRun } from '../../../modules/runs/erase-run.ts';
import { openEngine, text, use, type Engine } from '../../support/engine.ts';
import { ownCalls, ownCallsOnThread } from '../../support/queries/model-calls.ts';
import { dueTitles, refuseTitles } from '../../support/queries/tenants.ts';

describe('the title of a thread', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  const never = new AbortController().signal;
  const titleOf = async (thread: string) => {
    const found = await engine.context.db.withTenant(engine.tenantId, (tx) => findThread(tx, thread));
    assert.ok(found);
    return found.title;
  };
  const due = () => dueTitles(engine);
  const give = (thread: string) => titleThread(engine.context, { tenantId: engine.tenantId, threadId: thread }, never);
  const turn = async (model = 'anthropic/claude-haiku-4-5') => {
    const agent = await engine.agent({ name: `a ${Math.random()}`, llm_config: { default_model: model } });
    const { run, thread } = await engine.start(agent, 'How many cars are there in the garage? I forgot.');
    await engine.finish(run);
    return { agent, run, thread };
  };

  it('is asked of the agent’s model once its first turn has ended, and given once', async () => {
    engine.say([text('Three.'), use({ name: 'submit_title', input: { title: ' Cars in\nthe garage ' } })]);
    const { thread } = await turn();
    assert.equal((await due()).length, 1);
    assert.equal(await titleThreads(engine.context), 1);
    assert.equal(await titleThreads(engine.context), 0, 'it is not due again at once');
    assert.equal(await give(thread), 'given');
    assert.equal(await titleOf(thread), 'Cars in the garage');
    assert.match(JSON.stringify(engine.model.requests[1]?.body), /How many cars.*Three\./);
    assert.deepEqual(await due(), []);
    assert.equal(await give(thread), 'none', 'a second job for it asks nobody');
    assert.equal(engine.model.requests.length, 2);
  });

  it('is paid for in the transaction that writes it', async () => {
    engine.say([text('Three.'), use({ name: 'submit_title', input: { title: 'Cars' } })]);
    const { thread } = await turn();
    const allow = await refuseTitles(engine);
    await assert.rejects(give(thread), /no_titles/);
    assert.equal((await ownCalls(engine)).at(-1)?.state, 'open');
    await allow();
    engine.say([use({ name: 'submit_title', input: { title: 'Cars' } })]);
    assert.equal(await give(thread), 'given');
    assert.deepEqual([await titleOf(thread), (await ownCalls(engine)).at(-1)?.state], ['Cars', 'settled']);
  });

  it('is made of the message where the model is the offline one, without a call', async () => {
    const { thread } = await turn('offline');
    await titleThreads(engine.context);
    assert.equal(await titleOf(thread), 'How many cars are there in the garage?');
    assert.deepEqual(await due(), []);
    assert.deepEqual(await ownCallsOnThread(engine, thread), []);
  });

  it('stays due where the provider is away, and is given up where its answers cannot be used', async () => {
    engine.say([text('Three.'), { error: { status: 529, type: 'overloaded_error', retryAfter: 60 } }]);
    const { thread } = await turn();
    assert.equal(await give(thread), 'later');
    assert.equal((await due()).length, 1);
    await engine.providersBack();
    engine.say([text('A title'), text('Another')]);
    assert.equal(await give(thread), 'none');
    assert.equal(await titleOf(thread), null);
    assert.deepEqual(await due(), []);
  });

  it('is due with the first turn that completes, and not for later ones, nor for a thread whose turns have failed', async () => {
    engine.say([{ error: { status: 401, type: 'authentication_error' } }]);
    const { agent, thread } = await turn();
    assert.deepEqual(await due(), []);
    engine.say([text('Red.'), use({ name: 'submit_title', input: { title: 'Colours' } })]);
    const asked = { threadId: thread, config: { keep_open: true } };
    const { run } = await engine.start(agent, 'What colour is the car?', asked);
    await engine.finish(run);
    assert.equal((await due()).length, 1);
    assert.equal(await give(thread), 'given');
    assert.match(JSON.stringify(engine.model.requests.at(-1)?.body), /What colour.*Red\./);
    const again = async (message: string) => {
      engine.say([text('Blue.')]);
      await engine.post(agent, run, message);
      await engine.finish(run);
    };
    await again('And the other one?');
    assert.deepEqual(await due(), []);
    await engine.context.db.withTenant(engine.tenantId, (tx) => updateThread(tx, thread, { title: null }));
    await again('And the third?');
    assert.deepEqual(await due(), [], 'none that was taken away is made again');
  });

  it('goes with the run that it was made from', async () => {
    engine.say([{ error: { status: 401, type: 'authentication_error' } }]);
    const { agent, thread } = await turn();
    engine.say([text('Red.'), use({ name: 'submit_title', input: { title: 'Colours' } }), text('Blue.')]);
    const { run } = await engine.start(agent, 'What colour is the car?', { threadId: thread });
    await engine.finish(run);
    await give(thread);
    assert.equal(await titleOf(thread), 'Colours');
    await eraseRun(engine.context, engine.caller, { id: run, dependents: false });
    assert.equal(await titleOf(thread), null);
  });

  it('is not set where its run is erased while the model is asked, nor asked for again', async () => {
    let [run, erasing] = ['', false];
    engine.say(async (_request, n) => {
      if (n === 0) return text('Three.');
      erasing = await eraseRun(engine.context, engine.caller, { id: run, dependents: false });
      return use({ name: 'submit_title', input: { title: 'Cars' } });
    });
    const { run: asked, thread } = await turn();
    run = asked;
    await give(thread);
    assert.deepEqual([erasing, await titleOf(thread), await due()], [true, null, []]);
  });

  it('made of a message is one line, cut between words', () => {
    assert.equal(plainTitle('  \n '), undefined);
    assert.equal(plainTitle('Hello there. And more.'), 'Hello there');
    assert.equal(plainTitle('word '.repeat(20)), `${'word '.repeat(12).trim()}…`);
    assert.ok(plainTitle('😀'.repeat(100))?.isWellFormed());
  });
});
