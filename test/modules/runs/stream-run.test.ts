import assert from 'node:assert/strict';
import { EVENT_TYPES } from '../../../core/events.ts';
import type { Database } from '../../../db/database.ts';
import { insertSession } from '../../../db/sessions.ts';
import { newId } from '../../../lib/new-id.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { announceAppended } from '../../../modules/run-log/append-to-run.ts';
import { completeRun } from '../../../modules/runs/end-run.ts';
import { queueMessageIn } from '../../../modules/runs/message-queue.ts';
import { streamRun, type StreamItem } from '../../../modules/runs/stream-run.ts';
import {
  readSessionPosition,
  streamSession,
  type SessionStreamItem,
} from '../../../modules/sessions/stream-session.ts';
import { openEngine, offered, text, use, type Engine } from '../../support/engine.ts';
import { DOMAIN_MODE } from '../../support/modes.ts';
import { overDatabase } from '../../support/over-database.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { firstTurnOf, statusOfRun, storedRun } from '../../support/queries/runs.ts';

describe('the stream of a run', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  /** The context, with somebody who is told after each statement of what reads the log. */
  const reading = (onRead: (sql: string) => unknown): Context => {
    const { db } = engine.context;
    return overDatabase(engine.context, {
      ...db,
      withTenant: (tenant, work) =>
        db.withTenant(tenant, (tx) =>
          work({
            last: (sql, values) => tx.last(sql, values),
            async query<R extends object>(sql: string, values?: readonly unknown[]) {
              const rows = await tx.query<R>(sql, values);
              await onRead(sql);
              return rows;
            },
          }),
        ),
    });
  };

  it('looks at the log once from a position that the run has not reached, and again when the run has ended', async () => {
    const { run } = await engine.start(await engine.agent(), '', { input: undefined, config: {} });
    let looks = 0;
    const watched = reading(() => (looks += 1));
    const stop = new AbortController();
    const beyond = { tenantId: engine.tenantId, runId: run, after: 1000, types: EVENT_TYPES, signal: stop.signal };
    const read = collect(streamRun(watched, beyond));
    try {
      await waitUntil('it has looked', () => looks > 0);
      // In the time of so many statements it would have looked again, if it did not wait.
      for (let n = 0; n < 50; n += 1) await statusOfRun(engine, run);
      assert.equal(looks, 1);
      await completeRun(engine.context, { tenantId: engine.tenantId, runId: run });
      // Nobody tells it, since it waits for what comes much later: it is found.
      assert.deepEqual(await read, []);
      assert.equal(looks, 2);
    } finally {
      stop.abort();
    }
  });

  it('does not look at the log again for events that it passes over', async () => {
    const { run } = await engine.start(await engine.agent(), 'hello', { config: { keep_open: true } });
    await engine.drive(run);
    let looks = 0;
    const watched = reading(() => (looks += 1));
    const stop = new AbortController();
    const asked = { tenantId: engine.tenantId, runId: run, after: 0, types: ['turn.started' as const] };
    const read = collect(streamRun(watched, { ...asked, signal: stop.signal }));
    try {
      await waitUntil('it has looked', () => looks > 0);
      const { last_seq: seq, fence } = await storedRun(engine, run);
      announceAppended(engine.context, { runId: run, seq, fence, outbox: [] });
      const before = looks;
      // In the time of so many statements it would have looked again, if it did not wait.
      for (let n = 0; n < 50; n += 1) await statusOfRun(engine, run);
      assert.equal(looks, before);
    } finally {
      stop.abort();
      await read;
    }
  });

  it('goes on where the database was away for a moment, over a session too', async () => {
    const agent = await engine.agent();
    engine.say([text('hello')]);
    const { run, thread } = await engine.start(agent, 'hello', { config: { keep_open: true } });
    await engine.finish(run);
    const { tenantId: tenant_id, caller } = engine;
    const session = { id: thread, tenant_id, workspace_id: caller.workspaceId, agent_id: agent, user_id: 'ada' };
    await engine.context.db.withTenant(tenant_id, (tx) =>
      insertSession(tx, { ...session, autonomy_level: 1, context: {} }),
    );
    const away = Object.assign(new Error('gone'), { code: 'ECONNREFUSED' });
    const { db } = engine.context;
    let looks = 0;
    // Every look fails once.
    const failing =
      (look: 'withTenant' | 'withTenantOnce'): Database['withTenant'] =>
      (tenant, work) =>
        looks++ % 2 === 0 ? Promise.reject(away) : db[look](tenant, work);
    const flaky = overDatabase(engine.context, {
      ...db,
      withTenant: failing('withTenant'),
      withTenantOnce: failing('withTenantOnce'),
    });
    const leave = new AbortController();
    const about = { tenantId: engine.tenantId, types: EVENT_TYPES, signal: leave.signal };
    const types = (await engine.log(run)).map(({ type }) => type);
    const streams = [
      streamRun(flaky, { ...about, runId: run, after: 0 }),
      streamSession(flaky, { ...about, sessionId: thread, after: { place: 0, seq: 0 } }),
    ];
    for (const items of streams) {
      for (const type of types) {
        const { value } = await items.next();
        assert.ok(value?.kind === 'logged');
        assert.equal(value.event.type, type);
      }
    }
    leave.abort();
    await Promise.allSettled(streams.map((items) => items.next()));
  });

  it('shows a piece of an answer after what was told of the log before it, however slowly it is read', async () => {
    const { run } = await engine.start(await engine.agent(), 'hello');
    const log = await engine.log(run);
    const { context, tenantId } = engine;
    const leave = new AbortController();
    const about = { tenantId, runId: run, after: 0, types: EVENT_TYPES, signal: leave.signal };
    const items = streamRun(context, about);
    for (const { type } of log) {
      const { value } = await items.next();
      assert.ok(value?.kind === 'logged');
      assert.equal(value.event.type, type);
    }
    // What was told of the run's start may still come, too.
    const arrived = new Set<string>();
    const stop = context.bus.watch(run, ({ kind, ...told }) =>
      arrived.add('seq' in told ? `${kind} ${told.seq}` : kind),
    );
    const message = { message_id: newId(), mode: 'steer' as const, input: { message: 'in short' } };
    const queued = await context.db.withTenant(tenantId, (tx) => queueMessageIn(tx, { tenantId, runId: run, message }));
    announceAppended(context, queued);
    const [{ turn_id: turnId } = { turn_id: null }] = log.slice(-1);
    const delta = { type: 'text' as const, text: 'short' };
    context.bus.publish({ subject: run, kind: 'delta', turnId: turnId ?? '', step: 1, at: 0, delta });
    await waitUntil('both are here', () => arrived.has(`advanced ${queued?.seq}`) && arrived.has('delta'));
    stop();
    const kinds = [(await items.next()).value, (await items.next()).value].map((item) => item?.kind);
    assert.deepEqual(kinds, ['logged', 'delta']);
    leave.abort();
    await items.next();
  });

  it('shows all of a run that ends between its look at where the log ends and that at its events', async function () {
    // The embedded database has one session: nothing happens between two statements of a transaction.
    if (DOMAIN_MODE === 'embedded') this.skip();
    const agent = await engine.agent({}, [{ name: 'note' }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'note') }) : text('noted')));
    const { run } = await engine.start(agent, 'note it');
    await engine.drive(run);
    let looks = 0;
    const seen = reading(async () => {
      if (looks++ > 0) return;
      await engine.makeCalls(run);
      await engine.finish(run);
    });
    // The looks for all open streams tell nothing: it does not end with the next of them.
    const late = overDatabase(seen, { ...seen.db, asMaintenance: () => new Promise(() => undefined) });
    const about = { tenantId: engine.tenantId, runId: run, after: 0, types: EVENT_TYPES };
    const { signal } = new AbortController();
    const events = await collect(streamRun(late, { ...about, signal }));
    const logged = events.flatMap((item) => (item.kind === 'logged' ? [item.event.seq] : []));
    assert.equal(looks, 2);
    assert.deepEqual(
      logged,
      (await engine.log(run)).map(({ seq }) => seq),
    );
  });

  it('opens and goes on with many others in a few transactions', async () => {
    const agent = await engine.agent();
    const many = Array.from({ length: 40 }, (_, n) => n);
    const runs = await Promise.all(many.map(() => engine.start(agent, 'hello', { config: { keep_open: true } })));
    const { tenantId, caller } = engine;
    const session = { tenant_id: tenantId, workspace_id: caller.workspaceId, agent_id: agent, user_id: 'ada' };
    await engine.context.db.withTenant(tenantId, async (tx) => {
      for (const { thread } of runs)
        await insertSession(tx, { id: thread, ...session, autonomy_level: 1, context: {} });
    });
    const { db } = engine.context;
    let transactions = 0;
    const counting =
      (how: 'withTenant' | 'withTenantOnce'): Database['withTenant'] =>
      (tenant, work) => (transactions++, db[how](tenant, work));
    const counted = overDatabase(engine.context, {
      ...db,
      withTenant: counting('withTenant'),
      withTenantOnce: counting('withTenantOnce'),
    });
    const leaving: AbortController[] = [];
    const about = () => {
      const leave = new AbortController();
      leaving.push(leave);
      return { tenantId, types: EVENT_TYPES, signal: leave.signal };
    };
    const firsts = async (streams: AsyncGenerator<StreamItem | SessionStreamItem>[]) => {
      const items = await Promise.all(streams.map((stream) => stream.next()));
      return items.map(({ value }) => (value?.kind === 'logged' ? value.event.type : value));
    };
    const begun = many.map(() => 'run.created');
    assert.deepEqual(
      await firsts(runs.map(({ run }) => streamRun(counted, { ...about(), runId: run, after: 0 }))),
      begun,
    );
    assert.ok(transactions <= 4, `${transactions} for streams of runs`);
    transactions = 0;
    const places = await Promise.all(runs.map(({ thread }) => readSessionPosition(counted, caller, thread)));
    assert.deepEqual(new Set(places.map(({ place }) => place)), new Set([1]));
    const start = { place: 0, seq: 0 };
    assert.deepEqual(
      await firsts(runs.map(({ thread }) => streamSession(counted, { ...about(), sessionId: thread, after: start }))),
      begun,
    );
    assert.ok(transactions <= 8, `${transactions} for streams of sessions`);
    for (const leave of leaving) leave.abort();
  });

  it('shows all of its log beside others that are as far behind', async () => {
    const agent = await engine.agent();
    const runs = await Promise.all(
      ['a', 'b', 'c'].map(async (letter) => {
        const { run } = await engine.start(agent, letter.repeat(300_000), { config: { keep_open: true } });
        await engine.finish(run);
        for (const more of ['1', '2', '3']) {
          await engine.post(agent, run, more.repeat(300_000));
          await engine.finish(run);
        }
        return run;
      }),
    );
    const about = { tenantId: engine.tenantId, types: EVENT_TYPES, after: 0 };
    const logs = await Promise.all(
      runs.map(async (run) => {
        const leave = new AbortController();
        const whole = (await engine.log(run)).map(({ seq }) => seq);
        const seen: number[] = [];
        for await (const item of streamRun(engine.context, { ...about, runId: run, signal: leave.signal })) {
          if (item.kind === 'logged') seen.push(item.event.seq);
          if (seen.length === whole.length) leave.abort();
        }
        return { seen, whole };
      }),
    );
    for (const { seen, whole } of logs) assert.deepEqual(seen, whole);
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
      bus.publish({ kind: 'delta', subject: run, turnId, step, delta: { type: 'text', text: `of step ${step}` } });
    const steps: number[] = [];
    // Its listener is there before the first look into the log; the pieces come when the log has been read.
    let looks = 0;
    const withTenant: typeof db.withTenant = async (tenant, work) => {
      const result = await db.withTenant(tenant, work);
      if (looks++ === 0) for (const step of [1, 2]) publish(step);
      return result;
    };
    for await (const item of streamRun(overDatabase(engine.context, { ...db, withTenant }), request)) {
      if (item.kind === 'delta') steps.push(item.step);
      if (item.kind === 'delta' && item.step === 2) stop.abort();
    }
    assert.deepEqual(steps, [2]);
  });

  it('leaves out a piece that comes after its answer, before the next answer of the log is shown', async () => {
    const agent = await engine.agent({ tools: ['calculator'] });
    engine.say([use({ name: 'calculator', input: { expression: '6*7' } }), text('42')]);
    const { run } = await engine.start(agent, 'What is 6*7?');
    await engine.finish(run);
    const { bus } = engine.context;
    const turnId = await firstTurnOf(engine, run);
    const { signal } = new AbortController();
    const kinds: string[] = [];
    const request = { tenantId: engine.tenantId, runId: run, after: 0, types: EVENT_TYPES, signal };
    for await (const item of streamRun(engine.context, request)) {
      kinds.push(item.kind === 'logged' ? item.event.type : item.kind);
      if (item.kind !== 'logged' || item.event.type !== 'model.responded' || item.event.step !== 1) continue;
      let isThere = false;
      const stop = bus.watch(run, () => (isThere = true));
      bus.publish({ kind: 'delta', subject: run, turnId, step: 1, at: 0, delta: { type: 'text', text: 'late' } });
      await waitUntil('the piece', () => isThere);
      stop();
    }
    assert.equal(kinds.filter((kind) => kind === 'model.responded').length, 2);
    assert.ok(!kinds.includes('delta'), kinds.join(' '));
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
        bus.publish({ kind: 'delta', subject: run, turnId, step: 1, delta: { type: 'text', text: 'I will' } });
        await waitUntil('the piece', () => isThere);
        unsubscribe();
      }
      return db.withTenant(tenant, work);
    };
    const kinds: string[] = [];
    for await (const item of streamRun(overDatabase(engine.context, { ...db, withTenant }), request)) {
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
