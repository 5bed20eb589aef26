/** Erasures that are cut off: what is said of them meanwhile, and who finishes them. */
import assert from 'node:assert/strict';
import { presentThread } from '../../../api/threads/schemas.ts';
import { markThreadErased } from '../../../db/erasure.ts';
import { insertErasure, takeDueErasure } from '../../../db/erasures.ts';
import { requireThread } from '../../../modules/conversations/threads.ts';
import { maintain } from '../../../modules/platform/maintain.ts';
import { cancelRun } from '../../../modules/runs/end-run.ts';
import { carryOutErasure } from '../../../modules/runs/erasing/carry-out-erasure.ts';
import { eraseRun, eraseThread } from '../../../modules/runs/erase-run.ts';
import { retryRun } from '../../../modules/runs/retry-run.ts';
import { replayWorkflow } from '../../../modules/workflows/restart-workflow.ts';
import { openEngine, type Engine } from '../../support/engine.ts';
import { MODES } from '../../support/modes.ts';
import { auditOf } from '../../support/queries/audit.ts';
import { makeErasuresDue, openErasures, unerasedRunsOn } from '../../support/queries/erasures.ts';
import { holdTable, sessionsWaitingIn, terminateSession, whileTableHeld } from '../../support/queries/postgres.ts';
import { childrenOfRun, holdRun, makeChildOf, moveRun, storedRun } from '../../support/queries/runs.ts';
import { replayRecorded } from '../../support/recorded-replay.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { lookNow, startWorkflow, subtask } from '../../support/workflows.ts';

