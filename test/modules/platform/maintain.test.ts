import assert from 'node:assert/strict';
import type { Database } from '../../../db/database.ts';
import { listLostCalls, listLostRuns } from '../../../db/maintenance.ts';
import { forEachIsolated } from '../../../modules/for-each-isolated.ts';
import { maintain } from '../../../modules/platform/maintain.ts';
import { findUnserved, warnOfStillUnserved, warnOfUnserved } from '../../../modules/platform/unserved-queues.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { door, offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { DOMAIN_MODE } from '../../support/modes.ts';
import { addApprovalWithoutRun, expireApprovalsOf, statusesOfApprovals } from '../../support/queries/approvals.ts';
import { explaining } from '../../support/queries/postgres.ts';
import { copyWaitingRun } from '../../support/queries/runs.ts';

describe('Maintenance', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  it('lets an approval that cannot be ended keep no other from its end', async () => {
    const agent = await engine.agent({ autonomy_level: 0 }, [{ name: 'pay' }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'pay') }) : text('not paid')));
    const { run } = await engine.start(agent, 'pay it');
    assert.equal(await engine.drive(run), 'dormant');
    await expireApprovalsOf(engine, run);
    // Of a run that is not there; due before the other one.
    await addApprovalWithoutRun(engine, run);
    assert.deepEqual(await maintain(engine.context, 'expire-approvals'), { expired: 1 });
    assert.deepEqual(await statusesOfApprovals(engine), ['pending', 'expired']);
  });

  describe('that finds jobs in a queue that no process serves', () => {
    before(function () {
      if (DOMAIN_MODE !== 'full') this.skip();
    });
    const countTold = () =>
      engine.platform.log.filter(
        ({ msg, queue }) =>
          queue === 'subtasks' && String(msg).startsWith('jobs wait in a queue that no process serves'),
      ).length;
    const namesOfFound = async () => (await findUnserved(engine.context)).map(({ name }) => name);

    it('says so where it finds the same a minute later, and never of the queue that it is a job of itself', async () => {
      const { queues } = engine.context;
      for (const name of ['subtasks', 'maintenance']) await queues.queue(name).add('later', {});
      const names = await namesOfFound();
      assert.deepEqual([names.includes('subtasks'), names.includes('maintenance')], [true, false]);
      assert.equal(await warnOfUnserved(engine.context), names.length);
      assert.equal(countTold(), 0);
      await warnOfUnserved(engine.context, 1);
      await waitUntil('it is told', () => countTold() === 1);
      for (const name of ['subtasks', 'maintenance']) await queues.queue(name).drain();
    });

    it('says nothing where the queue is served by then', async () => {
      const queue = engine.context.queues.queue('subtasks');
      const toldBefore = countTold();
      await queue.add('subtasks', {});
      const found = await findUnserved(engine.context);
      assert.ok(found.some(({ name }) => name === 'subtasks'));
      const held = door();
      const worker = engine.context.queues.worker('subtasks', () => held.pass());
      await held.reached;
      // This one waits for the worker, which is busy.
      await queue.add('subtasks', {});
      await warnOfStillUnserved(engine.context, found);
      held.open();
      await worker.close();
      await queue.drain();
      assert.equal(countTold(), toldBefore);
    });
  });

  it('begins nothing once its time is over, and leaves that to the next round', async () => {
    const rows = [{ n: 1 }, { n: 2 }, { n: 3 }];
    const work = ({ n }: { n: number }) => {
      const endsAtMs = performance.now() + 20;
      while (performance.now() < endsAtMs);
      return Promise.resolve(n);
    };
    assert.deepEqual(await forEachIsolated(engine.context.log, { rows, withinMs: 10 }, work), [1]);
    assert.deepEqual(await forEachIsolated(engine.context.log, { rows }, work), [1, 2, 3]);
  });

  it('ends where the database is away, which everything needs', async () => {
    const away = Object.assign(new Error('gone'), { code: 'ECONNREFUSED' });
    const rows = [{ n: 1 }, { n: 2 }, { n: 3 }];
    const seen: number[] = [];
    const work = ({ n }: { n: number }) => {
      seen.push(n);
      return n === 2 ? Promise.reject(away) : Promise.resolve(n);
    };
    await assert.rejects(forEachIsolated(engine.context.log, { rows }, work), away);
    assert.deepEqual(seen, [1, 2]);
  });

  describe('beside many waiting runs', () => {
    const WAITING = 5000;

    before(async () => {
      const agent = await engine.agent({ tools: ['ask_user'] });
      engine.say([use({ name: 'ask_user', input: { question: 'Go on?' } })]);
      const { run } = await engine.start(agent, 'ask me');
      assert.equal(await engine.drive(run), 'dormant');
      await copyWaitingRun(engine, run, WAITING);
    });

    const filter = { quietMs: 0, after: '00000000-0000-0000-0000-000000000000', limit: 500, embeds: true };
    for (const [index, list] of Object.entries({ runs_to_drive: listLostRuns, tool_calls_queued: listLostCalls })) {
      it(`reads ${index} to find what was lost, in which none of them is`, async () => {
        const plan = await planWhile((db) => list(db, filter));
        // The run whose approval has expired is to be driven.
        assert.match(plan, new RegExp(`Scan using ${index} .*actual rows=[01]\\b`));
        assert.doesNotMatch(plan, /Seq Scan on (runs|tool_calls)/);
      });
    }

    /** Of what is done as maintenance, and how many rows each part of it met. */
    async function planWhile(work: (db: Database) => Promise<unknown>): Promise<string> {
      const { db } = engine.context;
      let plan = '';
      const tell = (part: string): void => {
        plan += part;
      };
      await work({ ...db, asMaintenance: (act) => db.asMaintenance((tx) => act(explaining(tx, tell))) });
      return plan;
    }
  });
});
