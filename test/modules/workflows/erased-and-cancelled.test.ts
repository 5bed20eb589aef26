/** Workflows of which a part is erased or cancelled while the rest goes on. */
import assert from 'node:assert/strict';
import { findHandoff, insertHandoff, lockHandoff, noteReturned } from '../../../db/handoffs.ts';
import { findRunRow, listBelowIds, lockRun } from '../../../db/runs.ts';
import { newId } from '../../../lib/new-id.ts';
import { decideApproval } from '../../../modules/approvals/decide-approval.ts';
import { cancelRun } from '../../../modules/runs/end-run.ts';
import { eraseRun } from '../../../modules/runs/erase-run.ts';
import { cancelTask } from '../../../modules/workflows/cancel-task.ts';
import { submitTask } from '../../../modules/workflows/create-workflow.ts';
import { openEngine, text, type Engine } from '../../support/engine.ts';
import { DOMAIN_MODE } from '../../support/modes.ts';
import { sessionsWaitingIn } from '../../support/queries/postgres.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { lookNow, readWorkflow, startWorkflow, subtask } from '../../support/workflows.ts';

/** What a handoff of a run says. */
const HANDOFF = {
  task_id: null,
  workflow_id: null,
  tool_call_id: null,
  previous_id: null,
  place: 1,
  carried_by: 'run',
  reason: 'It is theirs.',
  urgency: 'low',
  expected_action: null,
  context: {},
  schema_version: 'v1',
  checksum: '',
  target_tokens: 1,
  summary: {},
  summary_tokens: 0,
  full_tokens: 0,
  requested_by: null,
  pickup_ms: 0,
} as const;

