import assert from 'node:assert/strict';
import { decideApproval, expireApproval } from '../../../modules/approvals/decide-approval.ts';
import { cancelRun, completeRun, failRun } from '../../../modules/runs/end-run.ts';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import { replayRun } from '../../../modules/runs/replay-run.ts';
import { retryRun } from '../../../modules/runs/retry-run.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { approvalsOfRun } from '../../support/queries.ts';

const SUM = use({ name: 'calculator', input: { expression: '1 + 1' } });

describe('Rebuilding the projections', () => {
  let engine: Engine;
  let runs: string[];

  before(async () => {
    engine = await openEngine();
    runs = await liveThroughEverything(engine);
  });

  after(() => engine.close());

  const rebuild = (check: boolean) => rebuildProjections(engine.context.db, { check });
  const stored = (table: string) => engine.rows(`select to_jsonb(t) - 'updated_at' as row from ${table} t order by id`);

  it('finds every row as the log says, whatever has happened to the runs', async () => {
    const statuses = await engine.rows('select distinct status from runs order by status');
    assert.deepEqual(
      statuses.map((row) => (row as { status: string }).status),
      ['awaiting_human', 'awaiting_tool', 'cancelled', 'completed', 'created', 'failed'],
    );
    assert.deepEqual(await rebuild(true), { runs: runs.length, differences: [] });
  });

  it('says what differs without changing it, and then puts it right', async () => {
    const tables = ['runs', 'turns', 'approvals'];
    const before = await Promise.all(tables.map(stored));
    const [run = '', other = '', third = ''] = runs;
    await engine.tamper(`update runs set steps = 99, status = 'created' where id = $1`, run);
    await engine.tamper(`update turns set cost_usd = cost_usd + 1 where run_id = $1 and number = 1`, other);
    await engine.tamper('delete from turns where run_id = $1', third);
    await engine.tamper(`update approvals set status = 'pending', decided_at = null where status = 'denied'`);
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
    const approval = async (run: string) => {
      const row = await engine.row<{ row: { id: string; status: string } }>(
        `select to_jsonb(a) - 'expires_at' as row from approvals a where run_id = $1`,
        run,
      );
      return row.row;
    };
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
    await decideApproval(engine.context, { tenantId: engine.tenant, id }, change);
    for (const { run } of [planned, edited]) {
      const before = await approval(run);
      await engine.tamper('delete from approvals where run_id = $1', run);
      assert.equal((await rebuild(false)).differences.length, 1);
      assert.deepEqual(await approval(run), before);
    }
    const { status } = await approval(planned.run);
    assert.equal(status, 'pending');
  });

  it('makes the row of a run anew that has nothing left but its log, and the run goes on', async () => {
    const agent = await engine.agent();
    engine.say([text('one'), text('two')]);
    const { run } = await engine.start(agent, 'first', { config: { keep_open: true } });
    await engine.finish(run);
    for (const table of ['runs where id', 'turns where run_id']) {
      await engine.tamper(`delete from ${table} = $1`, run);
    }
    assert.equal((await rebuild(false)).differences.length, 2);
    assert.deepEqual((await rebuild(true)).differences, []);
    await engine.post(agent, run, 'second');
    await engine.finish(run);
    assert.equal((await engine.conversation(run)).length, 4);
    assert.deepEqual((await rebuild(true)).differences, []);
  });
});

