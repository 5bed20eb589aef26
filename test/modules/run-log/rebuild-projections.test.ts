import assert from 'node:assert/strict';
import { readClock, readClockIn } from '../../../db/clock.ts';
import { listFailedTurns } from '../../../db/dashboard.ts';
import { decideApproval } from '../../../modules/approvals/decide-approval.ts';
import { changeConversation, readThreadConversations } from '../../../modules/conversations/read-conversations.ts';
import { appendIn, appendToRun } from '../../../modules/run-log/append-to-run.ts';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import { cancelIn } from '../../../modules/runs/end-run.ts';
import { liveThroughEverything } from '../../support/eventful-runs.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { DOMAIN_MODE } from '../../support/modes.ts';
import { loseApprovals, reopenDenied, wholeApproval } from '../../support/queries/approvals.ts';
import {
  allOfProjection,
  loseRunAndTurns,
  loseTurns,
  spoilFirstTurn,
  spoilRun,
  statusesOfRuns,
} from '../../support/queries/runs.ts';
import { waitUntil } from '../../support/wait-until.ts';

describe('Rebuilding the projections', () => {
  let engine: Engine;
  let runs: string[];

  before(async () => {
    engine = await openEngine();
    runs = await liveThroughEverything(engine);
  });

  after(() => engine.close());

  const rebuild = (check: boolean) => rebuildProjections(engine.context.db, { check });
  const stored = (table: 'runs' | 'turns' | 'approvals') => allOfProjection(engine, table);

  it('finds every row as the log says, whatever has happened to the runs', async () => {
    assert.deepEqual(await statusesOfRuns(engine), [
      'awaiting_human',
      'awaiting_tool',
      'cancelled',
      'completed',
      'created',
      'failed',
    ]);
    assert.deepEqual(await rebuild(true), { runs: runs.length, differences: [] });
  });

  it('says what differs without changing it, and then puts it right', async () => {
    const tables = ['runs', 'turns', 'approvals'] as const;
    const before = await Promise.all(tables.map(stored));
    const [run = '', other = '', third = ''] = runs;
    await spoilRun(engine, run);
    await spoilFirstTurn(engine, other);
    await loseTurns(engine, third);
    await reopenDenied(engine);
    const denied = runs.length - 4;
    const { differences } = await rebuild(true);
    assert.deepEqual(
      differences.map(({ runId: of, table, column }) => `${runs.indexOf(of)} ${table} ${column}`).toSorted(),
      [
        '0 runs status',
        '0 runs steps',
        '1 turns cost_usd',
        '2 turns *',
        `${denied} approvals decided_at`,
        `${denied} approvals status`,
      ].toSorted(),
    );
    assert.deepEqual((await rebuild(true)).differences, differences);
    assert.deepEqual((await rebuild(false)).differences, differences);
    assert.deepEqual(await rebuild(true), { runs: runs.length, differences: [] });
    assert.deepEqual(await Promise.all(tables.map(stored)), before);
  });

  it('makes rows of approvals anew: of a plan with all its steps, of an edit with what the model had asked for', async () => {
    const agent = await engine.agent({ autonomy_level: 0 }, [{ name: 'slow' }]);
    const approval = (run: string) => wholeApproval(engine, run);
    engine.say((request, n) => {
      if (n > 1) return text('as you wish');
      const name = offered(request, 'slow');
      return use(...[1, 2, 3].slice(0, n === 0 ? 3 : 1).map((amount) => ({ name, input: { amount } })));
    });
    const planned = await engine.start(agent, 'three things');
    await engine.finish(planned.run);
    const edited = await engine.start(agent, 'one thing');
    await engine.finish(edited.run);
    const { id } = await approval(edited.run);
    const change = { decision: 'edit' as const, arguments: { amount: 20 } };
    await decideApproval(engine.context, { tenantId: engine.tenantId, id }, change);
    for (const { run } of [planned, edited]) {
      const before = await approval(run);
      await loseApprovals(engine, run);
      assert.equal((await rebuild(false)).differences.length, 1);
      assert.deepEqual(await approval(run), before);
    }
    const { status } = await approval(planned.run);
    assert.equal(status, 'pending');
  });

  it('leaves what clients keep with turns whose rows are lost', async () => {
    const agent = await engine.agent();
    engine.say([text('one'), text('two')]);
    const { run, thread: threadId } = await engine.start(agent, 'first', { config: { keep_open: true } });
    await engine.finish(run);
    const { db } = engine.context;
    const read = () =>
      db.withTenant(engine.tenantId, (tx) =>
        readThreadConversations(tx, engine.caller, { threadId, before: undefined, limit: 10 }),
      );
    const [turn] = (await read()).conversations;
    const kept = { threadId, id: turn?.row.id ?? '', extras: { credits_used: 42 } };
    await db.withTenant(engine.tenantId, (tx) => changeConversation(tx, engine.caller, kept));
    await loseTurns(engine, run);
    assert.deepEqual((await read()).conversations, []);
    assert.equal((await rebuild(false)).differences.length, 1);
    const [made] = (await read()).conversations;
    assert.deepEqual([made?.row.id, made?.row.extras], [kept.id, { credits_used: 42 }]);
  });

  it('says of failed turns whose rows are lost whose they were', async () => {
    const agentId = await engine.agent();
    engine.say([{ error: { status: 401, type: 'authentication_error' } }]);
    const { run } = await engine.start(agentId, 'first');
    await engine.finish(run);
    const { db } = engine.context;
    const page = { tenantId: engine.tenantId, workspaceId: engine.caller.workspaceId, agentId, limit: 10 };
    const failures = () => db.withTenant(engine.tenantId, (tx) => listFailedTurns(tx, page));
    const before = await failures();
    assert.equal(before.length, 1);
    await loseTurns(engine, run);
    assert.deepEqual(await failures(), []);
    assert.equal((await rebuild(false)).differences.length, 1);
    assert.deepEqual(await failures(), before);
  });

  it('makes the row of a run anew that has nothing left but its log, and the run goes on', async () => {
    const agent = await engine.agent();
    engine.say([text('one'), text('two')]);
    const { run } = await engine.start(agent, 'first', { config: { keep_open: true } });
    await engine.finish(run);
    await loseRunAndTurns(engine, run);
    assert.equal((await rebuild(false)).differences.length, 2);
    assert.deepEqual((await rebuild(true)).differences, []);
    await engine.post(agent, run, 'second');
    await engine.finish(run);
    assert.equal((await engine.conversation(run)).length, 4);
    assert.deepEqual((await rebuild(true)).differences, []);
  });

  it('finds the time of its event in each row, never before the event before it, though a transaction has waited', async function () {
    if (DOMAIN_MODE === 'embedded') this.skip();
    const { context, tenantId } = engine;
    const agent = await engine.agent({ autonomy_level: 0 }, [{ name: 'asked' }]);
    engine.say((request) => use({ name: offered(request, 'asked'), input: { amount: 1 } }));
    const { run } = await engine.start(agent, 'one thing');
    await engine.finish(run);
    const ref = { tenantId, runId: run };
    const payload = { model: 'm', attempt: 1, error: { code: 'overloaded', message: 'Later.' }, wait_ms: 1 };
    await context.db.withTenant(tenantId, async (tx) => {
      const began = await readClockIn(tx);
      await waitUntil('a later millisecond', async () => (await readClock(context.db)).getTime() > began.getTime());
      await appendToRun(context, ref, ({ open_turn_id }) => {
        return { events: [{ type: 'model.retried', actor: 'system', turn_id: open_turn_id ?? undefined, payload }] };
      });
      await appendIn(tx, ref, async (row) => (await cancelIn(tx, row, { by: undefined })).change);
    });
    const log = await engine.log(run);
    assert.ok(log.some(({ type }) => type === 'run.cancelled'));
    const times = log.map(({ occurred_at }) => occurred_at);
    assert.deepEqual(times, times.toSorted());
    assert.deepEqual((await rebuild(true)).differences, []);
  });
});