describe('A workflow of which a part is gone', () => {
  let engine: Engine;
  let agent: string;

  before(async () => {
    engine = await openEngine();
    agent = await engine.agent();
  });
  after(() => engine.close());
  beforeEach(() => engine.say(() => text('done')));

  const advance = (id: string) => lookNow(engine.context, { tenantId: engine.tenantId, runId: id });
  const read = (id: string) => readWorkflow(engine, id);
  const task = async (id: string, name: string) => {
    const found = (await read(id)).tasks.find((each) => each.name === name);
    assert.ok(found);
    return found;
  };
  const finish = async (id: string, name: string) => engine.finish((await task(id, name)).run_id ?? '');
  const submit = (workflowId?: string) =>
    submitTask(
      engine.context,
      {
        caller: engine.caller,
        description: 'Do it.',
        input: undefined,
        requirements: {},
        workflowId,
        idempotency: { tenantId: engine.tenantId, route: 'test', body: newId() },
      },
      (row) => row,
    );
  /** Both tasks are done; the result of `a` is erased before `b` is. */
  const eraseAmid = async (id: string) => {
    await advance(id);
    await finish(id, 'a');
    await advance(id);
    await eraseRun(engine.context, engine.caller, { id: (await task(id, 'a')).run_id ?? '', dependents: false });
    await finish(id, 'b');
    await advance(id);
  };
  const cancel = (id: string) => cancelTask(engine.context, engine.caller, id);

  it('erases the subtasks, too, that begin while it is being erased', async function () {
    if (DOMAIN_MODE === 'embedded') this.skip();
    const id = await startWorkflow(engine, [subtask('a'), subtask('b')], { agentId: agent });
    const { db } = engine.context;
    const waiting = (most: number) => async () => (await sessionsWaitingIn(db, 'for update')).length === most;
    let under: Promise<unknown>[] = [];
    await db.withTenant(engine.tenantId, async (tx) => {
      await lockRun(tx, id);
      under = [advance(id)];
      await waitUntil('the subtasks are about to begin', waiting(1));
      under.push(eraseRun(engine.context, engine.caller, { id, dependents: true }));
      await waitUntil('the erasure waits behind them', waiting(2));
    });
    await Promise.all(under);
    const ids = [id, ...(await db.withTenant(engine.tenantId, (tx) => listBelowIds(tx, [id])))];
    assert.equal(ids.length, 3);
    const rows = await Promise.all(ids.map((each) => db.withTenant(engine.tenantId, (tx) => findRunRow(tx, each))));
    for (const row of rows) assert.ok(row?.erased_at);
  });

  it('waits for the handoffs of a run in the order of their ids, wherever they lie, as whoever erases what works for it', async function () {
    if (DOMAIN_MODE === 'embedded') this.skip();
    const { context, caller, tenantId } = engine;
    const { run } = await engine.start(agent, 'hello');
    await cancelRun(context, { tenantId, runId: run });
    const [first, second] = [newId(), newId()];
    await context.db.withTenant(tenantId, async (tx) => {
      for (const id of [first, second]) await insertHandoff(tx, { ...HANDOFF, ...of(run), id });
    });
    // A row that was changed lies behind the others.
    await context.db.withTenant(tenantId, (tx) => noteReturned(tx, first, null));
    let erasing: Promise<boolean> | undefined;
    await context.db.withTenant(tenantId, async (tx) => {
      await lockHandoff(tx, first);
      erasing = eraseRun(context, caller, { id: run, dependents: false });
      await waitUntil('the erasure waits for the first', async () => {
        return (await sessionsWaitingIn(context.db, 'update handoffs')).length === 1;
      });
      await lockHandoff(tx, second);
    });
    assert.equal(await erasing, true);
    const rows = await context.db.withTenant(tenantId, (tx) =>
      Promise.all([first, second].map((id) => findHandoff(tx, id))),
    );
    assert.deepEqual(
      rows.map((row) => row?.reason),
      ['', ''],
    );
  });

  const of = (run: string) => {
    const { workspaceId: workspace_id } = engine.caller;
    return {
      tenant_id: engine.tenantId,
      workspace_id,
      source_agent_id: agent,
      target_agent_id: agent,
      source_run_id: run,
    };
  };

  it('fails a subtask that needs what is erased, and says so; it had begun with nothing in its place', async () => {
    const id = await startWorkflow(engine, [subtask('a'), subtask('b'), subtask('c', 'a', 'b')], { agentId: agent });
    await eraseAmid(id);
    const { status, error, run_id } = await task(id, 'c');
    assert.deepEqual([status, error?.code, run_id], ['failed', 'erased', null]);
    assert.match(error?.message ?? '', /result of a, which it needs, is erased/);
    assert.equal((await read(id)).workflow.status, 'failed');
  });

  const asking = { on_subtask_failure: 'ask' as const, execution: 'eager' as const, max_replans: 0 };

  it('fails with a subtask that is erased once somebody has approved that it is tried again, and asks no more', async () => {
    const id = await startWorkflow(engine, [subtask('a')], { agentId: agent, settings: asking });
    await advance(id);
    const child = (await task(id, 'a')).run_id ?? '';
    await cancelRun(engine.context, { tenantId: engine.tenantId, runId: child });
    await advance(id);
    await eraseRun(engine.context, engine.caller, { id: child, dependents: false });
    const approval = (await task(id, 'a')).approval_id ?? '';
    await decideApproval(engine.context, { tenantId: engine.tenantId, id: approval }, { decision: 'approve' });
    await advance(id);
    const { workflow } = await read(id);
    assert.deepEqual([workflow.status, workflow.error?.code], ['failed', 'SubtaskFailed']);
    assert.match(workflow.error?.message ?? '', /What was to be done is erased/);
  });

  it('fails at once with a subtask that is cancelled and erased, of which nothing could be tried again', async () => {
    const id = await startWorkflow(engine, [subtask('a')], { agentId: agent, settings: asking });
    await advance(id);
    await eraseRun(engine.context, engine.caller, { id: (await task(id, 'a')).run_id ?? '', dependents: false });
    await advance(id);
    assert.deepEqual([(await read(id)).workflow.status, (await task(id, 'a')).approval_id], ['failed', null]);
  });

  it('fails with a subtask that needs what is erased, though a person is asked about what fails', async () => {
    const id = await startWorkflow(engine, [subtask('a'), subtask('b', 'a')], { agentId: agent, settings: asking });
    await advance(id);
    await finish(id, 'a');
    await eraseRun(engine.context, engine.caller, { id: (await task(id, 'a')).run_id ?? '', dependents: false });
    await advance(id);
    assert.match((await read(id)).workflow.error?.message ?? '', /The result of a, which it needs, is erased/);
  });

  it('answers that a result is erased where it is one of those that it comes to', async () => {
    const id = await startWorkflow(engine, [subtask('a'), subtask('b')], { agentId: agent });
    await eraseAmid(id);
    const { workflow } = await read(id);
    assert.equal(workflow.status, 'completed');
    assert.deepEqual(workflow.output, [{ type: 'text', text: 'a:\n[erased]\n\nb:\ndone' }]);
  });

  it('knows a task as done whose child was erased after it had done it, whether or not anybody has looked', async () => {
    for (const looks of [true, false]) {
      const id = await startWorkflow(engine, [subtask('a'), subtask('b')], { agentId: agent });
      await advance(id);
      await finish(id, 'a');
      await eraseRun(engine.context, engine.caller, { id: (await task(id, 'a')).run_id ?? '', dependents: false });
      if (looks) await advance(id);
      await assert.rejects(cancel((await task(id, 'a')).id), /completed already/);
      await cancelRun(engine.context, { tenantId: engine.tenantId, runId: id });
      const statuses = (await read(id)).tasks.map(({ status }) => status);
      assert.deepEqual(statuses, ['completed', 'cancelled'], `looked: ${looks}`);
    }
  });

  it('goes on with the other tasks where it is made of nothing else, and ends with the last of them', async () => {
    const { body: first } = await submit();
    const id = first.workflow_id ?? '';
    const { body: second } = await submit(id);
    const { body: third } = await submit(id);
    await advance(id);
    assert.equal(await cancel(first.id), true);
    assert.equal(await cancel(first.id), false);
    await advance(id);
    const statuses = async () => (await read(id)).tasks.map(({ status }) => status);
    assert.deepEqual(await statuses(), ['cancelled', 'in_progress', 'in_progress']);
    await engine.finish((await read(id)).tasks[1]?.run_id ?? '');
    await advance(id);
    assert.equal((await read(id)).workflow.status, 'executing');
    assert.equal(await cancel(third.id), true);
    await advance(id);
    assert.deepEqual(await statuses(), ['cancelled', 'completed', 'cancelled']);
    assert.equal((await read(id)).workflow.status, 'completed');
    await assert.rejects(cancel(second.id), { status: 409 });
    const { body: alone } = await submit();
    const { body: beside } = await submit(alone.workflow_id ?? '');
    await advance(alone.workflow_id ?? '');
    const all = await Promise.all([cancel(alone.id), cancel(beside.id)]);
    assert.deepEqual(all, [true, true]);
    const { workflow, tasks } = await read(alone.workflow_id ?? '');
    assert.deepEqual([workflow.status, ...tasks.map(({ status }) => status)], ['cancelled', 'cancelled', 'cancelled']);
  });
});
