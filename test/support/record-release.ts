/**
 * Writes what is frozen with a release: the hashes of its migrations, and a recording of its function calls. Run it
 * (`npx tsx test/support/record-release.ts`) in the commit that is to be released, and never again for that version.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { newId } from '../../lib/new-id.ts';
import { VERSION } from '../../core/version.ts';
import { checkBudgets, listBudgetDrift, rollUpBudgets, settleLostReservations } from '../../db/budgets.ts';
import { claimRun, loadRun } from '../../db/claim-run.ts';
import { changeRuns, NO_ROWS } from '../../db/commit-run.ts';
import { renewCallLease, renewRunLease } from '../../db/leases.ts';
import { acquireModelRate, backOffModelRate, chargeModelRate, readModelBackOff } from '../../db/model-rates.ts';
import { createPolicy } from '../../modules/governance/write-policy.ts';
import { saveCheckpoint } from '../../modules/runs/save-checkpoint.ts';
import { postSignal } from '../../modules/waits/post-signal.ts';
import { offered, openEngine, text, use, type Engine } from './engine.ts';
import { liveThroughEverything } from './eventful-runs.ts';
import { recordCalls } from './record-calls.ts';
import { rows } from './queries/access.ts';

/** The files of the migrations by name, with the SHA-256 of their text. The list of them grows. */
export function hashMigrations(): Record<string, string> {
  const files = readdirSync('db/migrations');
  const hashOf = (file: string) =>
    createHash('sha256')
      .update(readFileSync(`db/migrations/${file}`))
      .digest('hex');
  return Object.fromEntries(files.toSorted().map((file) => [file, hashOf(file)]));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const released = { version: VERSION, commit: null, migrations: hashMigrations() };
  writeFileSync('db/released.json', `${JSON.stringify(released, null, 2)}\n`);
  const engine = await openEngine();
  const owners = {
    tenants: await rows(engine, 'select id, name from tenants'),
    workspaces: await rows(engine, 'select id, tenant_id, name from workspaces'),
  };
  const calls = recordCalls(engine.context.db);
  await liveThroughEverything(engine);
  await decideByRules(engine);
  await wait(engine);
  await keepToBudget(engine);
  await askDirectly(engine);
  await engine.close();
  const lines = calls.map((call) => JSON.stringify(call)).join(',\n');
  const file = `test/fixtures/released/calls-${VERSION}.json`;
  writeFileSync(file, `{"owners":${JSON.stringify(owners)},"calls":[\n${lines}\n]}\n`);
}

/** Rules, and a plan of three calls. */
async function decideByRules(engine: Engine): Promise<void> {
  const agent = await engine.agent({ tools: ['calculator'], autonomy_level: 0 }, [{ name: 'note' }]);
  await engine.context.db.withTenant(engine.tenantId, (tx) =>
    createPolicy(tx, engine.caller, {
      name: 'no sums',
      when: 'tool.name == "calculator"',
      decision: 'block',
      reason: 'no sums',
      priority: 1,
    }),
  );
  engine.say((request, n) => {
    const note = { name: offered(request, 'note') };
    return [use({ name: 'calculator', input: { expression: '1' } }), use(note, note, note)][n] ?? text('done');
  });
  const { run } = await engine.start(agent, 'a plan', { config: { autonomy_level: 2 } });
  await engine.finish(run);
}

/** A person's answer, and a checkpoint on demand. */
async function wait(engine: Engine): Promise<void> {
  const agent = await engine.agent({ tools: ['ask_user', 'wait_for_webhook'] });
  engine.say([
    use({ name: 'ask_user', input: { question: 'Which?' } }, { name: 'wait_for_webhook', input: {} }),
    text('that one'),
  ]);
  const { run } = await engine.start(agent, 'ask me', { config: { keep_open: true } });
  await engine.finish(run);
  const { tenantId } = engine;
  const signal = { tenantId, runId: run, payload: { message: 'this' } };
  for (const type of ['user', 'webhook'] as const) await postSignal(engine.context, { ...signal, type });
  await engine.finish(run);
  await saveCheckpoint(engine.context, { tenantId, runId: run, idempotency: { tenantId, route: 'test', body: null } });
}

/** A budget that the second answer uses up. */
async function keepToBudget(engine: Engine): Promise<void> {
  const agent = await engine.agent({ tools: ['calculator'] });
  engine.say(() => use({ name: 'calculator', input: { expression: '1 + 1' } }));
  const { run } = await engine.start(agent, 'count', { config: { budget: { max_steps: 2 } } });
  await engine.finish(run);
  const { db } = engine.context;
  await db.withTenant(engine.tenantId, (tx) => settleLostReservations(tx, engine.tenantId, 0));
  await db.withTenant(engine.tenantId, (tx) => rollUpBudgets(tx, engine.tenantId, 100));
  await db.withTenant(engine.tenantId, (tx) => listBudgetDrift(tx, engine.tenantId, 30));
}

/** What the scenario does not come to: refusals, renewals, several runs at once, the rates of a model. */
async function askDirectly(engine: Engine): Promise<void> {
  const { db } = engine.context;
  const agent = await engine.agent();
  const ids: string[] = [];
  for (const message of ['one', 'two']) ids.push((await engine.start(agent, message)).run);
  const [runId = '', other = ''] = ids;
  const ref = { tenant_id: engine.tenantId, run_id: runId };
  const claim = { ...ref, seq: 1, leaseMs: 60_000 };
  const ignore = () => undefined;
  await changeRuns(db, [
    { kind: 'claim', of: claim, resolve: ignore, reject: ignore },
    { kind: 'claim', of: { ...claim, run_id: other }, resolve: ignore, reject: ignore },
    { kind: 'commit', of: { ...ref, ...NO_ROWS, events: [], fence: 7 }, resolve: ignore, reject: ignore },
  ]);
  await claimRun(db, claim);
  await claimRun(db, { ...claim, seq: 1000 });
  await claimRun(db, { ...claim, run_id: newId() });
  await loadRun(db, { ...ref, known: { seq: 1, length: 0, calls: [] } });
  await loadRun(db, { ...ref, beforeCheckpoint: 1 });
  const lease = { tenantId: engine.tenantId, runId, leaseMs: 1000 };
  for (const fence of [1, 9]) await renewRunLease(db, { ...lease, fence });
  await renewCallLease(db, { ...lease, callId: newId(), attempt: 1 });
  const owner = { root_run_id: runId, workspace_id: engine.platform.workspaceId, agent_id: agent };
  const call = { ...ref, ...owner, step: 1, fence: 1, input: 10, input_cost: null, output: 100, output_cost: null };
  for (const max_tokens of [1000, 50]) await checkBudgets(db, { ...call, run_budget: { max_tokens }, least: 32 });
  const rateLimiter = 'a model';
  await backOffModelRate(db, rateLimiter, 0);
  await readModelBackOff(db, rateLimiter);
  const rates = { requestsPerMinute: 1, tokensPerMinute: 1000 };
  for (const tokens of [10, 0]) {
    await acquireModelRate(db, {
      rateLimiter,
      tokens,
      rates: tokens > 0 ? rates : { ...rates, requestsPerMinute: null },
    });
  }
  await chargeModelRate(db, { rateLimiter, tokens: 5, tokensPerMinute: 1000 });
}
