/** Runs that have met all that can happen to one, for tests that look at what is left of them. */
import { decideApproval, expireApproval } from '../../modules/approvals/decide-approval.ts';
import { cancelRun, completeRun, failRun } from '../../modules/runs/end-run.ts';
import { replayRun } from '../../modules/runs/replay-run.ts';
import { retryRun } from '../../modules/runs/retry-run.ts';
import { offered, text, use, type Engine } from './engine.ts';
import { approvalsOfRun } from './queries/approvals.ts';

const SUM = use({ name: 'calculator', input: { expression: '1 + 1' } });

/** Runs that have met everything that can happen to one. */
export async function liveThroughEverything(engine: Engine): Promise<string[]> {
  const { context, tenantId: tenant } = engine;
  const runs: string[] = [];
  const begin = async (...[agent, message, more]: Parameters<Engine['start']>) => {
    const started = await engine.start(agent, message, more);
    runs.push(started.run);
    return started;
  };
  const priced = { llm_config: { default_model: 'claude-sonnet-5' } };
  const busy = await engine.agent(
    { tools: ['calculator'], ...priced, memory_config: { long_term: { enabled: true } } },
    [{ name: 'quick', execution: { inline: true } }, { name: 'slow' }],
  );
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
  const { context, tenantId } = engine;
  engine.say(() => text('this time it works'));
  const idempotency = { tenantId, route: 'test', body: null };
  const retried = await retryRun(context, {
    tenantId,
    runId: failed,
    mayRaiseAutonomy: true,
    traceparent: undefined,
    idempotency,
  });
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
  const { context, tenantId: tenant } = engine;
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
