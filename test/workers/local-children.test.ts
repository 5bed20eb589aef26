/** Children that are driven by the process which begins them, and looks at workflows by the process that ends their children. */
import assert from 'node:assert/strict';
import { pino } from 'pino';
import type { Context } from '../../modules/governance/context.ts';
import { rebuildProjections } from '../../modules/run-log/rebuild-projections.ts';
import { reconcile } from '../../modules/run-log/reconcile.ts';
import { startWorkers, type Workers } from '../../workers/start-workers.ts';
import { door, openEngine, text, type Engine } from '../support/engine.ts';
import { MODES } from '../support/modes.ts';
import { childrenOfRun } from '../support/queries/runs.ts';
import { waitUntil } from '../support/wait-until.ts';
import { readWorkflow, startWorkflow, subtask } from '../support/workflows.ts';

for (const mode of MODES) {
  describe(`Locally dispatched children in ${mode} mode`, () => {
    let engine: Engine;
    let workers: Workers | undefined;
    let agentId: string;
    /** What the workers have logged. */
    let lines: { queue?: string; run?: string; dispatched?: string; outcome?: string }[];

    before(async () => {
      engine = await openEngine(mode);
      agentId = await engine.agent({ tools: [] });
    });
    afterEach(async () => {
      await workers?.stop(5000);
      workers = undefined;
    });
    beforeEach(() => {
      lines = [];
    });
    after(() => engine.close());

    const serve = async (subtasks: number, changed: Partial<Context> = {}) => {
      const { context } = engine;
      const concurrency = { ...context.config.concurrency, subtasks };
      const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) });
      workers = await startWorkers({ ...context, log, config: { ...context.config, concurrency }, ...changed });
    };
    const read = (id: string) => readWorkflow(engine, id);
    const completed = (id: string) =>
      waitUntil('the workflow is done', async () => (await read(id)).workflow.status === 'completed');
    /** By subtask, how the run that did it came to its driver. */
    const ways = async (id: string): Promise<Record<string, string>> => {
      const { tasks } = await read(id);
      const done = (run: string | null) => lines.find((line) => line.run === run && line.outcome === 'completed');
      await waitUntil('all is told', async () => tasks.every(({ run_id }) => done(run_id) !== undefined));
      return Object.fromEntries(tasks.map(({ name, run_id }) => [name, done(run_id)?.dispatched ?? 'by the queue']));
    };

    it('go through no queue, and are claimed by the commit that creates them', async () => {
      engine.say(() => text('done'));
      const claims: string[] = [];
      await serve(20, {
        claim: (claim) => {
          claims.push(claim.run_id);
          return engine.context.claim(claim);
        },
      });
      const id = await startWorkflow(engine, [subtask('a'), subtask('b'), subtask('c', 'a', 'b')], { agentId });
      await completed(id);
      assert.deepEqual(await ways(id), { a: 'locally', b: 'locally', c: 'locally' });
      const children = await childrenOfRun(engine, id);
      assert.equal(children.length, 3);
      assert.deepEqual(
        children.filter((child) => claims.includes(child.id)),
        [],
      );
      const { differences } = await rebuildProjections(engine.context.db, { check: true });
      assert.deepEqual(differences, []);
    });

    it('give their slot back where the look that creates them is not committed', async () => {
      engine.say(() => text('done'));
      const { db } = engine.context;
      let faults = 0;
      const withTenant: Context['db']['withTenant'] = (tenantId, work) =>
        db.withTenant(tenantId, (tx) => {
          const last: typeof tx.last = (sql, values) =>
            faults++ === 0 ? Promise.reject(new Error('a fault of ours')) : tx.last(sql, values);
          return work({ ...tx, query: (sql, values) => tx.query(sql, values), last });
        });
      await serve(2, { db: { ...db, withTenant } });
      const id = await startWorkflow(engine, [subtask('a'), subtask('b', 'a')], { agentId });
      await completed(id);
      assert.ok(faults > 1);
      assert.deepEqual(await ways(id), { a: 'locally', b: 'locally' });
    });

    it('leave half of the slots to the queue, which has the rest of a wide workflow', async () => {
      const gate = door();
      engine.say(async () => {
        await gate.pass();
        return text('done');
      });
      await serve(2);
      const id = await startWorkflow(engine, [subtask('a'), subtask('b', 'a'), subtask('c'), subtask('d')], {
        agentId,
      });
      await waitUntil('another one is driven from the queue', async () => engine.model.requests.length === 2);
      gate.open();
      await completed(id);
      const { a, c, d } = await ways(id);
      // The longest way to go comes first.
      assert.equal(a, 'locally');
      assert.ok([c, d].includes('by the queue'), `${c}, ${d}`);
      assert.equal((await childrenOfRun(engine, id)).length, 4);
    });

    it('go on elsewhere where their process dies, and are done once', async () => {
      const gate = door();
      engine.say(async (_request, n) => {
        if (n === 0) await gate.pass();
        return text('done');
      });
      await serve(20);
      const id = await startWorkflow(engine, [subtask('a'), subtask('b', 'a')], { agentId });
      await gate.reached;
      await engine.everyoneDies();
      await reconcile(engine.context, 0, engine.tenantId);
      await completed(id);
      gate.open();
      assert.equal((await childrenOfRun(engine, id)).length, 2);
    });

    describe('and looks at their workflows', () => {
      /** The context, which tells of each look: nothing else asks within a transaction what governs a tenant. */
      const telling = (onLook: () => void): Context => {
        const { context } = engine;
        const current: Context['governance']['current'] = (tx, tenantId) => {
          onLook();
          return context.governance.current(tx, tenantId);
        };
        return { ...context, governance: { ...context.governance, current } };
      };
      const start = async (names: readonly string[]): Promise<string> => {
        return startWorkflow(engine, [...names.map((name) => subtask(name)), subtask('last', ...names)], { agentId });
      };

      it('settle all together that have ended while one was under way', async () => {
        const names = Array.from({ length: 12 }, (_, index) => `n${index}`);
        const all = door();
        let asked = 0;
        engine.say(async (request) => {
          if (/"Do n/.test(JSON.stringify(request.messages[0]))) {
            asked += 1;
            if (asked === names.length) all.open();
            await all.pass();
          }
          return text('done');
        });
        let looks = 0;
        workers = await startWorkers(telling(() => (looks += 1)));
        const id = await start(names);
        await completed(id);
        // The first, the last, one for the end of each that came first, and what came meanwhile.
        assert.ok(looks >= 3 && looks < names.length, `${looks} looks for ${names.length + 1} ends`);
        const children = await childrenOfRun(engine, id);
        assert.equal(children.length, names.length + 1);
      });

      it('go to the queue where they fail', async () => {
        let isArmed = false;
        let failed = 0;
        engine.say((request) => {
          isArmed = /"Do only/.test(JSON.stringify(request.messages[0]));
          return text('done');
        });
        workers = await startWorkers(
          telling(() => {
            if (!isArmed) return;
            isArmed = false;
            failed += 1;
            throw new Error('a fault of ours');
          }),
        );
        const id = await start(['only']);
        await completed(id);
        assert.equal(failed, 1);
      });
    });
  });
}
