import assert from 'node:assert/strict';
import { ALL_READ, claimRun, loadRun, type CachedPosition } from '../../../db/claim-run.ts';
import { carryOn, positionOf, type CachedRun } from '../../../modules/run-log/run-cache.ts';
import { restore } from '../../../modules/runs/driver/load.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { createRunCache } from '../../../modules/run-log/run-cache.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { openEngine, text, use, type Engine } from '../../support/engine.ts';

const calculate = (expression: string) => use({ name: 'calculator', input: { expression } });

describe('What a process knows of a run', () => {
  let engine: Engine;
  let agent: string;
  let cachedAt: CachedRun | undefined;

  /** Drives as the engine does, and shows what the process knew before the next claim. */
  const spying = (): Context => {
    const { runCache } = engine.context;
    const take = (run: string) => {
      cachedAt = runCache.take(run);
      return cachedAt;
    };
    return { ...engine.context, runCache: { ...runCache, take } };
  };

  before(async () => {
    engine = await openEngine();
    agent = await engine.agent({ tools: ['calculator'] }, [{ name: 'fetch' }]);
  });

  after(() => engine.close());

  const fetches = () => (request: { tools?: { name: string }[] }) => {
    const name = request.tools?.find((tool) => tool.name.startsWith('fetch'))?.name;
    assert.ok(name);
    return use({ name });
  };

  /** Drives a run through a turn in which a worker makes a call; the run is dormant afterwards. */
  async function dormantRun(): Promise<string> {
    engine.say((request, n) => (n === 0 ? fetches()(request) : text('done')));
    const { run } = await engine.start(agent, 'first', { config: { keep_open: true } });
    await engine.finish(run);
    return run;
  }

  const cold = async (run: string) => {
    const loaded = await loadRun(engine.context.db, { tenant_id: engine.tenantId, run_id: run });
    assert.ok(loaded.ok);
    const { state } = await restore((ref) => loadRun(engine.context.db, ref), loaded);
    return { state, messages: loaded.messages, at: loaded.events.at(-1)?.occurred_at };
  };

  const warm = async (run: string, cached: CachedRun, position: CachedPosition = positionOf(cached)) => {
    const loaded = await loadRun(engine.context.db, { tenant_id: engine.tenantId, run_id: run, known: position });
    assert.ok(loaded.ok);
    return { loaded, position: await carryOn(cached, loaded) };
  };

  it('is, with what came after, what the rows give', async () => {
    const run = await dormantRun();
    await engine.post(agent, run, 'second');
    engine.say((request, n) => (n === 0 ? fetches()(request) : text('done')));
    const context = spying();
    for (let round = 0; (await engine.drive(run, context)) === 'yielded'; round++) {
      assert.ok(cachedAt, `round ${round}`);
      const { position, loaded } = await warm(run, cachedAt);
      const { state, messages } = await cold(run);
      assert.ok(position);
      assert.ok(loaded.messages.length < messages.length);
      assert.deepEqual(position.state, state);
      assert.deepEqual(position.messages, messages);
      await engine.makeCalls(run);
    }
  });

  it('is not needed: the model is sent the same without it', async () => {
    const bodies: unknown[] = [];
    for (const forgets of [false, true]) {
      engine.say((request, n) => (n < 3 ? fetches()(request) : text('done')));
      const { run } = await engine.start(agent, 'the same');
      while ((await engine.drive(run)) === 'yielded') {
        if (forgets) engine.context.runCache.clear();
        await engine.makeCalls(run);
      }
      bodies.push(
        engine.model.requests.map(({ body }) => JSON.stringify(body['messages']).replaceAll(/toolu_\w+/g, '')),
      );
    }
    assert.deepEqual(bodies[0], bodies[1]);
  });

  it('is left aside where the log is another one', async () => {
    const run = await dormantRun();
    const cached = engine.context.runCache.take(run);
    assert.ok(cached);
    assert.ok((await warm(run, cached)).position);
    const later = { ...cached, at: new Date(0).toISOString() };
    assert.equal((await warm(run, later)).position, null);
    engine.context.runCache.keep(run, later);
    await engine.post(agent, run, 'second');
    engine.say([calculate('1 + 1'), text('two')]);
    assert.equal(await engine.drive(run), 'dormant');
    assert.equal((await cold(run)).messages.length, 8);
  });

  it('is left aside where the log is shorter, as in a database that was restored', async () => {
    const run = await dormantRun();
    const cached = engine.context.runCache.take(run);
    assert.ok(cached);
    const { seq, length } = positionOf(cached);
    for (const position of [
      { seq: seq + 1, length },
      { seq, length: length + 1 },
    ]) {
      const claimed = await loadRun(engine.context.db, {
        tenant_id: engine.tenantId,
        run_id: run,
        known: { ...position, calls: [] },
      });
      assert.ok(claimed.ok);
      assert.equal(claimed.from, null);
      assert.equal(claimed.messages.length, length);
    }
  });

  it('shows another outcome of a call whose outcome was unknown', async () => {
    engine.say((request, n) => (n === 0 ? fetches()(request) : text('done')));
    const { run } = await engine.start(agent, 'first');
    assert.equal(await engine.drive(run), 'yielded');
    const cached = engine.context.runCache.take(run);
    assert.ok(cached);
    await engine.makeCalls(run);
    const { position } = await warm(run, cached);
    assert.deepEqual(Object.values(position?.messages.at(-1)?.outcomes ?? {}), [
      { status: 'succeeded', output: { ok: true }, is_error: false },
    ]);
    assert.deepEqual(Object.values(cached.messages.at(-1)?.outcomes ?? {})[0]?.status, 'pending');
    const claimed = await claimRun(engine.context.db, {
      tenant_id: engine.tenantId,
      run_id: run,
      seq: 0,
      leaseMs: 1000,
    });
    assert.ok(claimed.ok);
  });

  const entry = (bytes: number): CachedRun => {
    const content = [{ type: 'text' as const, text: 'x'.repeat(bytes) }];
    const messages = bytes > 0 ? [{ ordinal: 0, role: 'user' as const, content, chain: '', outcomes: null }] : [];
    return { state: {}, messages, before: ALL_READ } as unknown as CachedRun;
  };

  it('is forgotten with the run that was driven longest ago, and by a drive that takes it', () => {
    const runs = createRunCache({ most: 2 });
    for (const run of ['a', 'b', 'a', 'c']) runs.keep(run, entry(0));
    assert.deepEqual(
      ['a', 'b', 'c', 'c'].map((run) => runs.take(run) !== undefined),
      [true, false, true, false],
    );
  });

  it('is forgotten after its time, although nobody drives it', async () => {
    const runs = createRunCache({ forMs: 20 });
    runs.keep('a', entry(10));
    assert.ok(runs.position('a'));
    await waitUntil('it is gone', () => runs.position('a') === undefined);
  });

  it('has a bound of bytes over all runs, and a long conversation has its place in it', () => {
    const runs = createRunCache({ most: 10, mostBytes: 1_000_000 });
    for (const run of ['a', 'b', 'c']) runs.keep(run, entry(400_000));
    runs.keep('too long', entry(1_100_000));
    assert.deepEqual(
      ['a', 'b', 'c', 'too long'].map((run) => runs.position(run) !== undefined),
      [false, true, true, false],
    );
  });
});
