import assert from 'node:assert/strict';
import { setTimeout } from 'node:timers/promises';
import { Queue } from 'bullmq';
import type { Context } from '../../modules/governance/context.ts';
import { createRun } from '../../modules/runs/create-run.ts';
import { rebuildProjections } from '../../modules/run-log/rebuild-projections.ts';
import { reconcile } from '../../modules/run-log/reconcile.ts';
import { setSuspension } from '../../modules/governance/suspend.ts';
import { updateAgent } from '../../modules/agents/update-agent.ts';
import { createProcessSlots } from '../../workers/process-slots.ts';
import { startWorkers, type Workers } from '../../workers/start-workers.ts';
import { door, offered, openEngine, text, use, type Engine } from '../support/engine.ts';
import { waitUntil } from '../support/wait-until.ts';
import { unsentJobs } from '../support/queries/outbox.ts';
import { countRunsOf, extendLease, fenceOfRun, heldRuns, statusOfRun, storedRun } from '../support/queries/runs.ts';
import { callsOfRun } from '../support/queries/tool-calls.ts';

describe('Locally dispatched turns', () => {
  let engine: Engine;
  let workers: Workers | undefined;
  /** Jobs that the queue was given, and those that it has. */
  let jobs: string[];
  let taken: string[];

  before(async () => {
    engine = await openEngine();
    const queue = engine.context.queues.queue('turns');
    const add = queue.add.bind(queue);
    queue.add = async (name, data, options) => {
      const { runId } = data as { runId: string };
      jobs.push(runId);
      const job = await add(name, data, options);
      taken.push(runId);
      return job;
    };
  });

  beforeEach(async () => {
    [jobs, taken] = [[], []];
    await outboxEmpty();
  });

  afterEach(async () => {
    await workers?.stop(5000);
    workers = undefined;
  });

  after(() => engine.close());

  const serve = async (turns: number, changed: Partial<Context> = {}) => {
    const { context } = engine;
    const concurrency = { ...context.config.concurrency, turns };
    const config = { ...context.config, queues: ['turns', 'tool-calls'] as const, concurrency };
    workers = await startWorkers({ ...context, config, ...changed });
  };

  /** How many turns and calls get a job. */
  const sentAnew = async () => {
    const { turns, 'tool-calls': calls } = await reconcile(engine.context, 0, engine.tenantId);
    return [turns, calls];
  };
  const completed = (run: string) =>
    waitUntil(`run ${run} is completed`, async () => {
      const status = await statusOfRun(engine, run);
      return status === 'completed';
    });

  /** A job that was sent leaves the outbox a moment later. */
  const outboxEmpty = () => waitUntil('the outbox is empty', async () => (await unsentJobs(engine)).length === 0);

  it('are driven by the process that has written them, and go through no queue', async () => {
    await serve(2);
    const agent = await engine.agent({}, [{ name: 'queued' }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'queued') }) : text('done')));
    const { run } = await engine.start(agent, 'hello');
    await completed(run);
    assert.deepEqual(jobs, []);
    assert.equal(engine.tools.seen.length, 1);
    await outboxEmpty();
  });

  it('leave the one slot that there is, where two calls of an answer end at the same time', async () => {
    await serve(1);
    const agent = await engine.agent({}, [{ name: 'queued' }]);
    engine.say((request) => {
      const name = offered(request, 'queued');
      return JSON.stringify(request.messages).includes('tool_result') ? text('done') : use({ name }, { name });
    });
    const isLeft = async () => (await heldRuns(engine.context.db)).length === 0;
    for (const message of ['first', 'second']) {
      const both = door();
      engine.toolsAnswer(async (_request, n) => {
        if (n === 1) {
          // So that they are settled by themselves, each of which may drive the run on.
          await waitUntil('no driver waits for them', isLeft);
          both.open();
        }
        await both.pass();
        return { status: 200, body: {} };
      });
      const { run } = await engine.start(agent, message);
      await completed(run);
    }
    engine.toolsAnswer(() => undefined);
  });

  it('are claimed by the commit that creates the run, and by that of the last call that it waits for', async () => {
    const claims: string[] = [];
    await serve(2, {
      claim: (claim) => {
        claims.push(claim.run_id);
        return engine.context.claim(claim);
      },
    });
    const agent = await engine.agent({}, [{ name: 'queued' }]);
    const unsent: unknown[] = [];
    engine.say(async (request, n) => {
      unsent.push(...(await unsentJobs(engine, 'turns')));
      return n === 0 ? use({ name: offered(request, 'queued') }) : text('done');
    });
    const slow = door();
    engine.toolsAnswer(async () => {
      await slow.pass();
      return { status: 200, body: {} };
    });
    const { run } = await engine.start(agent, 'hello');
    await waitUntil('the run is left', async () => (await statusOfRun(engine, run)) === 'awaiting_tool');
    slow.open();
    await completed(run);
    engine.toolsAnswer(() => undefined);
    assert.deepEqual({ claims, unsent, jobs }, { claims: [], unsent: [], jobs: [] });
    const fence = await fenceOfRun(engine, run);
    assert.equal(fence, 2);
  });

  it('are written with the run by its driver, up to the first model call, and go on elsewhere when it dies there', async () => {
    await serve(2);
    const agent = await engine.agent();
    const gate = door();
    engine.say(async (_request, n) => {
      if (n === 0) await gate.pass();
      return text(n === 0 ? 'too late' : 'done');
    });
    const { run } = await engine.start(agent, 'hello');
    await gate.reached;
    const log = await engine.log(run);
    const changes = ['run.status_changed', 'run.status_changed', 'run.status_changed'];
    assert.deepEqual(
      log.map(({ type }) => type),
      ['run.created', 'turn.started', 'run.started', ...changes, 'model.called'],
    );
    assert.equal(new Set(log.map(({ occurred_at }) => occurred_at)).size, 1, 'it took more than one commit');
    assert.deepEqual(await sentAnew(), [0, 0]);
    await engine.everyoneDies();
    assert.deepEqual(await sentAnew(), [1, 0]);
    await completed(run);
    gate.open();
    assert.deepEqual(
      (await engine.conversation(run)).map(({ content }) => content),
      [[{ type: 'text', text: 'hello' }], [{ type: 'text', text: 'done' }]],
    );
  });

  it('start with the agent as it is when the run is created, whatever happens while it is', async () => {
    const agent = await engine.agent({ system_prompt: 'before' });
    const { db } = engine.context;
    const patch = (system_prompt: string) =>
      db.withTenant(engine.tenantId, (tx) => updateAgent(tx, engine.caller, { id: agent, patch: { system_prompt } }));
    let creations = 0;
    await serve(2, {
      commit: async (change) => {
        if (change.create && creations++ === 0) await patch('after');
        return engine.context.commit(change);
      },
    });
    engine.say([text('done')]);
    const { run } = await engine.start(agent, 'hello');
    await completed(run);
    const { agent_version } = await storedRun(engine, run);
    assert.deepEqual({ creations, agent_version }, { creations: 2, agent_version: '1.1.0' });
  });

  it('keep a run that takes longer to create than a lease is renewed', async () => {
    const config = { ...engine.context.config, leaseMs: 150, queues: ['turns'] as const };
    const renewals: string[] = [];
    const db = Object.create(engine.context.db) as Context['db'];
    db.call = (statement) => {
      renewals.push(statement.name);
      return engine.context.db.call(statement);
    };
    const renewed = () => renewals.filter((name) => name === 'renew_run_lease').length;
    let late = 0;
    workers = await startWorkers({
      ...engine.context,
      db,
      config,
      commit: async (change) => {
        // As long as two renewals take to be due, of a lease that nobody has yet: that none is tried only time can show.
        if (change.create) await setTimeout(120);
        if (change.create) late = renewed();
        return engine.context.commit(change);
      },
    });
    const agent = await engine.agent();
    engine.say(async () => {
      await waitUntil('the lease is renewed', () => renewed() > 0);
      return text('done');
    });
    const { run } = await engine.start(agent, 'hello');
    await completed(run);
    const fence = await fenceOfRun(engine, run);
    assert.deepEqual({ late, fence, requests: engine.model.requests.length }, { late: 0, fence: 1, requests: 1 });
  });

  it('go on elsewhere where their process dies between the commit that claims the run and the drive', async () => {
    const { context } = engine;
    const agent = await engine.agent({}, [{ name: 'queued' }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'queued') }) : text('done')));
    const { run } = await engine.start(agent, 'hello');
    await outboxEmpty();
    assert.equal(await engine.drive(run), 'yielded');
    const never = () => new Promise(() => undefined);
    const slot = { drive: never, leave: () => assert.fail('the run was not claimed') };
    await engine.makeCalls(run, { ...context, outbox: { ...context.outbox, reserveSlot: () => slot, drive: never } });
    assert.deepEqual(await unsentJobs(engine, 'turns'), []);
    await serve(2);
    assert.deepEqual(await sentAnew(), [0, 0]);
    await engine.everyoneDies();
    assert.deepEqual(await sentAnew(), [1, 0]);
    await completed(run);
  });

  it('fail, pause and complete with rows that their logs give, whoever has created them', async () => {
    await serve(4);
    const status = async (run: string) => await statusOfRun(engine, run);
    const suspend = (id: string, held: boolean) =>
      setSuspension(engine.context, engine.caller, { kind: 'agent', id, suspended: held });
    const failing = await engine.agent({ llm_config: { default_model: 'gpt-5' } });
    const failed = await engine.start(failing, 'hello');
    assert.equal(await status(failed.run), 'failed');
    const suspended = await engine.agent();
    await suspend(suspended, true);
    engine.say(() => text('done'));
    const paused = await engine.start(suspended, 'hello');
    assert.deepEqual([await status(paused.run), engine.model.requests.length], ['created', 0]);
    const done = await engine.start(await engine.agent(), 'hello');
    await completed(done.run);
    const { differences } = await rebuildProjections(engine.context.db, { check: true });
    assert.deepEqual(differences, []);
    await suspend(suspended, false);
    await completed(paused.run);
  });

  it('are refused with the run where it cannot be created, and leave nothing', async () => {
    const agent = await engine.agent();
    await serve(1, { commit: () => Promise.reject(new Error('a fault of ours')) });
    await assert.rejects(engine.start(agent, 'hello'), /a fault of ours/);
    await workers?.stop(5000);
    await serve(1);
    engine.say([text('done')]);
    const { run } = await engine.start(agent, 'again');
    await completed(run);
    assert.equal(await countRunsOf(engine, agent), 1);
  });

  it('are refused with the run as unavailable where the process stops before it is created', async () => {
    const { governance, models } = engine.context;
    const gate = door();
    let isGated = false;
    const at = async (...asked: Parameters<typeof governance.at>) => {
      if (isGated) await gate.pass();
      return governance.at(...asked);
    };
    // A turn that is in its model call hears the deadline of the stop.
    let isOver = false;
    const resolve: typeof models.resolve = (name) => {
      const resolved = models.resolve(name);
      const stream: typeof resolved.stream = (request, options) => {
        options.signal.addEventListener('abort', () => (isOver = true));
        return resolved.stream(request, options);
      };
      return { ...resolved, stream };
    };
    const asked = door();
    engine.say(async () => {
      await asked.pass();
      return text('too late');
    });
    await serve(2, { governance: { ...governance, at }, models: { ...models, resolve } });
    const { run } = await engine.start(await engine.agent(), 'hello');
    await asked.reached;
    const agent = await engine.agent();
    isGated = true;
    const refused = assert.rejects(engine.start(agent, 'hello'), { code: 'unavailable', status: 503 });
    await gate.reached;
    const stopped = workers?.stop(0);
    await waitUntil('the time for the stop is over', () => isOver);
    gate.open();
    await Promise.all([refused, stopped]);
    assert.equal(await countRunsOf(engine, agent), 0);
    asked.open();
    engine.say([text('done')]);
    await engine.finish(run);
  });

  it('are sent as jobs after all if somebody else holds the run that the last call continues', async () => {
    await serve(2);
    const agent = await engine.agent({}, [{ name: 'queued' }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'queued') }) : text('done')));
    const gate = door();
    engine.toolsAnswer(async () => {
      await gate.pass();
      return { status: 200, body: {} };
    });
    const { run } = await engine.start(agent, 'hello');
    await gate.reached;
    await extendLease(engine, run);
    gate.open();
    await waitUntil('the call has succeeded', async () => {
      const calls = await callsOfRun(engine, run);
      return calls.filter(({ status }) => status === 'succeeded').length === 1;
    });
    // Dispatched locally from the outbox, it finds the run held: a driver that goes on, or one whose lease runs out.
    await outboxEmpty();
    await engine.everyoneDies();
    await reconcile(engine.context, 0, engine.tenantId);
    await completed(run);
  });

  it('wait in the queue where the process drives as many as it may', async () => {
    await serve(1);
    const agent = await engine.agent();
    const gate = door();
    engine.say(async () => {
      await gate.pass();
      return text('done');
    });
    const first = await engine.start(agent, 'first');
    await gate.reached;
    const second = await engine.start(agent, 'second');
    await waitUntil('the second is in the queue', () => jobs.length > 0);
    gate.open();
    await completed(first.run);
    await completed(second.run);
    assert.deepEqual(jobs, [second.run]);
  });

  it('hold up no job that another process can take', async () => {
    await serve(1);
    const busy = workers;
    const agent = await engine.agent();
    const gate = door();
    engine.say(async (_request, n) => {
      if (n === 0) await gate.pass();
      return text('done');
    });
    const first = await engine.start(agent, 'first');
    await gate.reached;
    const second = await engine.start(agent, 'second');
    await waitUntil('the first process has taken the job once', async () => {
      const job = await engine.context.queues.queue('turns').getJobs(['active', 'delayed']);
      return job.some(({ data }) => (data as { runId: string }).runId === second.run);
    });
    await serve(1);
    try {
      await completed(second.run);
      assert.notEqual(await statusOfRun(engine, first.run), 'completed');
    } finally {
      gate.open();
      await completed(first.run);
      await busy?.stop(5000);
    }
  });

  it('go to the queue when they fail for a fault of ours, and are driven from there', async () => {
    let faults = 0;
    await serve(2, {
      commit: async (change) => {
        if (!change.create && faults++ === 0) throw new Error('a fault of ours');
        return engine.context.commit(change);
      },
    });
    const agent = await engine.agent();
    engine.say([text('done')]);
    const { run } = await engine.start(agent, 'hello');
    await completed(run);
    assert.deepEqual(jobs, [run]);
  });

  it('are not taken from what a sweep finds, which another build may have written', async () => {
    await serve(2);
    const agent = await engine.agent();
    engine.say([text('done')]);
    const { context, tenantId: tenant, platform } = engine;
    const killed = {
      ...context,
      outbox: { ...context.outbox, send: () => Promise.resolve(), reserveSlot: () => undefined },
    };
    const { body } = await createRun(killed, {
      tenantId: tenant,
      workspaceId: platform.workspaceId,
      agentId: agent,
      input: { message: 'hello' },
      config: {},
      mayRaiseAutonomy: false,
      idempotency: { tenantId: tenant, route: 'test', body: null },
    });
    assert.equal(await context.outbox.sweep(0), 1);
    assert.deepEqual(jobs, [body.run_id]);
    await completed(body.run_id);
  });

  it('go to the queue when the process is about to stop', async () => {
    await serve(2);
    await workers?.stop(5000);
    const agent = await engine.agent();
    engine.say([text('done')]);
    const { run } = await engine.start(agent, 'hello');
    await waitUntil('it is in the queue', () => taken.length > 0);
    await serve(2);
    await completed(run);
    assert.deepEqual(jobs, [run]);
  });

  it('wait in the queue while it is paused, at another process too, and so do calls', async () => {
    const { queues } = engine.context;
    const agent = await engine.agent({}, [{ name: 'held' }]);
    const made = engine.tools.seen.length;
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'held') }) : text('done')));
    // As another process does it: without a word to this one, but what it looks for.
    const elsewhere = new Queue('turns', queues.queue('turns').opts);
    try {
      await queues.queue('tool-calls').pause();
      await serve(2);
      await elsewhere.pause();
      await waitUntil('the pause is seen', async () => {
        const slot = engine.context.outbox.reserveSlot(engine.tenantId);
        slot?.leave();
        return slot === undefined;
      });
      const { run } = await engine.start(agent, 'hello');
      await waitUntil('the turn is in the queue', () => jobs.includes(run));
      assert.equal(engine.model.requests.length, 0);
      await elsewhere.resume();
      await waitUntil(
        'the call is in the queue',
        async () => (await queues.queue('tool-calls').getPrioritizedCount()) > 0,
      );
      assert.equal(engine.tools.seen.length, made);
      await queues.queue('tool-calls').resume();
      await completed(run);
      assert.equal(engine.tools.seen.length, made + 1);
    } finally {
      for (const name of ['turns', 'tool-calls']) await queues.queue(name).resume();
      await elsewhere.close();
    }
  });
});

const LONG_MS = 60_000;

describe('Slots for turns', () => {
  it('are given in the order of asking, and none dispatched locally while somebody waits', async () => {
    const slots = createProcessSlots(1);
    const order: string[] = [];
    const leave = slots.tryEnter();
    assert.ok(leave);
    const waiting = ['a', 'b'].map(async (name) => {
      const leaveIt = await slots.enter(LONG_MS);
      assert.ok(leaveIt);
      order.push(name);
      assert.equal(slots.tryEnter(), undefined);
      leaveIt();
    });
    assert.equal(slots.tryEnter(), undefined);
    leave();
    leave();
    await Promise.all(waiting);
    assert.deepEqual(order, ['a', 'b']);
    assert.ok(slots.tryEnter());
    assert.equal(slots.tryEnter(), undefined, 'a slot was given back twice');
  });

  it('are kept for the queue once a job has found none', async () => {
    const slots = createProcessSlots(1);
    const leave = slots.tryEnter();
    assert.equal(await slots.enter(1), undefined);
    leave?.();
    assert.equal(slots.tryEnter(), undefined);
    assert.ok(await slots.enter(LONG_MS));
  });
});
