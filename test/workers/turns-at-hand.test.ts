import assert from 'node:assert/strict';
import type { Context } from '../../engine/context.ts';
import { createRun } from '../../services/create-run.ts';
import { createTurnSlots } from '../../workers/turn-slots.ts';
import { startWorkers, type Workers } from '../../workers/start-workers.ts';
import { door, offered, openEngine, text, use, type Engine } from '../support/engine.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('Turns at hand', () => {
  let engine: Engine;
  let workers: Workers | undefined;
  /** Jobs that the queue was given. */
  let jobs: string[];

  before(async () => {
    engine = await openEngine();
    const queue = engine.context.queues.queue('turns');
    const add = queue.add.bind(queue);
    queue.add = async (name, data, options) => {
      jobs.push((data as { run: string }).run);
      return add(name, data, options);
    };
  });

  beforeEach(() => {
    jobs = [];
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

  const completed = (run: string) =>
    waitUntil(`run ${run} is completed`, async () => {
      const { status } = await engine.row<{ status: string }>('select status from runs where id = $1', run);
      return status === 'completed';
    });

  it('are driven by the process that has written them, and go through no queue', async () => {
    await serve(2);
    const agent = await engine.agent({}, [{ name: 'queued' }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'queued') }) : text('done')));
    const { run } = await engine.start(agent, 'hello');
    await completed(run);
    assert.deepEqual(jobs, []);
    assert.equal(engine.tools.seen.length, 1);
    await waitUntil('nothing is left to send', async () => (await engine.rows('select from outbox')).length === 0);
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

  it('go to the queue when they fail for a fault of ours, and are driven from there', async () => {
    let faults = 0;
    await serve(2, {
      commit: async (change) => {
        if (faults++ === 0) throw new Error('a fault of ours');
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
    const { context, tenant, platform } = engine;
    const killed = { ...context, outbox: { ...context.outbox, send: () => undefined } };
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
    await waitUntil('it is in the queue', () => jobs.length > 0);
    await serve(2);
    await completed(run);
    assert.deepEqual(jobs, [run]);
  });
});

describe('Slots for turns', () => {
  it('are given in the order of asking, and none at hand while somebody waits', async () => {
    const slots = createTurnSlots(1);
    const order: string[] = [];
    const leave = slots.tryEnter();
    assert.ok(leave);
    const waiting = ['a', 'b'].map(async (name) => {
      const leaveIt = await slots.enter();
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
});