if (MODES.includes('postgres')) {
  describe('An erasure that is cut off', () => {
    let engine: Engine;
    let agent: string;
    before(async () => {
      engine = await openEngine('postgres');
      agent = await engine.agent();
    });
    after(() => engine.close());

    /** Two runs on a thread, the second cancelled. */
    const threadOfTwo = async () => {
      const { run: first, thread } = await engine.start(agent, 'hello');
      await engine.finish(first);
      const { run: second } = await engine.start(agent, 'hello again', { threadId: thread });
      await cancelRun(engine.context, { tenantId: engine.tenantId, runId: second });
      return { first, second, thread };
    };
    /** Begins an erasure, and ends its session where it erases the rows of its first run. */
    const cutOff = async (erase: () => Promise<unknown>) => {
      const { db } = engine.context;
      await db.asOwner(async (client) => {
        await holdTable(client, 'signals');
        const erasing = assert.rejects(erase());
        let sessions: number[] = [];
        await waitUntil('it erases a run', async () => {
          sessions = await sessionsWaitingIn(db, 'signals');
          return sessions.length > 0;
        });
        for (const pid of sessions) await terminateSession(db, pid);
        await erasing;
      });
    };
    const read = async (thread: string) =>
      engine.context.db.withTenant(engine.tenantId, async (tx) => {
        return presentThread(await requireThread(tx, engine.caller, thread));
      });
    /** The keys for which the audit log says that something is erased. */
    const erasersOf = async (id: string) =>
      (await auditOf(engine, id)).filter(({ action }) => action.endsWith('.erased')).map((row) => row.actor_id);
    const finish = () => maintain(engine.context, 'finish-erasures');

    it('is not told as done while the content of a thread is there, and is finished by maintenance', async () => {
      const { first, second, thread } = await threadOfTwo();
      await cutOff(() => eraseThread(engine.context, engine.caller, { id: thread, dependents: true }));
      const { erased_at: early, erasing } = await read(thread);
      assert.deepEqual([early, erasing], [undefined, true]);
      assert.deepEqual(await erasersOf(thread), []);
      await assert.rejects(engine.start(agent, 'more', { threadId: thread }), { code: 'erased' });
      const idempotency = { tenantId: engine.tenantId, route: 'retry', body: null, key: undefined };
      const retry = { tenantId: engine.tenantId, runId: second, mayRaiseAutonomy: true, traceparent: undefined };
      await assert.rejects(retryRun(engine.context, { ...retry, idempotency }), { code: 'erased' });

      assert.deepEqual(await finish(), { finished: 0 }, 'somebody may be at it still');
      await makeErasuresDue(engine);
      assert.deepEqual(await finish(), { finished: 1 });
      assert.deepEqual(await unerasedRunsOn(engine, thread), []);
      const { erased_at: at, erasing: isErasing } = await read(thread);
      assert.deepEqual([typeof at, isErasing], ['string', undefined]);
      const by = engine.caller.keyId;
      assert.deepEqual(await erasersOf(thread), [by]);
      assert.deepEqual(await erasersOf(first), [by]);
      assert.deepEqual(await openErasures(engine), []);
    });

    it('of a thread lets nobody replay its runs, its workflows or what works for them, and comes to its end', async () => {
      const { first, second, thread } = await threadOfTwo();
      const { run: child } = await engine.start(agent, 'for the first');
      await engine.finish(child);
      await makeChildOf(engine, child, first);
      const { context, caller, tenantId } = engine;
      await cutOff(() => eraseThread(context, caller, { id: thread, dependents: false }));
      for (const run of [first, second, child]) {
        await assert.rejects(replayRecorded(engine, run), { code: 'erased' }, run);
      }
      const idempotency = { tenantId, route: 'replay', body: null };
      const whole = { checkpointId: 'start', mode: 'live', rerunEffects: true, modified: {}, config: {} } as const;
      const again = { tenantId, runId: first, ...whole, traceparent: undefined, idempotency };
      await assert.rejects(replayWorkflow(context, again), { code: 'erased' });

      await makeErasuresDue(engine);
      assert.deepEqual(await finish(), { finished: 1 });
      assert.deepEqual(await unerasedRunsOn(engine, thread), []);
    });

    it('is finished by the same request, too, which says that it was', async () => {
      const { thread } = await threadOfTwo();
      const erase = () => eraseThread(engine.context, engine.caller, { id: thread, dependents: false });
      await cutOff(erase);
      assert.equal((await erase()).isNew, true);
      assert.equal((await erase()).isNew, false);
      assert.equal((await erasersOf(thread)).length, 1);
      assert.deepEqual(await openErasures(engine), []);
    });

    it('of a thread begins with its last run, without a look at all the others, and has time for one at least', async () => {
      const { first, second, thread } = await threadOfTwo();
      const { context, tenantId } = engine;
      const row = { kind: 'thread', id: thread, tenant_id: tenantId, dependents: true, asked_by: {} } as const;
      await context.db.withTenant(tenantId, async (tx) => {
        await markThreadErased(tx, thread);
        await insertErasure(tx, row);
      });
      const erasure = { kind: 'thread', id: thread, dependents: true, by: engine.caller } as const;
      const goOn = () => carryOutErasure(context, erasure, 0);
      assert.deepEqual(await holdRun(context.db, first, goOn), { isDone: false, any: true });
      assert.deepEqual(await unerasedRunsOn(engine, thread), [{ id: first }]);
      assert.equal((await erasersOf(second)).length, 1);
      assert.deepEqual(await goOn(), { isDone: false, any: true });
      assert.deepEqual(await goOn(), { isDone: true, any: false });
      assert.deepEqual(await openErasures(engine), []);
    });

    it('takes the dependents along if one of those who asked for it wants that', async () => {
      const { first, second } = await threadOfTwo();
      const { db } = engine.context;
      for (const [id, wanted] of [
        [first, [true, false]],
        [second, [false, true]],
      ] as const) {
        for (const dependents of wanted) {
          const row = { kind: 'run', id, tenant_id: engine.tenantId, dependents, asked_by: {} } as const;
          await db.withTenant(engine.tenantId, (tx) => insertErasure(tx, row));
        }
      }
      await makeErasuresDue(engine);
      const taken = [await takeDueErasure(db), await takeDueErasure(db)];
      assert.deepEqual(
        taken.map((row) => row?.dependents),
        [true, true],
      );
      await makeErasuresDue(engine);
      await finish();
      assert.deepEqual(await openErasures(engine), []);
    });

    /** Lets an erasure go on once it erases a run and something is done meanwhile. */
    const meanwhile = async <T>(erase: () => Promise<T>, act: () => Promise<unknown>) => {
      const { db } = engine.context;
      const { erasing } = await whileTableHeld(db, 'signals', async () => {
        const begun = erase();
        await waitUntil('it erases a run', async () => (await sessionsWaitingIn(db, 'signals')).length > 0);
        await act();
        return { erasing: begun };
      });
      return erasing;
    };

    it('of a run lets nobody repeat it, or what works for it, meanwhile, and erases all of it', async () => {
      const { second: run } = await threadOfTwo();
      const { context, caller, tenantId } = engine;
      const children: string[] = [];
      for (const name of ['one', 'two']) {
        const { run: child } = await engine.start(agent, name);
        await engine.finish(child);
        await makeChildOf(engine, child, run);
        children.push(child);
      }
      const idempotency = { tenantId, route: 'retry', body: null };
      const retry = { tenantId, runId: run, mayRaiseAutonomy: true, traceparent: undefined, idempotency };
      const erased = await meanwhile(
        () => eraseRun(context, caller, { id: run, dependents: false }),
        async () => {
          await assert.rejects(retryRun(context, retry), { code: 'erased' });
          // Its other child is being erased, and is held.
          for (const each of [run, ...children.slice(0, 1)]) {
            await assert.rejects(replayRecorded(engine, each), { code: 'erased' }, each);
          }
        },
      );
      assert.equal(erased, true);
      for (const each of [run, ...children]) assert.ok((await storedRun(engine, each)).erased_at, each);
      assert.deepEqual(await openErasures(engine), []);
    });

    it('of the last run of a thread lets no other one begin there until it is done', async () => {
      const { second: run, thread } = await threadOfTwo();
      const { run: child } = await engine.start(agent, 'for the second');
      await engine.finish(child);
      await makeChildOf(engine, child, run);
      const begin = () => engine.start(agent, 'and now?', { threadId: thread });
      await meanwhile(
        () => eraseRun(engine.context, engine.caller, { id: run, dependents: false }),
        () => assert.rejects(begin(), { code: 'conflict', message: /is being erased/ }),
      );
      await engine.finish((await begin()).run);
      assert.equal((await unerasedRunsOn(engine, thread)).length, 2);
    });

    it('of a subtask lets nobody take over its result', async () => {
      const workflow = await startWorkflow(engine, [subtask('one')], { agentId: agent });
      const { context, tenantId } = engine;
      const look = () => lookNow(context, { tenantId, runId: workflow });
      await look();
      const [{ id: work } = { id: '' }] = await childrenOfRun(engine, workflow);
      await engine.finish(work);
      await look();
      const row = { kind: 'run', id: work, tenant_id: tenantId, dependents: false, asked_by: {} } as const;
      await context.db.withTenant(tenantId, (tx) => insertErasure(tx, row));
      const whole = { checkpointId: 'start', mode: 'live', rerunEffects: false, modified: {}, config: {} } as const;
      const idempotency = { tenantId, route: 'replay', body: null };
      const again = { tenantId, runId: workflow, ...whole, traceparent: undefined, idempotency };
      await assert.rejects(replayWorkflow(context, again), { code: 'erased' });
      await makeErasuresDue(engine);
      assert.deepEqual(await finish(), { finished: 1 });
    });

    it('of a thread takes along a run that has come to it meanwhile', async () => {
      const { thread } = await threadOfTwo();
      const { run: late } = await engine.start(agent, 'of the release before');
      await engine.finish(late);
      await meanwhile(
        () => eraseThread(engine.context, engine.caller, { id: thread, dependents: false }),
        () => moveRun(engine, late, { thread, place: 3 }),
      );
      assert.deepEqual(await unerasedRunsOn(engine, thread), []);
      assert.deepEqual(await openErasures(engine), []);
      assert.equal((await erasersOf(late)).length, 1);
    });

    it('is not taken over by another process while it erases one run after the other', async () => {
      const { thread } = await threadOfTwo();
      const { context, tenantId, caller } = engine;
      const erasure = { kind: 'thread', id: thread, dependents: true, by: caller } as const;
      const row = { kind: 'thread', id: thread, tenant_id: tenantId, dependents: true, asked_by: {} } as const;
      await context.db.withTenant(tenantId, (tx) => insertErasure(tx, row));
      // The first run takes a minute.
      const end = await meanwhile(
        () => carryOutErasure(context, erasure, 0),
        () => makeErasuresDue(engine),
      );
      assert.deepEqual(end, { isDone: false, any: true });
      assert.equal(await takeDueErasure(context.db), undefined);
      assert.deepEqual(await carryOutErasure(context, erasure), { isDone: true, any: true });
    });

    it('goes on at once where the time of its turn was over', async () => {
      const { thread } = await threadOfTwo();
      await cutOff(() => eraseThread(engine.context, engine.caller, { id: thread, dependents: false }));
      await makeErasuresDue(engine);
      const begunAtMs = performance.now();
      const isOver = () => performance.now() > begunAtMs + 2500;
      const ends = [await meanwhile(finish, () => waitUntil('its turn is over', isOver)), await finish()];
      // The first round may be over, too.
      assert.equal(
        ends.reduce((sum, end) => sum + (end['finished'] ?? 0), 0),
        1,
      );
      assert.deepEqual(await openErasures(engine), []);
    });

    it('of a run with the later ones of its thread is finished by maintenance', async () => {
      const { first, thread } = await threadOfTwo();
      await cutOff(() => eraseRun(engine.context, engine.caller, { id: first, dependents: true }));
      assert.equal((await unerasedRunsOn(engine, thread)).length, 2);
      await makeErasuresDue(engine);
      assert.deepEqual(await finish(), { finished: 1 });
      assert.deepEqual(await unerasedRunsOn(engine, thread), []);
      assert.deepEqual(await openErasures(engine), []);
      assert.equal((await read(thread)).erased_at, undefined, 'the thread itself goes on');
    });

    it('is given up where a run has come meanwhile that stands on the messages and was not to go', async () => {
      const { first, thread } = await threadOfTwo();
      const { context, tenantId } = engine;
      const row = { kind: 'run', id: first, tenant_id: tenantId, dependents: false, asked_by: {} } as const;
      await context.db.withTenant(tenantId, (tx) => insertErasure(tx, row));
      await makeErasuresDue(engine);
      assert.deepEqual(await finish(), { finished: 0 });
      assert.equal((await unerasedRunsOn(engine, thread)).length, 2);
      assert.deepEqual(await openErasures(engine), []);
    });
  });
}
