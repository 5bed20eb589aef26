import assert from 'node:assert/strict';
import { LIMITS } from '../../../core/limits.ts';
import { claimRun } from '../../../db/claim-run.ts';
import { renewRunLease } from '../../../db/leases.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { claimApart, createSuspectPlace } from '../../../modules/run-log/claim-suspect.ts';
import { driveRun } from '../../../modules/runs/drive.ts';
import { openEngine, text, use, type Engine } from '../../support/engine.ts';
import { toolsOfAgent } from '../../support/queries/agents.ts';
import { holdOfRun, isLeaseOver, statusOfRun } from '../../support/queries/runs.ts';
import { openProcess } from '../../support/killed-process.ts';
import { sayToRun } from '../../support/say-to-run.ts';
import { waitUntil } from '../../support/wait-until.ts';

describe('The lease of a driver', () => {
  let engine: Engine;
  let agent: string;
  before(async () => {
    engine = await openEngine();
    agent = await engine.agent();
  });
  after(() => engine.close());

  /** As if so many processes had died over the run, one after the other. */
  async function lose(run: string, times: number): Promise<void> {
    for (let n = 0; n < times; n += 1) {
      const of = { tenant_id: engine.tenantId, run_id: run, seq: 0, leaseMs: 30_000, known: undefined };
      assert.ok((await claimRun(engine.context.db, of)).ok);
      await engine.everyoneDies();
    }
  }

  it('is renewed by whoever holds the run, and by no driver of before', async () => {
    const { run } = await engine.start(agent, 'hello');
    const { db } = engine.context;
    const claim = () =>
      claimRun(db, { tenant_id: engine.tenantId, run_id: run, seq: 0, leaseMs: 30_000, known: undefined });
    const first = await claim();
    await engine.everyoneDies();
    const second = await claim();
    assert.ok(first.ok && second.ok && second.run.fence > first.run.fence);
    const expiry = async () => (await holdOfRun(engine, run)).lease?.getTime() ?? 0;
    const before = await expiry();
    const renew = (fence: number) =>
      renewRunLease(db, { tenantId: engine.tenantId, runId: run, fence, leaseMs: 60_000 });
    assert.equal(await renew(first.run.fence), false);
    assert.equal(await expiry(), before);
    assert.equal(await renew(second.run.fence), true);
    assert.ok((await expiry()) > before);
  });

  it('is lost at one place ten times in a row at most: then the turn fails, and its model is not paid for again', async () => {
    const asked = engine.model.requests.length;
    engine.say(() => text('hello'));
    const { run: unlucky } = await engine.start(agent, 'hello');
    await lose(unlucky, 9);
    await engine.finish(unlucky);
    assert.equal(await statusOfRun(engine, unlucky), 'completed');
    assert.equal(engine.model.requests.length, asked + 1);
    const { run: stuck } = await engine.start(agent, 'hello');
    await lose(stuck, 10);
    await engine.finish(stuck);
    const failed = (await engine.log(stuck)).find(({ type }) => type === 'turn.failed');
    assert.match(JSON.stringify(failed?.payload), /"code":"leases_lost".*10 times in a row/);
    assert.equal(engine.model.requests.length, asked + 1);
  });

  it('is lost ten times before one turn, and the next one goes on with the same driver', async () => {
    engine.say((request) => text(JSON.stringify(request.messages).includes('again') ? 'hello again' : 'hello'));
    const { run } = await engine.start(agent, 'hello', { config: { keep_open: true } });
    await sayToRun(engine, run, { mode: 'queue', input: { message: 'again' } });
    await lose(run, LIMITS.lostLeases);
    await engine.drive(run);
    const ends = (await engine.log(run)).flatMap(({ type }) => (/^turn\.(failed|completed)$/.test(type) ? [type] : []));
    assert.deepEqual(ends, ['turn.failed', 'turn.completed']);
  });

  it('is lost ten times at a node of a graph, too, which is not entered again', async () => {
    const node = { name: 'sum', type: 'tool' as const, config: { tool: 'calculator', input: { expression: '6 * 7' } } };
    const workflow_graph = { entry_point: 'sum', nodes: [node], edges: [] };
    const { run } = await engine.start(await engine.agent({ tools: ['calculator'], workflow_graph }), 'hello');
    const { context, kill } = openProcess(engine.context);
    // The first commit begins the run; the next one would have it in its node.
    const commit: Context['commit'] = (change) => context.commit(change).finally(kill);
    await assert.rejects(engine.drive(run, { ...context, commit }), /was killed/);
    await engine.everyoneDies();
    await lose(run, LIMITS.lostLeases - 1);
    await engine.finish(run);
    const log = await engine.log(run);
    const failed = log.flatMap((event) => (event.type === 'turn.failed' ? [event.payload.error.code] : []));
    assert.deepEqual(failed, ['leases_lost']);
    assert.ok(log.every(({ type }) => type !== 'node.entered'));
  });

  it('is lost ten times at the end of a node, too, which is not completed', async () => {
    const [note = ''] = await toolsOfAgent(engine, await engine.agent({}, [{ name: 'note', risk_level: 'READ_ONLY' }]));
    const node = { name: 'note', type: 'tool' as const, config: { tool: note, input: {} } };
    const workflow_graph = { entry_point: 'note', nodes: [node], edges: [] };
    const { run } = await engine.start(await engine.agent({ workflow_graph }), 'hello');
    assert.equal(await engine.drive(run), 'yielded');
    assert.deepEqual(await engine.makeCalls(run), [{ kind: 'done' }]);
    await lose(run, LIMITS.lostLeases);
    await engine.finish(run);
    const log = await engine.log(run);
    const failed = log.flatMap((event) => (event.type === 'turn.failed' ? [event.payload.error.code] : []));
    assert.deepEqual(failed, ['leases_lost']);
    assert.ok(log.every(({ type }) => type !== 'node.completed'));
  });

  it('is not counted as lost where its driver gives the run back, nor before what a driver has committed', async () => {
    const { context } = engine;
    engine.say(() => text('hello'));
    const { run } = await engine.start(agent, 'hello');
    const job = { tenantId: engine.tenantId, runId: run, seq: 0 };
    const stop = new AbortController().signal;
    for (let n = 0; n < 12; n += 1) {
      assert.equal((await driveRun(context, job, { stop, draining: () => true })).result, 'yielded');
    }
    await lose(run, 9);
    let commits = 0;
    const commit: Context['commit'] = (change) => {
      commits += 1;
      return commits > 1 ? Promise.reject(new Error('the process died')) : context.commit(change);
    };
    await engine.drive(run, { ...context, commit }).catch(() => undefined);
    await engine.everyoneDies();
    await lose(run, 8);
    await engine.finish(run);
    assert.equal(await statusOfRun(engine, run), 'completed');
    assert.ok(commits > 1);
  });

  it('that was lost three times in a row takes the place of its process, and leaves it where it is not had after all', async () => {
    const { context, tenantId } = engine;
    const { run } = await engine.start(agent, 'hello');
    await lose(run, LIMITS.suspectLeases);
    const suspectPlace = createSuspectPlace();
    const of = { tenant_id: tenantId, run_id: run, seq: 0, leaseMs: 30_000 };
    const before = (act: () => Promise<unknown>): Context['claim'] => {
      return async (claim) => {
        if (claim.suspectFrom === undefined) await act();
        return context.claim(claim);
      };
    };
    const away = before(() => Promise.reject(new Error('the database is away')));
    await assert.rejects(claimApart({ claim: away, suspectPlace }, of), /away/);
    const late = before(() => context.claim(of));
    const { claimed } = await claimApart({ claim: late, suspectPlace }, of);
    assert.equal(claimed.ok ? '' : claimed.why, 'held');
    assert.ok(suspectPlace.take());
  });

  it('ends a model call of a driver that is cut off for longer', async () => {
    let isBrokenOff: () => void = () => undefined;
    const brokenOff = new Promise<void>((resolve) => {
      isBrokenOff = resolve;
    });
    engine.say(() => new Promise(() => undefined));
    const { run } = await engine.start(agent, 'hello');
    const { context } = engine;
    // From the model call on, the database cannot be reached.
    const away = () => Promise.reject(Object.assign(new Error('gone'), { code: 'ECONNREFUSED' }));
    const call: Context['db']['call'] = (statement) =>
      engine.model.requests.length > 0 ? away() : context.db.call(statement);
    const models: Context['models'] = {
      ...context.models,
      resolve: (name) => {
        const resolved = context.models.resolve(name);
        const stream: typeof resolved.stream = (request, options) => {
          options.signal.addEventListener('abort', isBrokenOff);
          return resolved.stream(request, options);
        };
        return { ...resolved, stream };
      },
    };
    const cutOff = { ...context, models, db: { ...context.db, call }, config: { ...context.config, leaseMs: 1500 } };
    assert.equal(await engine.drive(run, cutOff), 'lost');
    await brokenOff;
    engine.say([text('hello again')]);
    await engine.everyoneDies();
    await engine.finish(run);
    assert.equal(await statusOfRun(engine, run), 'completed');
  });

  it('is not asked for by a pure call, which is made although a renewal is late', async () => {
    const { context } = engine;
    const leaseMs = 300;
    const asked = engine.model.requests.length;
    let renew: () => void = () => undefined;
    const renewing = new Promise<void>((resolve) => {
      renew = resolve;
    });
    const call: Context['db']['call'] = async (statement) => {
      if (statement.name === 'renew_run_lease') await renewing;
      return context.db.call(statement);
    };
    const withSum = await engine.agent({ tools: ['calculator'] });
    const { run } = await engine.start(withSum, 'What is 6 * 7?');
    engine.say(async (_, n) => {
      if (n > asked) return text('42');
      await waitUntil('the lease is over', () => isLeaseOver(engine, run));
      return use({ name: 'calculator', input: { expression: '6 * 7' } });
    });
    try {
      await engine.drive(run, { ...context, db: { ...context.db, call }, config: { ...context.config, leaseMs } });
    } finally {
      renew();
    }
    const types = (await engine.log(run)).map(({ type }) => type);
    assert.ok(types.includes('tool.succeeded'), types.join(' '));
  });

  it('is not given up before an answer that was paid for is committed, where the process is to stop', async () => {
    engine.say([text('done')]);
    const { run } = await engine.start(agent, 'hello');
    const stop = new AbortController();
    const { context } = engine;
    const { stepSeconds } = context.metrics;
    // Observed once the answer is there, and before it is committed.
    const observe = () => stop.abort(new Error('the process stops'));
    const metrics = { ...context.metrics, stepSeconds: Object.assign(Object.create(stepSeconds), { observe }) };
    const job = { tenantId: engine.tenantId, runId: run, seq: 0 };
    await driveRun({ ...context, metrics }, job, { stop: stop.signal, draining: () => stop.signal.aborted });
    assert.ok(stop.signal.aborted);
    await engine.finish(run);
    assert.equal(engine.model.requests.length, 1, 'answers that were paid for');
    assert.equal(await statusOfRun(engine, run), 'completed');
  });
});
