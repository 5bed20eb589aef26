import assert from 'node:assert/strict';
import type { Context } from '../../modules/governance/context.ts';
import { createPolicy } from '../../modules/governance/write-policy.ts';
import { rebuildProjections } from '../../modules/run-log/rebuild-projections.ts';
import { startWorkers, type Workers } from '../../workers/start-workers.ts';
import { door, offered, openEngine, text, use, type Engine } from '../support/engine.ts';
import { waitUntil } from '../support/wait-until.ts';
import { statusOfRun } from '../support/queries/runs.ts';
import { callsOfRun } from '../support/queries/tool-calls.ts';

/** The call that a job is for, which carries ids and nothing else. */
function callOf(data: unknown): string {
  assert.ok(JSON.stringify(data).length < 500, 'a large job');
  return String((data as { callId?: unknown }).callId);
}

describe('Locally dispatched tool calls', () => {
  let engine: Engine;
  let workers: Workers | undefined;
  /** Calls that the queue was given. */
  let jobs: string[];

  before(async () => {
    engine = await openEngine();
    const queue = engine.context.queues.queue('tool-calls');
    const add = queue.add.bind(queue);
    queue.add = (name, data, options) => {
      jobs.push(callOf(data));
      return add(name, data, options);
    };
    const addBulk = queue.addBulk.bind(queue);
    queue.addBulk = (added) => {
      jobs.push(...added.map(({ data }) => callOf(data)));
      return addBulk(added);
    };
  });
  beforeEach(() => {
    jobs = [];
    engine.toolsAnswer(() => undefined);
  });
  afterEach(async () => {
    await workers?.stop(5000);
    workers = undefined;
  });
  after(() => engine.close());

  const serve = async (calls: number, changed: Partial<Context> = {}) => {
    const { context } = engine;
    const concurrency = { ...context.config.concurrency, 'tool-calls': calls };
    const config = { ...context.config, queues: ['turns', 'tool-calls'] as const, concurrency };
    workers = await startWorkers({ ...context, config, ...changed });
  };
  const completed = (run: string) =>
    waitUntil(`run ${run} is completed`, async () => (await statusOfRun(engine, run)) === 'completed');
  const callsOf = (run: string) => callsOfRun(engine, run);
  const asksOnce = (count = 1) =>
    engine.say((request) => {
      const calls = Array.from({ length: count }, () => ({ name: offered(request, 'send') }));
      return JSON.stringify(request.messages).includes('tool_result') ? text('done') : use(...calls);
    });

  it('are claimed by the commit that asks for them, and go through no queue', async () => {
    const commits: string[][] = [];
    const commit: Context['commit'] = (change) => {
      commits.push(change.events.map(({ type }) => type));
      return engine.context.commit(change);
    };
    await serve(5, { commit });
    asksOnce(3);
    const { run } = await engine.start(await engine.agent({}, [{ name: 'send' }]), 'hello');
    await completed(run);
    assert.deepEqual(jobs, []);
    assert.deepEqual(
      await callsOf(run),
      [0, 1, 2].map(() => ({ status: 'succeeded', attempt: 1 })),
    );
    const asking = commits.find((types) => types.includes('tool.requested')) ?? [];
    assert.equal(asking.filter((type) => type === 'tool.started').length, 3);
    const ends = commits.filter((types) => types.some((type) => type === 'tool.succeeded'));
    assert.deepEqual([commits.filter((types) => types.includes('tool.started')).length, ends.length], [1, 3]);
    const { differences } = await rebuildProjections(engine.context.db, { check: true });
    assert.deepEqual(differences, []);
  });

  it('are committed with the next step of their run, where they are over soon', async () => {
    const commits: string[][] = [];
    const commit: Context['commit'] = (change) => {
      commits.push(change.events.map(({ type }) => type));
      return engine.context.commit(change);
    };
    await serve(5, { commit });
    asksOnce();
    const { run } = await engine.start(await engine.agent({}, [{ name: 'send' }]), 'hello');
    await completed(run);
    const settled = commits.filter((types) => types.includes('tool.succeeded'));
    assert.deepEqual(settled, [['tool.succeeded', 'model.called']]);
    assert.deepEqual(await callsOf(run), [{ status: 'succeeded', attempt: 1 }]);
  });

  it('that take longer leave the run without a driver, and continue it in the process that remembers it', async () => {
    const known: boolean[] = [];
    const commit: Context['commit'] = (change) => {
      if (change.then_claim) known.push(change.then_claim.known !== undefined);
      return engine.context.commit(change);
    };
    const slow = door();
    engine.toolsAnswer(async () => {
      await slow.pass();
      return { status: 200, body: {} };
    });
    await serve(5, { commit });
    asksOnce();
    const { run } = await engine.start(await engine.agent({}, [{ name: 'send' }]), 'hello');
    await waitUntil('the run is left', async () => (await statusOfRun(engine, run)) === 'awaiting_tool');
    slow.open();
    await completed(run);
    assert.deepEqual(known, [true]);
    assert.deepEqual(await callsOf(run), [{ status: 'succeeded', attempt: 1 }]);
  });

  it('of a process that died while its driver still held the run are sent by the driver that takes over', async () => {
    const dead = door();
    engine.toolsAnswer((_request, n) => (n === 0 ? dead.pass().then(() => ({ status: 200, body: {} })) : undefined));
    await serve(5);
    asksOnce();
    const idempotent = { name: 'send', annotations: { idempotentHint: true } };
    const { run } = await engine.start(await engine.agent({}, [idempotent]), 'hello');
    await dead.reached;
    await engine.everyoneDies();
    assert.equal(await engine.drive(run), 'yielded');
    await completed(run);
    dead.open();
    assert.equal(jobs.length, 1);
    assert.deepEqual(await callsOf(run), [{ status: 'succeeded', attempt: 2 }]);
    const keys = engine.tools.seen.map(({ headers }) => headers['idempotency-key']);
    assert.deepEqual([keys.length, new Set(keys).size], [2, 1]);
  });

  it('are left to a process that lives where another driver looks at their run', async () => {
    const slow = door();
    engine.toolsAnswer(() => slow.pass().then(() => ({ status: 200, body: {} })));
    await serve(5);
    asksOnce();
    const { run } = await engine.start(await engine.agent({}, [{ name: 'send' }]), 'hello');
    await waitUntil('the run is left', async () => (await statusOfRun(engine, run)) === 'awaiting_tool');
    assert.equal(await engine.drive(run), 'dormant');
    slow.open();
    await completed(run);
    assert.deepEqual(jobs, []);
    assert.deepEqual(await callsOf(run), [{ status: 'succeeded', attempt: 1 }]);
  });

  it('settle by themselves what they come to after their driver was lost', async () => {
    let isCut = false;
    const commit: Context['commit'] = (change) => {
      if (!change.events.some(({ type }) => type === 'tool.succeeded') || change.open || isCut)
        return engine.context.commit(change);
      isCut = true;
      return Promise.reject(new Error('a fault of ours'));
    };
    await serve(5, { commit });
    asksOnce();
    const { run } = await engine.start(await engine.agent({}, [{ name: 'send' }]), 'hello');
    await completed(run);
    assert.ok(isCut);
    assert.deepEqual(await callsOf(run), [{ status: 'succeeded', attempt: 1 }]);
    assert.equal(engine.tools.seen.length, 1);
  });

  it('are as many as the process has room for; the rest is sent', async () => {
    await serve(2);
    asksOnce(3);
    const two = door();
    engine.toolsAnswer(async () => {
      if (engine.tools.seen.length === 2) two.open();
      await two.pass();
      return { status: 200, body: {} };
    });
    const { run } = await engine.start(await engine.agent({}, [{ name: 'send' }]), 'hello');
    await completed(run);
    assert.equal(new Set(jobs).size, 1);
    assert.equal(engine.tools.seen.length, 3);
  });

  it('are as many as the process has room for; more than one beyond that are a flow under the turn that follows', async () => {
    await serve(1);
    asksOnce(4);
    const all = door();
    engine.toolsAnswer(async () => {
      await all.pass();
      return { status: 200, body: {} };
    });
    const { run } = await engine.start(await engine.agent({}, [{ name: 'send' }]), 'hello');
    const turns = engine.context.queues.queue('turns');
    const parents = async () => (await turns.getJobs(['waiting-children'])).filter(({ data }) => data.runId === run);
    await waitUntil('the turn waits for its calls', async () => (await parents()).length === 1);
    const [parent] = await parents();
    assert.equal((await parent?.getDependenciesCount())?.unprocessed, 3);
    all.open();
    await completed(run);
    assert.equal(engine.tools.seen.length, 4);
    await waitUntil('nothing waits for children', async () => (await parents()).length === 0);
    const calls = await callsOf(run);
    assert.deepEqual(
      calls,
      calls.map(() => ({ status: 'succeeded', attempt: 1 })),
    );
  });

  it('go to the queue where they are to be made again', async () => {
    await serve(2);
    asksOnce();
    engine.toolsAnswer((_request, n) => Promise.resolve({ status: n === 0 ? 503 : 200, body: {} }));
    const retrying = {
      name: 'send',
      annotations: { idempotentHint: true },
      execution: { retry_config: { max_retries: 2, backoff_ms: 1 } },
    };
    const { run } = await engine.start(await engine.agent({}, [retrying]), 'hello');
    await completed(run);
    assert.deepEqual(await callsOf(run), [{ status: 'succeeded', attempt: 2 }]);
    assert.equal(jobs.length, 1);
  });

  it('are given back where their driver fails after the commit and before them, and made once after that', async () => {
    let failures = 0;
    const commit: Context['commit'] = async (change) => {
      const result = await engine.context.commit(change);
      if (failures > 0 || !change.events.some(({ type }) => type === 'tool.started')) return result;
      failures++;
      throw new Error('a fault of ours');
    };
    await serve(5, { commit });
    asksOnce();
    const { run } = await engine.start(await engine.agent({}, [{ name: 'send' }]), 'hello');
    await waitUntil('the claim is given back', async () => (await callsOf(run))[0]?.status === 'pending');
    assert.equal(engine.tools.seen.length, 0);
    await engine.makeCalls(run);
    await completed(run);
    assert.equal(engine.tools.seen.length, 1);
    assert.deepEqual(await callsOf(run), [{ status: 'succeeded', attempt: 2 }]);
  });

  it('are made once where the answer to the commit is lost with the connection', async () => {
    let cuts = 0;
    const commit: Context['commit'] = async (change) => {
      const result = await engine.context.commit(change);
      if (cuts > 0 || !change.events.some(({ type }) => type === 'tool.started')) return result;
      cuts++;
      throw Object.assign(new Error('gone'), { code: 'ECONNRESET' });
    };
    await serve(5, { commit });
    asksOnce();
    const { run } = await engine.start(await engine.agent({}, [{ name: 'send' }]), 'hello');
    await completed(run);
    assert.equal(engine.tools.seen.length, 1);
    assert.deepEqual(await callsOf(run), [{ status: 'succeeded', attempt: 1 }]);
  });

  it('pass the gate again where the policies have changed by the commit, and are not made where it refuses them', async () => {
    const { context, caller } = engine;
    let isForbidden = false;
    const commit: Context['commit'] = async (change) => {
      if (!isForbidden && change.events.some(({ type }) => type === 'tool.started')) {
        isForbidden = true;
        const rule = {
          name: `never ${change.run_id}`,
          priority: 1,
          when: 'agent.name == "guarded"',
          decision: 'block' as const,
          reason: 'no',
        };
        await context.db.withTenant(caller.tenantId, (tx) => createPolicy(tx, caller, rule));
      }
      return context.commit(change);
    };
    await serve(5, { commit });
    asksOnce();
    const { run } = await engine.start(await engine.agent({ name: 'guarded' }, [{ name: 'send' }]), 'hello');
    await completed(run);
    assert.deepEqual(await callsOf(run), [{ status: 'denied', attempt: 0 }]);
    assert.equal(engine.tools.seen.length, 0);
  });

  it('go on elsewhere where their process dies after the commit, as far as their tool allows that', async () => {
    await serve(1);
    await workers?.stop(5000);
    const { context } = engine;
    const dead = { make: () => undefined, leave: () => undefined };
    asksOnce();
    const harmless = [{ name: 'send', annotations: { idempotentHint: true } }];
    const { run } = await engine.start(await engine.agent({}, harmless), 'hello');
    await engine.drive(run, { ...context, outbox: { ...context.outbox, reserveCallSlot: () => dead } });
    assert.deepEqual(await callsOf(run), [{ status: 'running', attempt: 1 }]);
    await engine.everyoneDies();
    await engine.makeCalls(run);
    await engine.finish(run);
    assert.deepEqual(await callsOf(run), [{ status: 'succeeded', attempt: 2 }]);
    assert.equal(engine.tools.seen.length, 1);
  });
});
