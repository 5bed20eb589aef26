/** Looks at workflows by the process that ends their children. */
import assert from 'node:assert/strict';
import type { Context } from '../../modules/governance/context.ts';
import { startWorkers, type Workers } from '../../workers/start-workers.ts';
import { door, openEngine, text, type Engine } from '../support/engine.ts';
import { MODES } from '../support/modes.ts';
import { waitUntil } from '../support/wait-until.ts';
import { readWorkflow, startWorkflow, subtask } from '../support/workflows.ts';
import { childrenOfRun } from '../support/queries/runs.ts';

for (const mode of MODES) {
  describe(`Locally dispatched looks at workflows in ${mode} mode`, () => {
    let engine: Engine;
    let workers: Workers | undefined;

    before(async () => {
      engine = await openEngine(mode);
    });
    afterEach(async () => {
      await workers?.stop(5000);
      workers = undefined;
    });
    after(() => engine.close());

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
      const agentId = await engine.agent({ tools: [] });
      return startWorkflow(engine, [...names.map((name) => subtask(name)), subtask('last', ...names)], { agentId });
    };
    const read = (id: string) => readWorkflow(engine, id);
    const completed = (id: string) =>
      waitUntil('the workflow is done', async () => (await read(id)).workflow.status === 'completed');

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
}
