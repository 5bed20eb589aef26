import assert from 'node:assert/strict';
import fc from 'fast-check';
import { holdTaskPlaces } from '../../../db/agent-lifecycle.ts';
import { findAnyApproval } from '../../../db/approvals.ts';
import { listLostJoins } from '../../../db/task-upkeep.ts';
import { SUBTASKS } from '../../../jobs/subtasks.ts';
import { decideApproval } from '../../../modules/approvals/decide-approval.ts';
import { cancelRun } from '../../../modules/runs/end-run.ts';
import { eraseRun } from '../../../modules/runs/erase-run.ts';
import { reconcile } from '../../../modules/run-log/reconcile.ts';
import { writeRun } from '../../../modules/runs/create-run.ts';
import { lockRun } from '../../../db/runs.ts';
import { askFor, lookAtParent, lookInPassing } from '../../../modules/workflows/advance-parent.ts';
import { maintain } from '../../../modules/platform/maintain.ts';
import { cancelTask } from '../../../modules/workflows/cancel-task.ts';
import { submitTask, type WorkflowRequest } from '../../../modules/workflows/create-workflow.ts';
import { retryWorkflow } from '../../../modules/workflows/restart-workflow.ts';
import type { TaskRow } from '../../../modules/workflows/read-workflows.ts';
import { newId } from '../../../lib/new-id.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { openEngine, text, type Engine } from '../../support/engine.ts';
import { DOMAIN_MODE } from '../../support/modes.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { lookNow, readWorkflow, startWorkflow, subtask } from '../../support/workflows.ts';
import { tokensBelow } from '../../support/queries/budgets.ts';
import { forbidFullReads, readRows } from '../../support/queries/postgres.ts';
import { childrenOfRun, statusOfRun, unerasedRunsBelow } from '../../support/queries/runs.ts';
import { ageTasks, analyzeTasks, spoilOpenInputs, textOfWorkflow } from '../../support/queries/workflows.ts';

const FIRST = '00000000-0000-0000-0000-000000000000';

/** A context whose transactions say how many rows of a table they have read. A table of a test is so small that it is read whole where that is not forbidden. */
function counting(context: Context, table: string): { context: Context; read: () => number } {
  let rows = 0;
  const withTenant: Context['db']['withTenant'] = (tenantId, work) =>
    context.db.withTenant(tenantId, async (tx) => {
      await forbidFullReads(tx);
      // What a session has counted in transactions before is told from time to time only, and stands in the sum until then.
      const before = await readRows(tx, table);
      // What is counted afterwards is part of the transaction.
      const done = await work({ ...tx, last: (sql, values) => tx.query(sql, values) });
      rows += (await readRows(tx, table)) - before;
      return done;
    });
  return { context: { ...context, db: { ...context.db, withTenant } }, read: () => rows };
}

/** A context that knows how often its transactions have waited for the database: what is sent meanwhile goes along. */
function waiting(context: Context): { context: Context; waits: () => number } {
  let [waits, open] = [0, 0];
  const counted = async <R>(sent: Promise<R>): Promise<R> => {
    if (open++ === 0) waits += 1;
    return sent.finally(() => (open -= 1));
  };
  const withTenant: Context['db']['withTenant'] = (tenantId, work) =>
    context.db.withTenant(tenantId, async (tx) => {
      let isCommitted = false;
      const done = await work({
        query: (sql, values) => counted(tx.query(sql, values)),
        last: (sql, values) => {
          isCommitted = true;
          return counted(tx.last(sql, values));
        },
      });
      if (!isCommitted) waits += 1;
      return done;
    });
  return { context: { ...context, db: { ...context.db, withTenant } }, waits: () => waits };
}

