import assert from 'node:assert/strict';
import { newId } from '../../../lib/new-id.ts';
import { decideApproval } from '../../../modules/approvals/decide-approval.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import { snapshotsOf } from '../../support/explained-context.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { conversationRequests, isOwnRequest } from '../../support/fake-anthropic.ts';
import { wholeApproval } from '../../support/queries/approvals.ts';
import { sayToRun } from '../../support/say-to-run.ts';

const AWAY = { error: { status: 500, type: 'api_error', message: 'boom' } };

describe('A message for the turn under way is read by its next model call,', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  const steer = (run: string, message: string) => sayToRun(engine, run, { mode: 'steer', input: { message } });

  /** The engine's context, with which somebody says something just before the n-th commit that announces a model call. */
  const saidBefore = (run: string, nth: number, messages: string[]): Context => {
    const { context } = engine;
    let announced = 0;
    const commit: Context['commit'] = async (change) => {
      const message =
        change.events.some(({ type }) => type === 'model.called') && ++announced >= nth && messages.shift();
      if (message) await steer(run, message);
      return context.commit(change);
    };
    return { ...context, commit };
  };

  /** The model calls of the run by what they were told; its log and its projections are sound. */
  async function told(run: string, replaced = 0): Promise<string[]> {
    const log = await engine.log(run);
    const waited = log.filter(({ type }) => type === 'message.queued').length;
    assert.equal(log.filter(({ type }) => type === 'message.dequeued').length, waited - replaced);
    assert.equal(log.filter(({ type }) => type === 'turn.started').length, 1, 'the message has begun no turn');
    const { differences } = await rebuildProjections(engine.context.db, { check: true });
    assert.deepEqual(differences, []);
    const sent = conversationRequests(engine.model).map(({ body }) => JSON.stringify(body.messages));
    assert.equal((await snapshotsOf(engine, run)).at(-1), sent.at(-1), 'the run log shows what was sent');
    return sent;
  }

  const start = async (agent: string, message: string) =>
    (await engine.start(agent, message, { config: { keep_open: true } })).run;

  it('where it comes while the first one of a turn is about to be committed', async () => {
    const agent = await engine.agent({ name: newId() });
    engine.say([text('done')]);
    const run = await start(agent, 'go');
    await engine.drive(run, saidBefore(run, 1, ['in short']));
    const [first = '', ...others] = await told(run);
    assert.deepEqual(others, []);
    assert.match(first, /go.*in short/);
  });

  const newest: readonly [string, Record<string, unknown>, number][] = [
    ['where several come one after the other, each before a commit', {}, 100_000],
    [
      'where its turn reads memories and its budget is held to',
      { memory_config: { long_term: { enabled: true } } },
      100,
    ],
  ];
  for (const [title, definition, max] of newest) {
    it(`the newest one, ${title}`, async () => {
      const agent = await engine.agent({ name: newId(), ...definition });
      engine.say([text('done')]);
      const { run } = await engine.start(agent, 'go', { config: { keep_open: true, budget: { max_steps: max } } });
      const { context } = engine;
      const after = new Map<string, string>([
        ['model.called', 'in short'],
        ['message.dequeued', 'in German'],
      ]);
      const commit: Context['commit'] = async (change) => {
        for (const { type } of change.events) {
          const message = after.get(type);
          after.delete(type);
          if (message !== undefined) await steer(run, message);
        }
        return context.commit(change);
      };
      await engine.drive(run, { ...context, commit });
      const [first = '', ...others] = await told(run, 1);
      assert.deepEqual(others, []);
      assert.match(first, /go.*in German/);
      assert.doesNotMatch(first, /in short/, 'it was told to be replaced');
    });
  }

  it('unless one in mode queue takes its place before that is committed, which begins the next turn', async () => {
    const agent = await engine.agent({ name: newId() });
    engine.say([text('done'), text('later')]);
    const run = await start(agent, 'go');
    await steer(run, 'in short');
    const { context } = engine;
    const coming = ['in German'];
    const commit: Context['commit'] = async (change) => {
      const message = change.events.some(({ type }) => type === 'message.dequeued') && coming.shift();
      if (message) await sayToRun(engine, run, { mode: 'queue', input: { message } });
      return context.commit(change);
    };
    await engine.drive(run, { ...context, commit });
    assert.deepEqual(coming, []);
    const [first = '', second = '', ...others] = conversationRequests(engine.model).map(({ body }) =>
      JSON.stringify(body.messages),
    );
    assert.deepEqual(others, []);
    assert.match(first, /go/);
    assert.match(second, /in German/);
    assert.doesNotMatch(second, /in short/);
    const types = (await engine.log(run)).map(({ type }) => type);
    assert.equal(types.filter((type) => type === 'model.called').length, 2);
    const { differences } = await rebuildProjections(context.db, { check: true });
    assert.deepEqual(differences, []);
  });

  it('the newest one, where a conversation is summarised before it', async () => {
    const agent = await engine.agent({
      name: newId(),
      memory_config: { short_term: { max_tokens: 1000, strategy: 'summarize' } },
    });
    const summary = use({ name: 'submit_summary', input: { summary: 'Much was said.' } });
    engine.say((request) => (isOwnRequest(request) ? summary : text('done')));
    const run = await start(agent, 'word '.repeat(600));
    await engine.finish(run);
    await engine.post(agent, run, `${'word '.repeat(600)} and now?`);
    await steer(run, 'in short');
    const { context } = engine;
    const coming = ['in German'];
    const commit: Context['commit'] = async (change) => {
      const message = change.events.some(({ type }) => type === 'message.dequeued') && coming.shift();
      if (message) await steer(run, message);
      return context.commit(change);
    };
    await engine.drive(run, { ...context, commit });
    assert.deepEqual(coming, []);
    const log = await engine.log(run);
    assert.equal(log.filter(({ type }) => type === 'context.compacted').length, 1);
    const own = log.filter(({ payload }) => JSON.stringify(payload).includes('submit_summary'));
    assert.deepEqual(
      own.map(({ type }) => type),
      ['model.called', 'model.responded'],
    );
    assert.equal(log.filter(({ type }) => type === 'message.dequeued').length, 1);
    const last = JSON.stringify(conversationRequests(engine.model).at(-1)?.body.messages);
    assert.match(last, /and now\?.*in German/);
    assert.doesNotMatch(last, /in short/);
    const { differences } = await rebuildProjections(engine.context.db, { check: true });
    assert.deepEqual(differences, []);
  });

  it('where it comes while the last result before that call is about to be committed', async () => {
    const agent = await engine.agent({ name: newId() }, [{ name: 'look', execution: { inline: true } }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'look') }) : text('done')));
    const run = await start(agent, 'go');
    await engine.drive(run, saidBefore(run, 2, ['in short']));
    const [, second = '', ...others] = await told(run);
    assert.deepEqual(others, []);
    assert.match(second, /in short/);
  });

  it('where a driver has died after it had announced that call', async () => {
    const agent = await engine.agent({ name: newId() });
    engine.say([text('done')]);
    const run = await start(agent, 'go');
    const { context } = engine;
    const commit: Context['commit'] = async (change) => {
      await context.commit(change);
      throw new Error('the process dies');
    };
    await assert.rejects(engine.drive(run, { ...context, commit }), /the process dies/);
    await steer(run, 'in short');
    await engine.everyoneDies();
    await engine.drive(run);
    const [first = '', ...others] = await told(run);
    assert.deepEqual(others, []);
    assert.match(first, /go.*in short/);
  });

  it('the newest one, where a driver has died after it had announced that call, with what the call sets aside', async () => {
    const agent = await engine.agent({ name: newId() });
    engine.say([text('done')]);
    const { run } = await engine.start(agent, 'go', { config: { keep_open: true, budget: { max_steps: 100 } } });
    const { context } = engine;
    const dies: Context['commit'] = async (change) => {
      await context.commit(change);
      throw new Error('the process dies');
    };
    await assert.rejects(engine.drive(run, { ...context, commit: dies }), /the process dies/);
    await steer(run, 'in short');
    await engine.everyoneDies();
    const coming = ['in German'];
    const setAside: number[] = [];
    const commit: Context['commit'] = async (change) => {
      const takes = change.events.some(({ type }) => type === 'message.dequeued');
      const message = takes && coming.shift();
      if (message) await steer(run, message);
      if (takes) setAside.push((change.reservations ?? []).length);
      return context.commit(change);
    };
    await engine.drive(run, { ...context, commit });
    assert.deepEqual(setAside, [1, 1]);
    const [first = '', ...others] = await told(run, 1);
    assert.deepEqual(others, []);
    assert.match(first, /go.*in German/);
    assert.doesNotMatch(first, /in short/);
  });

  it('where that call has waited for its provider', async () => {
    const agent = await engine.agent({
      name: newId(),
      llm_config: { default_model: 'anthropic/claude-haiku-4-5', max_retries: 0 },
    });
    engine.say((_request, n) => (n === 0 ? AWAY : text('done')));
    const run = await start(agent, 'go');
    await engine.drive(run);
    assert.equal((await engine.log(run)).at(-1)?.type, 'model.deferred');
    await steer(run, 'in short');
    await engine.providersBack();
    await engine.finish(run);
    const [, second = '', ...others] = await told(run);
    assert.deepEqual(others, []);
    assert.match(second, /go.*in short/);
  });

  it('where a person was asked whether that call may be paid for', async () => {
    const agent = await engine.agent({ name: newId(), tools: ['calculator'] });
    engine.say([use({ name: 'calculator', input: { expression: '6*7' } }), text('done')]);
    const budget = { max_steps: 4, soft_limit: 0.25, on_soft_limit: 'ask' as const };
    const { run } = await engine.start(agent, 'go', { config: { keep_open: true, budget } });
    await engine.drive(run);
    assert.equal(engine.model.requests.length, 1);
    await steer(run, 'in short');
    const { id } = await wholeApproval(engine, run);
    const { tenantId, caller } = engine;
    const about = { tenantId, workspaceId: caller.workspaceId, id, by: caller };
    await decideApproval(engine.context, about, { decision: 'approve' });
    await engine.finish(run);
    const [, second = '', ...others] = await told(run);
    assert.deepEqual(others, []);
    assert.match(second, /in short/);
  });
});