/** Runs that have met everything that can happen to one. */
async function liveThroughEverything(engine: Engine): Promise<string[]> {
  const { context, tenant } = engine;
  const runs: string[] = [];
  const begin = async (...[agent, message, more]: Parameters<Engine['start']>) => {
    const started = await engine.start(agent, message, more);
    runs.push(started.run);
    return started;
  };
  const priced = { llm_config: { default_model: 'claude-sonnet-5' } };
  const busy = await engine.agent({ tools: ['calculator'], ...priced }, [
    { name: 'quick', execution: { inline: true } },
    { name: 'slow' },
  ]);
  engine.say((request, n) => {
    const [quick, slow] = [offered(request, 'quick'), offered(request, 'slow')];
    return (
      [SUM, use({ name: quick }, { name: 'no such tool' }), use({ name: slow }, { name: slow }), text('done')][n] ??
      text('')
    );
  });
  await engine.finish((await begin(busy, 'all kinds of calls')).run);

  const open = { config: { keep_open: true } };
  engine.say([text('one'), SUM, text('two'), { error: { status: 400, type: 'invalid_request_error' } }, text('four')]);
  const kept = await begin(busy, 'first', open);
  await engine.finish(kept.run);
  for (const message of ['second', 'third', 'fourth']) {
    await engine.post(busy, kept.run, message);
    await engine.finish(kept.run);
  }

  engine.say([text('hello'), text('again'), text('and again')]);
  const { run, thread } = await begin(busy, 'hello');
  await engine.finish(run);
  await engine.finish((await begin(busy, 'go on', { threadId: thread })).run);
  const last = await begin(busy, 'and on', { threadId: thread, ...open });
  await engine.finish(last.run);
  await completeRun(context, { tenantId: tenant, runId: last.run });

  engine.say([{ error: { status: 401, type: 'authentication_error' } }]);
  await engine.finish((await begin(busy, 'a key that is refused')).run);
  engine.say([text('of unknown price')]);
  const unpriced = await engine.agent({ llm_config: { default_model: 'claude-of-tomorrow' } });
  await engine.finish((await begin(unpriced, 'what do you cost?')).run);
  engine.say(() => SUM);
  const endless = await engine.agent({ tools: ['calculator'], execution_config: { max_turns: 3 } });
  await engine.finish((await begin(endless, 'count')).run);

  const waiting = { input: undefined, config: {} };
  const cancelled = await begin(busy, '', waiting);
  await cancelRun(context, { tenantId: tenant, runId: cancelled.run }, 'no longer needed');
  await begin(busy, '', waiting);
  engine.say((request) => use({ name: offered(request, 'slow') }));
  for (const end of [cancelRun, undefined]) {
    const halfway = await begin(busy, 'wait for it');
    await engine.drive(halfway.run);
    await end?.(context, { tenantId: tenant, runId: halfway.run });
  }
  const lost = await begin(busy, 'fail me');
  await failRun(context, { tenantId: tenant, runId: lost.run }, { code: 'internal', message: 'a test' });
  const forks = await fork(engine, { failed: lost.run, first: runs[0] ?? '' });
  return [...runs, ...forks, ...(await askPeople(engine, busy))];
}

/** A failed run tried again, and a run replayed from before its first turn. */
async function fork(engine: Engine, { failed, first }: { failed: string; first: string }): Promise<string[]> {
  const { context, tenant: tenantId } = engine;
  engine.say(() => text('this time it works'));
  const idempotency = { tenantId, route: 'test', body: null };
  const retried = await retryRun(context, { tenantId, runId: failed, traceparent: undefined, idempotency });
  const replayed = await replayRun(context, {
    tenantId,
    runId: first,
    checkpointId: 'start',
    mode: 'recorded',
    rerunEffects: false,
    modified: {},
    config: {},
    mayRaiseAutonomy: true,
    traceparent: undefined,
    idempotency,
  });
  const made = [retried.body.run_id, replayed.body.run_id];
  for (const run of made) await engine.finish(run);
  return made;
}

/** Calls that need a person, decided in every way; and one that nobody has decided. */
async function askPeople(engine: Engine, agent: string): Promise<string[]> {
  const { context, tenant } = engine;
  const decisions = [
    { decision: 'approve' as const },
    { decision: 'deny' as const, reason: 'too dear' },
    { decision: 'edit' as const, arguments: { amount: 1 } },
    'expire' as const,
    undefined,
  ];
  const made: string[] = [];
  for (const decision of decisions) {
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'slow') }) : text('as you wish')));
    const { run } = await engine.start(agent, 'with permission', { config: { autonomy_level: 1 } });
    made.push(run);
    await engine.finish(run);
    const [approval] = await approvalsOfRun(engine, run);
    const id = approval?.id ?? '';
    if (decision === 'expire') await expireApproval(context, { tenantId: tenant, id });
    else if (decision) await decideApproval(context, { tenantId: tenant, id }, decision);
    await engine.finish(run);
  }
  return made;
}