describe('The scheduler of a workflow', () => {
  let engine: Engine;
  let agent: string;

  before(async () => {
    engine = await openEngine();
    agent = await engine.agent();
  });
  after(() => engine.close());
  beforeEach(() => engine.say(() => text('done')));

  const start = (subtasks: ReturnType<typeof subtask>[], more: Partial<WorkflowRequest> = {}) =>
    startWorkflow(engine, subtasks, { agentId: agent, ...more });
  const advance = (id: string) => lookNow(engine.context, { tenantId: engine.tenantId, runId: id });
  const read = (id: string) => readWorkflow(engine, id);
  const task = async (id: string, name: string): Promise<TaskRow> => {
    const found = (await read(id)).tasks.find((each) => each.name === name);
    assert.ok(found);
    return found;
  };
  const childOf = async (id: string, name: string) => (await task(id, name)).run_id ?? '';
  const children = (id: string) => childrenOfRun(engine, id);
  const typesOf = async (id: string) => (await engine.log(id)).map(({ type }) => type);

  it('does each subtask once, however often it looks, and whatever job is lost', async () => {
    const id = await start([subtask('a'), subtask('b'), subtask('c', 'a', 'b'), subtask('d', 'c')]);
    for (const names of [['a', 'b'], ['c'], ['d']]) {
      // Every job comes twice, and at once.
      await Promise.all([advance(id), advance(id)]);
      assert.equal(await advance(id), 'passed');
      for (const name of names) {
        await engine.everyoneDies();
        await engine.finish(await childOf(id, name));
      }
    }
    await Promise.all([advance(id), advance(id)]);
    const runs = await children(id);
    assert.deepEqual([runs.length, new Set(runs.map((run) => run.parent_task_id)).size], [4, 4]);
    assert.equal((await read(id)).workflow.status, 'completed');
    const log = await typesOf(id);
    for (const type of ['task.assigned', 'task.completed'] as const) {
      assert.equal(log.filter((each) => each === type).length, 4);
    }
  });

  it('reads no more for a join of a large workflow than for one of a small one', async () => {
    const wide = (width: number) => [
      ...Array.from({ length: width }, (_, at) => subtask(`a${at}`)),
      ...Array.from({ length: width }, (_, at) => subtask(`b${at}`, `a${at}`, `a${(at + 1) % width}`)),
    ];
    const joins = async (width: number): Promise<number> => {
      const id = await start(wide(width));
      await advance(id);
      // As Postgres does within a minute, and maintenance each hour, for whoever began with a table that was nearly empty.
      await analyzeTasks(engine);
      await maintain(engine.context, 'make-partitions');
      const { tasks } = await read(id);
      const begun = tasks.flatMap(({ run_id }) => run_id ?? []).slice(0, 3);
      let rows = 0;
      for (const childId of begun) {
        await engine.finish(childId);
        const { context, read: seen } = counting(engine.context, 'tasks');
        assert.equal(await lookNow(context, { tenantId: engine.tenantId, runId: id, childIds: [childId] }), 'advanced');
        rows += seen();
      }
      await cancelRun(engine.context, { tenantId: engine.tenantId, runId: id });
      return rows / begun.length;
    };
    // As many run at a time in each.
    const [small, large] = [await joins(70), await joins(400)];
    assert.ok(large < 400, `${large} of 800`);
    assert.ok(large <= 2 * small, `${small} rows of 140 tasks, ${large} of 800`);
  });

  it('waits for the database three times to join a child and start what it lets begin', async () => {
    const id = await start([subtask('a'), subtask('b', 'a'), subtask('c', 'a')]);
    await advance(id);
    const [first] = (await read(id)).tasks.flatMap(({ run_id }) => run_id ?? []);
    assert.ok(first);
    await engine.finish(first);
    const { context, waits } = waiting(engine.context);
    const look = { tenantId: engine.tenantId, runId: id, childIds: [first] };
    assert.equal(await lookNow(context, look), 'advanced');
    assert.equal((await read(id)).tasks.filter(({ status }) => status === 'in_progress').length, 2);
    assert.equal(waits(), 3);
    await cancelRun(engine.context, { tenantId: engine.tenantId, runId: id });
  });

  it('is looked at in passing without waiting for a model: a job asks it', async () => {
    const id = await start([subtask('a'), subtask('b')]);
    await advance(id);
    for (const { run_id } of (await read(id)).tasks) await engine.finish(run_id ?? '');
    const asked = engine.model.requests.length;
    const queue = engine.context.queues.queue(SUBTASKS.name);
    const looks = async () =>
      (await queue.getJobs(['prioritized', 'waiting'])).filter(({ id: job }) => job?.startsWith(`look-${id}-`));
    await lookInPassing(engine.context, { tenantId: engine.tenantId, runId: id });
    assert.deepEqual([engine.model.requests.length, (await looks()).length], [asked, 1]);
    await advance(id);
    assert.equal((await read(id)).workflow.status, 'completed');
    for (const job of await looks()) await job.remove();
  });

  it('waits for the database a few times to be created, and to see that all is done', async () => {
    const { context, waits } = waiting(engine.context);
    const id = await startWorkflow({ ...engine, context }, [subtask('a'), subtask('b')], { agentId: agent });
    const created = waits();
    await advance(id);
    const childIds = (await read(id)).tasks.flatMap(({ run_id }) => run_id ?? []);
    for (const childId of childIds) await engine.finish(childId);
    const look = { tenantId: engine.tenantId, runId: id, childIds };
    const before = waits();
    const looked = await lookAtParent(context, look);
    assert.deepEqual([looked.outcome, looked.need], ['advanced', 'answer']);
    const seen = waits() - before;
    await askFor(context, { ...look, stop: new AbortController().signal }, 'answer');
    assert.equal((await read(id)).workflow.status, 'completed');
    // One more where a cache was just dropped. Of each of the two questions that are asked the log is told before it, and at the end.
    const asked = waits() - before - seen;
    assert.ok(created <= 8 && seen <= 5 && asked <= 7 + 3 * 2, `${created}, ${seen}, ${asked}`);
  });

  const delays = async (run: string) => {
    const jobs = await engine.context.queues.queue(SUBTASKS.name).getDelayed();
    return jobs.filter(({ data }) => data.runId === run).map(({ opts }) => opts.delay ?? 0);
  };

  // The one session of an embedded database does one after the other.
  if (DOMAIN_MODE !== 'embedded') {
    it('looks again soon where another workflow is just about to give the agent a task', async () => {
      const one = await engine.agent({ constraints: { max_concurrent_tasks: 1 } });
      const id = await start([subtask('a')], { agentId: one });
      await engine.context.db.withTenant(engine.tenantId, async (tx) => {
        assert.equal(await holdTaskPlaces(tx, one), 0);
        await advance(id);
      });
      await waitUntil('the look is sent', async () => (await delays(id)).length === 1);
      const [soon = 0] = await delays(id);
      assert.ok(soon >= 100 && soon < 300, `${soon} ms`);
      assert.equal((await task(id, 'a')).status, 'pending');
      await advance(id);
      assert.equal((await task(id, 'a')).status, 'in_progress');
      await cancelRun(engine.context, { tenantId: engine.tenantId, runId: id });
    });
  }

  it('looks again later where the agent has as many tasks as it takes', async () => {
    const one = await engine.agent({ constraints: { max_concurrent_tasks: 1 } });
    const [id, other] = [await start([subtask('a')], { agentId: one }), await start([subtask('b')], { agentId: one })];
    await advance(id);
    await advance(other);
    await waitUntil('the look is sent', async () => (await delays(other)).length === 1);
    assert.deepEqual(await delays(other), [1000]);
    await cancelRun(engine.context, { tenantId: engine.tenantId, runId: id });
    await cancelRun(engine.context, { tenantId: engine.tenantId, runId: other });
  });

  it('says that a task is done which ends while it is about to be cancelled', async () => {
    const id = await start([subtask('a'), subtask('b', 'a')]);
    await advance(id);
    const { id: taskId } = await task(id, 'a');
    let ending: Promise<unknown> | undefined;
    const withTenant: Context['db']['withTenant'] = async (tenantId, work) => {
      const done = await engine.context.db.withTenant(tenantId, work);
      ending ??= engine.finish(await childOf(id, 'a')).then(() => advance(id));
      await ending;
      return done;
    };
    const late = { ...engine.context, db: { ...engine.context.db, withTenant } };
    await assert.rejects(cancelTask(late, engine.caller, taskId), /completed already/);
    await engine.finish(await childOf(id, 'b'));
    await advance(id);
    assert.equal((await read(id)).workflow.status, 'completed');
  });

  it('knows a task as done whose child has ended, though nobody has looked since: it is not cancelled', async () => {
    const id = await start([subtask('a'), subtask('b', 'a')]);
    await advance(id);
    const { id: taskId } = await task(id, 'a');
    await engine.finish(await childOf(id, 'a'));
    await assert.rejects(cancelTask(engine.context, engine.caller, taskId), /completed already/);
    await advance(id);
    await engine.finish(await childOf(id, 'b'));
    await advance(id);
    assert.equal((await read(id)).workflow.status, 'completed');
  });

  it('does not repeat what was done when it was cancelled, though nobody had looked since', async () => {
    const id = await start([subtask('a'), subtask('b'), subtask('c', 'a')]);
    await advance(id);
    await engine.finish(await childOf(id, 'a'));
    await cancelRun(engine.context, { tenantId: engine.tenantId, runId: id });
    const of = async (run: string) =>
      Object.fromEntries((await read(run)).tasks.map(({ name, status }) => [name, status]));
    assert.deepEqual(await of(id), { a: 'completed', b: 'cancelled', c: 'cancelled' });
    assert.equal((await typesOf(id)).filter((type) => type === 'task.completed').length, 1);
    const idempotency = { tenantId: engine.tenantId, route: 'test', body: null };
    const request = {
      tenantId: engine.tenantId,
      runId: id,
      requestedBy: undefined,
      idempotency,
      traceparent: undefined,
    };
    const { run_id: again } = (await retryWorkflow(engine.context, request)).body;
    await advance(again);
    assert.deepEqual(await of(again), { a: 'completed', b: 'in_progress', c: 'in_progress' });
    assert.equal(await childOf(again, 'a'), await childOf(id, 'a'));
    await cancelRun(engine.context, { tenantId: engine.tenantId, runId: again });
  });

  it('goes on where the rows do not say what is ready', async () => {
    const id = await start([subtask('a'), subtask('b', 'a')]);
    await advance(id);
    await engine.finish(await childOf(id, 'a'));
    await spoilOpenInputs(engine, id);
    await advance(id);
    await engine.finish(await childOf(id, 'b'));
    await advance(id);
    assert.equal((await read(id)).workflow.status, 'completed');
  });

  it('is found where a child has ended and nobody has told it', async () => {
    const id = await start([subtask('a')]);
    await advance(id);
    const { run_id: run } = await task(id, 'a');
    const lost = () =>
      listLostJoins(engine.context.db, {
        quietMs: 0,
        tenantId: engine.tenantId,
        after: FIRST,
        embeds: true,
        limit: 10,
      });
    assert.deepEqual(await lost(), []);
    await engine.finish(run ?? '');
    assert.deepEqual(
      (await lost()).map(({ workflow_id, run_id }) => [workflow_id, run_id]),
      [[id, run]],
    );
    await advance(id);
    assert.deepEqual(await lost(), []);
  });

  it('is found where its process dies between the last end and the question to a model', async () => {
    const id = await start([subtask('a'), subtask('b')]);
    await advance(id);
    for (const name of ['a', 'b']) await engine.finish(await childOf(id, name));
    const childId = await childOf(id, 'b');
    const dead = { ...engine.context, claim: () => Promise.reject(new Error('killed')) };
    const last = { tenantId: engine.tenantId, runId: id, childIds: [childId] };
    await assert.rejects(lookNow(dead, last), /killed/);
    assert.equal(await lookNow(engine.context, last), 'passed', 'the job that comes again finds the end seen');
    assert.equal((await reconcile(engine.context, 0, engine.tenantId)).turns, 1);
    assert.equal(await engine.drive(id), 'yielded');
    await advance(id);
    assert.equal((await read(id)).workflow.status, 'completed');
  });

  it('has another one try what has failed, then the same again, and then fails with the name of the subtask', async () => {
    const capabilities = [{ skill_name: 'skill', proficiency: 1 }];
    const [one, two] = [await engine.agent({ capabilities }), await engine.agent({ capabilities })];
    engine.say((request) =>
      /Do bad/.test(JSON.stringify(request.messages))
        ? { error: { status: 400, type: 'invalid_request_error' } }
        : text('done'),
    );
    const bad = { ...subtask('bad'), required_capabilities: ['skill'] };
    const id = await start([bad, subtask('other'), subtask('never', 'bad')]);
    const tried: (string | null)[] = [];
    for (let attempt = 0; attempt < 3; attempt++) {
      await advance(id);
      tried.push((await task(id, 'bad')).assigned_agent_id);
      assert.equal((await task(id, 'bad')).retry_count, attempt);
      await engine.finish(await childOf(id, 'bad'));
    }
    assert.deepEqual(new Set(tried), new Set([one, two]));
    assert.notEqual(tried[0], tried[1]);
    const running = await childOf(id, 'other');
    assert.equal(await advance(id), 'ended');
    const { workflow, tasks } = await read(id);
    assert.deepEqual([workflow.status, workflow.error?.code], ['failed', 'SubtaskFailed']);
    assert.match(workflow.error?.message ?? '', /subtask bad /);
    assert.deepEqual(
      tasks.map(({ status }) => status),
      ['failed', 'cancelled', 'cancelled'],
    );
    assert.equal(await statusOfRun(engine, running), 'cancelled');
  });

  it('asks a person about what has failed for good, while the other subtasks go on', async () => {
    let works = false;
    engine.say((request) => {
      const isBad = /Do bad/.test(JSON.stringify(request.messages[0]));
      return isBad && !works ? { error: { status: 400, type: 'invalid_request_error' } } : text('done');
    });
    const settings = { on_subtask_failure: 'ask' as const, execution: 'eager' as const, max_replans: 0 };
    const id = await start([subtask('bad'), subtask('good'), subtask('last', 'bad', 'good')], { settings });
    for (let attempt = 0; attempt < 3; attempt++) {
      await advance(id);
      await engine.finish(await childOf(id, 'bad'));
    }
    await advance(id);
    assert.equal((await read(id)).workflow.status, 'awaiting_human');
    const good = await childOf(id, 'good');
    await engine.finish(good);
    await advance(id);
    assert.equal((await task(id, 'good')).status, 'completed');
    works = true;
    const approval = (await task(id, 'bad')).approval_id ?? '';
    await decideApproval(engine.context, { tenantId: engine.tenantId, id: approval }, { decision: 'approve' });
    await advance(id);
    assert.equal((await read(id)).workflow.status, 'executing');
    await engine.finish(await childOf(id, 'bad'));
    await advance(id);
    await engine.finish(await childOf(id, 'last'));
    await advance(id);
    const { workflow } = await read(id);
    assert.equal(workflow.status, 'completed');
    assert.equal(await childOf(id, 'good'), good, 'what was done was not done again');
  });

  it('asks about what has failed for as long as its agent says', async () => {
    engine.say(() => ({ error: { status: 400, type: 'invalid_request_error' } }));
    const settings = { on_subtask_failure: 'ask' as const, execution: 'eager' as const, max_replans: 0 };
    const agentId = await engine.agent({ execution_config: { approval_timeout_seconds: 60 } });
    const id = await start([subtask('bad')], { settings, agentId });
    for (let attempt = 0; attempt < 3; attempt++) {
      await advance(id);
      await engine.finish(await childOf(id, 'bad'));
    }
    await advance(id);
    const approvalId = (await task(id, 'bad')).approval_id ?? '';
    const approval = await engine.context.db.withTenant(engine.tenantId, (tx) =>
      findAnyApproval(tx, { id: approvalId }),
    );
    assert.ok(approval);
    assert.equal(approval.expires_at.getTime() - approval.created_at.getTime(), 60_000);
  });

  it('gives a task the time anew that it had, where a person has it tried again after its deadline', async () => {
    const settings = { on_subtask_failure: 'ask' as const, execution: 'eager' as const, max_replans: 0 };
    const id = await start([subtask('a')], { settings });
    const HOUR = 3_600_000;
    const late = await submitTask(
      engine.context,
      {
        caller: engine.caller,
        description: 'Do late.',
        workflowId: id,
        input: undefined,
        requirements: { deadline: new Date(Date.now() + HOUR).toISOString() },
        idempotency: { tenantId: engine.tenantId, route: 'test', body: null },
      },
      (row) => row,
    );
    const pass = (workflow: string) => ageTasks(engine, workflow);
    const left = async (workflow: string) =>
      ((await task(workflow, late.body.name)).deadline?.getTime() ?? 0) - Date.now();
    const fails = async () => {
      await pass(id);
      await advance(id);
      const { status, error, approval_id } = await task(id, late.body.name);
      assert.deepEqual([status, error?.code], ['failed', 'deadline']);
      return approval_id ?? '';
    };
    for (let time = 0; time < 2; time++) {
      const approval = await fails();
      await decideApproval(engine.context, { tenantId: engine.tenantId, id: approval }, { decision: 'approve' });
      await advance(id);
      assert.equal((await task(id, late.body.name)).status, 'in_progress');
      assert.ok(Math.abs((await left(id)) - HOUR) < HOUR / 2, `${await left(id)}`);
    }
    await fails();
    await cancelRun(engine.context, { tenantId: engine.tenantId, runId: id });
    const again = await retryWorkflow(engine.context, {
      tenantId: engine.tenantId,
      runId: id,
      idempotency: { tenantId: engine.tenantId, route: 'test', body: null },
      traceparent: undefined,
    });
    const next = again.body.new_run_id;
    await advance(next);
    assert.equal((await task(next, late.body.name)).status, 'in_progress');
    assert.ok(Math.abs((await left(next)) - HOUR) < HOUR / 2, `${await left(next)}`);
    await cancelRun(engine.context, { tenantId: engine.tenantId, runId: next });
  });

  it('leaves nothing running that stands below what is cancelled, and erases it with it', async () => {
    // A planner asks for skills in words of its own.
    const asking = { ...subtask('later', 'b'), required_capabilities: ['secret skill'] };
    const id = await start([subtask('a'), subtask('b'), subtask('secret', 'a'), asking]);
    assert.match(await textOfWorkflow(engine, id), /secret skill/);
    await advance(id);
    await engine.finish(await childOf(id, 'a'));
    await advance(id);
    const lowest = await grandchild(await childOf(id, 'b'));
    assert.equal(await cancelRun(engine.context, { tenantId: engine.tenantId, runId: id }), true);
    assert.equal(await statusOfRun(engine, lowest), 'cancelled');
    assert.deepEqual(
      (await children(id)).filter(({ status }) => status !== 'completed').map(({ status }) => status),
      ['cancelled', 'cancelled'],
    );
    assert.equal(await advance(id), 'passed');
    await eraseRun(engine.context, engine.caller, { id, dependents: false });
    assert.deepEqual(await unerasedRunsBelow(engine, id), []);
    assert.doesNotMatch(await textOfWorkflow(engine, id), /Do |secret/);
  });

  it('has children five levels deep, and no deeper', async () => {
    const { run: top } = await engine.start(agent, 'top');
    let parent = top;
    for (let depth = 1; depth <= 5; depth++) parent = await grandchild(parent);
    await assert.rejects(grandchild(parent), /5 levels deep/);
    await cancelRun(engine.context, { tenantId: engine.tenantId, runId: top });
  });

  /** A run below another one, whatever that is. */
  async function grandchild(parentId: string, budget?: { max_tokens: number }): Promise<string> {
    const { body } = await engine.context.db.withTenant(engine.tenantId, async (tx) => {
      const parent = await lockRun(tx, parentId);
      assert.ok(parent);
      return writeRun(engine.context, tx, {
        tenantId: engine.tenantId,
        workspaceId: engine.caller.workspaceId,
        agentId: agent,
        input: { message: 'work' },
        config: budget ? { budget } : {},
        mayRaiseAutonomy: true,
        child: { parent, taskId: newId(), attempt: 0 },
      });
    });
    return body.run_id;
  }

  it('never spends more below a run than its budget, whoever has set it', async () => {
    engine.say(() => text('some words that cost tokens'));
    const shape = fc.array(fc.record({ parent: fc.nat(), limit: fc.option(fc.integer({ min: 100, max: 6000 })) }), {
      minLength: 1,
      maxLength: 6,
    });
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 100, max: 9000 }), shape, async (limit, nodes) => {
        const config = { budget: { max_tokens: limit } };
        const { run: root } = await engine.start(agent, 'work', { config });
        const runs: { id: string; above: string[]; limit: number | null }[] = [{ id: root, above: [], limit }];
        for (const node of nodes) {
          const parents = runs.filter(({ above }) => above.length < 5);
          const parent = parents[node.parent % parents.length];
          assert.ok(parent);
          const id = await grandchild(parent.id, node.limit === null ? undefined : { max_tokens: node.limit });
          runs.push({ id, above: [...parent.above, parent.id], limit: node.limit });
        }
        await Promise.all(runs.map(({ id }) => engine.drive(id)));
        const rows = await tokensBelow(engine, root);
        const spent = new Map(rows.map(({ run_id, tokens }) => [run_id, Number(tokens)]));
        for (const { id, limit: most } of runs) {
          const below = runs.filter((each) => each.id === id || each.above.includes(id));
          const sum = below.reduce((total, each) => total + (spent.get(each.id) ?? 0), 0);
          assert.ok(most === null || sum <= most, `${sum} of ${most}`);
        }
        await cancelRun(engine.context, { tenantId: engine.tenantId, runId: root }).catch(() => undefined);
      }),
      { numRuns: 12 },
    );
  });
});
