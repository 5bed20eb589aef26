import assert from 'node:assert/strict';
import { listLostCalls } from '../../../db/maintenance.ts';
import { claimEarly } from '../../../db/maintenance-acts.ts';
import { positionJobId } from '../../../jobs/define-job.ts';
import { TURNS } from '../../../jobs/turns.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { reconcile } from '../../../modules/run-log/reconcile.ts';
import { offered, openEngine, use, type Engine } from '../../support/engine.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { storedRun } from '../../support/queries/runs.ts';
import { endFirstAttempt, pauseCall } from '../../support/queries/tool-calls.ts';

const EVERYTHING = { quietMs: 0, after: '00000000-0000-0000-0000-000000000000', limit: 500, embeds: true };

describe('Reconciliation', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  it('looks for the jobs of many runs in one round trip, and sends those that are missing in another', async () => {
    const { context } = engine;
    const queue = context.queues.queue(TURNS.name);
    const agent = await engine.agent();
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) {
      const { run: runId } = await engine.start(agent, 'hello');
      const { last_seq: seq, fence } = await storedRun(engine, runId);
      ids.push(positionJobId({ runId, seq, fence }));
    }
    const states = () => context.queues.states(TURNS.name, ids);
    const areThere = async () => !(await states()).includes('unknown');
    await waitUntil('the jobs are there', areThere);
    assert.equal((await reconcile(context, 0)).turns, 0);
    const [, alive, ...lost] = ids;
    for (const id of lost) await queue.remove(id);
    const trips: number[] = [];
    const queues: Context['queues'] = {
      ...context.queues,
      states: (name, wanted) => {
        if (name === TURNS.name) trips.push(wanted.length);
        return context.queues.states(name, wanted);
      },
    };
    assert.equal((await reconcile({ ...context, queues }, 0)).turns, lost.length);
    assert.deepEqual(trips, [ids.length]);
    assert.ok(await areThere());
    assert.ok(await queue.getJob(alive ?? ''));
    assert.equal((await reconcile(context, 0)).turns, 0);
  });

  it('finds only those calls that may be made by now', async () => {
    const agent = await engine.agent({}, [{ name: 'send' }]);
    engine.say((request) => use({ name: offered(request, 'send') }));
    const { run } = await engine.start(agent, 'send it');
    assert.equal(await engine.drive(run), 'yielded');
    const isLost = async () =>
      (await listLostCalls(engine.context.db, EVERYTHING)).some(({ run_id }) => run_id === run);
    assert.equal(await isLost(), true);
    await pauseCall(engine, run);
    assert.equal(await isLost(), false);
    await endFirstAttempt(engine, run);
    assert.equal(await isLost(), true);
  });

  it('is done by one of many processes that start together', async () => {
    const early = { act: 'reconcile', everyMs: 15_000, recentMs: 1000 };
    const taken = await Promise.all(Array.from({ length: 10 }, () => claimEarly(engine.context.db, early)));
    assert.equal(taken.filter(Boolean).length, 1);
  });
});
