import assert from 'node:assert/strict';
import { listLostJoins } from '../../../db/task-upkeep.ts';
import { reconcile } from '../../../modules/run-log/reconcile.ts';
import { openEngine, text, type Engine } from '../../support/engine.ts';
import { lookNow, readWorkflow, startWorkflow, subtask } from '../../support/workflows.ts';
import { leaveTasksOpen } from '../../support/queries/workflows.ts';

const FIRST = '00000000-0000-0000-0000-000000000000';

describe('What an older process has left open in a workflow that has ended', () => {
  let engine: Engine;
  let agentId: string;

  before(async () => {
    engine = await openEngine();
    agentId = await engine.agent({ constraints: { max_concurrent_tasks: 1 } });
    engine.say(() => text('done'));
  });
  after(() => engine.close());

  const look = (runId: string) => lookNow(engine.context, { tenantId: engine.tenantId, runId });
  const tasksOf = async (id: string) => (await readWorkflow(engine, id)).tasks;
  const lost = () =>
    listLostJoins(engine.context.db, { quietMs: 0, tenantId: engine.tenantId, after: FIRST, embeds: true, limit: 10 });

  it('is found by reconciliation and ended, so that its agent is free for other work', async () => {
    const id = await startWorkflow(engine, [subtask('a')], { agentId });
    await look(id);
    for (const { run_id } of await tasksOf(id)) await engine.finish(run_id ?? '');
    await look(id);
    assert.equal((await readWorkflow(engine, id)).workflow.status, 'completed');
    await leaveTasksOpen(engine.platform, id);
    const other = await startWorkflow(engine, [subtask('b')], { agentId });
    await look(other);
    assert.equal((await tasksOf(other))[0]?.status, 'pending', 'the agent has as many tasks as it takes');
    assert.deepEqual(
      (await lost()).map(({ workflow_id }) => workflow_id),
      [id, id],
    );
    assert.ok(((await reconcile(engine.context, 0, engine.tenantId)).subtasks ?? 0) > 0);
    const before = (await engine.log(id)).length;
    await look(id);
    const ends = (await tasksOf(id)).map(({ name, status }) => `${name} ${status}`);
    assert.deepEqual(new Set(ends), new Set(['a completed', 'begun completed', 'new cancelled']));
    assert.deepEqual([await lost(), (await engine.log(id)).length], [[], before]);
    await look(other);
    assert.equal((await tasksOf(other))[0]?.status, 'in_progress');
  });
});
