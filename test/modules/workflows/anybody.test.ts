/** Who does a task that asks for nobody and nothing, in a workspace with many agents. */
import assert from 'node:assert/strict';
import type { TaskRequirements } from '../../../db/tasks.ts';
import { listWorkers } from '../../../db/workers.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { submitTask } from '../../../modules/workflows/create-workflow.ts';
import { openEngine, type Engine } from '../../support/engine.ts';
import { makeManyAgents } from '../../support/queries/agents.ts';
import { lookNow, readWorkflow, startWorkflow, subtask } from '../../support/workflows.ts';

const COUNT = 1000;

describe('A task that anybody may do', () => {
  let engine: Engine;
  /** Agents of which nothing is known, each for one task at a time, the oldest first. */
  let agents: string[];
  /** Agents that had a bad week. */
  let bad: string[];

  before(async () => {
    engine = await openEngine();
    const { db } = engine.context;
    const like = await engine.agent({ constraints: { max_concurrent_tasks: 1 } });
    const health = { success_rate_7d: 0 };
    bad = [await engine.agent({ health }), await engine.agent({ health })];
    await makeManyAgents(db, { id: engine.tenantId, like, count: COUNT });
    const { workspaceId } = engine.caller;
    const all = await db.withTenant(engine.tenantId, (tx) => listWorkers(tx, { workspaceId, skills: [] }));
    agents = all.map(({ id }) => id).filter((id) => !bad.includes(id));
    assert.equal(agents.length, COUNT + 1);
  });
  after(() => engine.close());

  /** Looks at a workflow, and tells how many rows the largest answer of the database had. */
  const look = async (runId: string) => {
    let most = 0;
    const { db } = engine.context;
    const withTenant: typeof db.withTenant = (tenant, work) =>
      db.withTenant(tenant, (tx) =>
        work({
          ...tx,
          async query<R extends object>(sql: string, values?: readonly unknown[]) {
            const found = await tx.query<R>(sql, values);
            most = Math.max(most, found.length);
            return found;
          },
        }),
      );
    const context: Context = { ...engine.context, db: { ...db, withTenant } };
    await lookNow(context, { tenantId: engine.tenantId, runId });
    return most;
  };
  const doers = async (id: string) => (await readWorkflow(engine, id)).tasks.map((task) => task.assigned_agent_id);
  const doerOf = async (requirements: TaskRequirements) => {
    const idempotency = { tenantId: engine.tenantId, route: 'test', body: null };
    const request = {
      caller: engine.caller,
      description: 'Do it.',
      input: undefined,
      requirements,
      traceparent: undefined,
      idempotency,
    };
    const { body: id } = await submitTask(engine.context, request, (row) => row.workflow_id ?? '');
    await look(id);
    return (await doers(id))[0];
  };

  it('goes to the oldest that are free, without a look at all the others', async () => {
    const subtasks = Array.from({ length: 12 }, (_, n) => subtask(`s${n}`));
    const id = await startWorkflow(engine, subtasks, { agentId: undefined });
    assert.ok((await look(id)) < 500);
    assert.deepEqual(new Set(await doers(id)), new Set(agents.slice(0, 12)));
  });

  it('goes to whom it prefers, however many come before, and to nobody whom it excludes', async () => {
    const [last, next] = [agents[COUNT - 1], agents[12]];
    assert.equal(await doerOf({ preferred_agents: [last ?? ''] }), last);
    assert.equal(await doerOf({ excluded_agents: agents.slice(0, 100) }), agents[100]);
    assert.equal(await doerOf({ excluded_agents: [next ?? ''] }), agents[13]);
    assert.equal(await doerOf({}), next);
  });
});
