import assert from 'node:assert/strict';
import { startWorkers, type Workers } from '../../workers/start-workers.ts';
import { offered, openEngine, text, use, type Engine } from '../support/engine.ts';
import { waitUntil } from '../support/wait-until.ts';
import { statusOfRun } from '../support/queries/runs.ts';
import { callOfRun } from '../support/queries/tool-calls.ts';

describe('A call that is made again by its queue', () => {
  let engine: Engine;
  let workers: Workers | undefined;

  before(async () => {
    engine = await openEngine();
  });

  after(async () => {
    await workers?.stop(5000);
    await engine.close();
  });

  it('asks for no commit that the database refuses, which would undo those of others', async () => {
    const { context } = engine;
    const refused: string[] = [];
    workers = await startWorkers({
      ...context,
      config: { ...context.config, queues: ['turns', 'tool-calls'] },
      commit: (change) =>
        context.commit(change).catch((error: unknown) => {
          refused.push(String(error));
          throw error;
        }),
    });
    const execution = { retry_config: { max_retries: 2, backoff_ms: 1 } };
    const agent = await engine.agent({}, [{ name: 'shaky', annotations: { idempotentHint: true }, execution }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'shaky') }) : text('done')));
    engine.toolsAnswer(async (_request, n) => ({ status: n < 2 ? 503 : 200, body: {} }));
    const { run } = await engine.start(agent, 'hello');
    await waitUntil('the run is completed', async () => (await statusOfRun(engine, run)) === 'completed');
    assert.deepEqual(await callOfRun(engine, run), { status: 'succeeded', attempt: 3 });
    assert.deepEqual(refused, []);
  });
});
