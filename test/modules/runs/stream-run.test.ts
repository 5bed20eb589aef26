import assert from 'node:assert/strict';
import { EVENT_TYPES } from '../../../core/events.ts';
import { LIMITS } from '../../../core/limits.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { completeRun } from '../../../modules/runs/end-run.ts';
import { streamRun } from '../../../modules/runs/stream-run.ts';
import { openEngine, offered, text, use, type Engine } from '../../support/engine.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { firstTurnOf } from '../../support/queries/runs.ts';

describe('the stream of a run', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  /** The context, with somebody who sees each look at the run and may change what it finds. */
  const reading = (onRun: (rows: object[]) => object[]): Context => {
    const { db } = engine.context;
    return {
      ...engine.context,
      db: {
        ...db,
        withTenant: (tenant, work) =>
          db.withTenant(tenant, (tx) =>
            work({
              async query<R extends object>(sql: string, values?: readonly unknown[]) {
                const rows = await tx.query<R>(sql, values);
                return /from runs r/.test(sql) ? (onRun(rows) as R[]) : rows;
              },
            }),
          ),
      },
    };
  };

  it('looks at the log once from a position that the run has not reached, and again when the run has ended', async () => {
    const { run } = await engine.start(await engine.agent(), '', { input: undefined, config: {} });
    let looks = 0;
    const watched = reading((rows) => {
      looks += 1;
      return rows;
    });
    const { signal } = new AbortController();
    const beyond = { tenantId: engine.tenantId, runId: run, after: 1000, types: EVENT_TYPES, signal };
    const read = collect(streamRun(watched, beyond));
    await waitUntil('it has looked', () => looks === 1);
    await completeRun(engine.context, { tenantId: engine.tenantId, runId: run });
    // Nobody tells it, since it waits for what comes much later: it is found.
    assert.deepEqual(await read, []);
    assert.equal(looks, 2);
  });

  it('ends at once where the run ends between its look at the run and its look at the log', async () => {
    const agent = await engine.agent({}, [{ name: 'note' }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'note') }) : text('noted')));
    const { run } = await engine.start(agent, 'note it');
    await engine.drive(run);
    // What a look at the run finds now, to be found once more when the run has ended.
    let stale: object[] | undefined;
    const look = new AbortController();
    const early = reading((rows) => {
      stale = rows;
      look.abort();
      return rows;
    });
    await collect(
      streamRun(early, { tenantId: engine.tenantId, runId: run, after: 0, types: EVENT_TYPES, signal: look.signal }),
    );
    assert.ok(stale);
    await engine.makeCalls(run);
    await engine.finish(run);

    let looks = 0;
    const startedMs = Date.now();
    const late = reading((rows) => (looks++ === 0 && stale ? stale : rows));
    const { signal } = new AbortController();
    const events = await collect(
      streamRun(late, { tenantId: engine.tenantId, runId: run, after: 0, types: EVENT_TYPES, signal }),
    );
    assert.ok(Date.now() - startedMs < LIMITS.streamPollSeconds * 1000);
    assert.equal(looks, 2);
    assert.equal(events.filter((item) => item.kind === 'logged' && item.event.type === 'turn.completed').length, 1);
    assert.deepEqual(
      events,
      await collect(
        streamRun(engine.context, { tenantId: engine.tenantId, runId: run, after: 0, types: EVENT_TYPES, signal }),
      ),
    );
  });

  it('leaves out a piece of an answer that comes after the answer', async () => {
    const agent = await engine.agent({}, [{ name: 'note' }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'note') }) : text('noted')));
    const { run } = await engine.start(agent, 'note it');
    await engine.drive(run);
    const { bus, db } = engine.context;
    const turnId = await firstTurnOf(engine, run);
    const stop = new AbortController();
    const request = { tenantId: engine.tenantId, runId: run, after: 0, types: EVENT_TYPES, signal: stop.signal };
    const publish = (step: number) =>
      bus.publish({ kind: 'delta', runId: run, turnId, step, delta: { type: 'text', text: `of step ${step}` } });
    const steps: number[] = [];
    // Its listener is there before the first look into the log; the pieces come when the log has been read.
    let looks = 0;
    const withTenant: typeof db.withTenant = async (tenant, work) => {
      const result = await db.withTenant(tenant, work);
      if (looks++ === 0) for (const step of [1, 2]) publish(step);
      return result;
    };
    for await (const item of streamRun({ ...engine.context, db: { ...db, withTenant } }, request)) {
      if (item.kind === 'delta') steps.push(item.step);
      if (item.kind === 'delta' && item.step === 2) stop.abort();
    }
    assert.deepEqual(steps, [2]);
  });

  it('shows the pieces of an answer that came while the log was read, before the answer', async () => {
    const agent = await engine.agent({}, [{ name: 'note' }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'note') }) : text('noted')));
    const { run } = await engine.start(agent, 'note it');
    await engine.drive(run);
    const { bus, db } = engine.context;
    const turnId = await firstTurnOf(engine, run);
    const stop = new AbortController();
    const request = { tenantId: engine.tenantId, runId: run, after: 0, types: EVENT_TYPES, signal: stop.signal };
    let looks = 0;
    const withTenant: typeof db.withTenant = async (tenant, work) => {
      if (looks++ === 0) {
        let isThere = false;
        const unsubscribe = bus.subscribe(run, () => (isThere = true));
        bus.publish({ kind: 'delta', runId: run, turnId, step: 1, delta: { type: 'text', text: 'I will' } });
        await waitUntil('the piece', () => isThere);
        unsubscribe();
      }
      return db.withTenant(tenant, work);
    };
    const kinds: string[] = [];
    for await (const item of streamRun({ ...engine.context, db: { ...db, withTenant } }, request)) {
      if (item.kind === 'delta') kinds.push('piece');
      if (item.kind === 'logged' && item.event.type === 'model.responded') stop.abort();
      if (item.kind === 'logged') kinds.push(item.event.type);
    }
    const at = kinds.indexOf('piece');
    assert.equal(kinds[at + 1], 'model.responded');
  });
});

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}
