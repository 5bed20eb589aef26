import assert from 'node:assert/strict';
import { lockRun } from '../../../db/runs.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { setSuspension } from '../../../modules/governance/suspend.ts';
import { executeTool } from '../../../modules/tool-calls/execute-tool.ts';
import { door, offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { MODES } from '../../support/modes.ts';
import { openTestPlatform, type TestPlatform } from '../../support/platform.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { isAgentSuspended, toolNamed, toolsOfAgent } from '../../support/queries/agents.ts';
import { auditOf } from '../../support/queries/audit.ts';
import { typesOfEvents } from '../../support/queries/logs.ts';
import { sessionsWaitingIn } from '../../support/queries/postgres.ts';
import { raisePolicyEpoch } from '../../support/queries/tenants.ts';
import { holdRuns } from '../../support/queries/runs.ts';

// The embedded database has one session: no transaction is under way while another one is.
if (MODES.includes('postgres')) describe('The answer to a suspension on Postgres', onPostgres);

function onPostgres(): void {
  let engine: Engine;
  /** Another process on the same database. */
  let other: TestPlatform;
  before(async () => {
    engine = await openEngine('postgres');
    other = await openTestPlatform('postgres', { env: { DATABASE_URL: engine.context.config.databaseUrl ?? '' } });
  });
  after(async () => {
    await other.close();
    await engine.close();
  });

  const begun = async (run: string) =>
    (await typesOfEvents(engine, run)).filter((type) => type === 'tool.started').length;
  const untilSuspended = (agent: string) =>
    waitUntil('the suspension is committed', () => isAgentSuspended(engine, agent));

  /** Suspends in the other process; `begun` counts the calls of a run that had begun when it was answered. */
  function suspend(agent: string, run: string): { begun: Promise<number>; waits: Promise<void> } {
    const looked = door();
    const call: Context['db']['call'] = (statement) => {
      void looked.pass();
      return other.context.db.call(statement);
    };
    const context = { ...other.context, db: { ...other.context.db, call } };
    const answered = setSuspension(context, engine.caller, { kind: 'agent', id: agent, suspended: true });
    return { begun: answered.then(() => begun(run)), waits: looked.reached };
  }

  /** Holds the row of a run, as somebody does who appends to it. */
  async function holdRow(run: string): Promise<() => Promise<void>> {
    const held = door();
    const holding = other.context.db.withTenant(engine.tenantId, async (tx) => {
      await lockRun(tx, run);
      await held.pass();
    });
    await held.reached;
    return () => {
      held.open();
      return holding;
    };
  }

  /** Lets nobody write to a run, as a statement that changes the table does. */
  async function holdTable(): Promise<() => Promise<void>> {
    const held = door();
    const holding = holdRuns(other.context.db, () => held.pass());
    await held.reached;
    return () => {
      held.open();
      return holding;
    };
  }

  const untilCommitWaits = () =>
    waitUntil('the commit waits', async () => (await sessionsWaitingIn(other.context.db, 'commit_run')).length > 0);

  const HOLDS: [where: string, hold: (run: string) => Promise<() => Promise<void>>][] = [
    ['waits for the run', holdRow],
    ['has written nothing yet', holdTable],
  ];
  for (const [where, hold] of HOLDS) {
    it(`comes after a worker's claim that was let through before it and ${where}`, async () => {
      const agent = await engine.agent({}, [{ name: 'send' }]);
      engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'send') }) : text('sent')));
      engine.toolsAnswer(() => undefined);
      const { run } = await engine.start(agent, 'send it');
      assert.equal(await engine.drive(run), 'yielded');
      const release = await hold(run);
      const making = engine.makeCalls(run);
      await untilCommitWaits();
      const suspending = suspend(agent, run);
      await untilSuspended(agent);
      await Promise.race([suspending.begun, suspending.waits]);
      await release();
      await making;
      const begunAtAnswer = await suspending.begun;
      assert.equal(await begun(run), begunAtAnswer, 'calls begun since the answer');
    });
  }

  it('comes after the commit of a driver that was let through before it and waits for the run', async () => {
    const agent = await engine.agent({}, [{ name: 'send', execution: { inline: true } }]);
    let release: () => Promise<void> = () => Promise.resolve();
    engine.toolsAnswer(() => undefined);
    engine.say(async (request, n) => {
      if (n > 0) return text('sent');
      release = await holdRow(run);
      return use({ name: offered(request, 'send') });
    });
    const { run } = await engine.start(agent, 'send it');
    const driving = engine.drive(run);
    await untilCommitWaits();
    const suspending = suspend(agent, run);
    await untilSuspended(agent);
    await Promise.race([suspending.begun, suspending.waits]);
    await release();
    await driving;
    const begunAtAnswer = await suspending.begun;
    assert.equal(await begun(run), begunAtAnswer, 'calls begun since the answer');
  });

  it('comes after a claim under the lock of its run, which has read the policies before it', async () => {
    const agent = await engine.agent({}, [{ name: 'send' }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'send') }) : text('sent')));
    engine.toolsAnswer(() => undefined);
    const { run } = await engine.start(agent, 'send it');
    await engine.drive(run);
    const { context, tenantId: tenant } = engine;
    await raisePolicyEpoch(engine, tenant);
    const read = door();
    const current: Context['governance']['current'] = async (tx, tenantId) => {
      const governance = await context.governance.current(tx, tenantId);
      await read.pass();
      return governance;
    };
    const making = engine.makeCalls(run, { ...context, governance: { ...context.governance, current } });
    await read.reached;
    const suspending = suspend(agent, run);
    await untilSuspended(agent);
    await Promise.race([suspending.begun, suspending.waits]);
    read.open();
    await making;
    const begunAtAnswer = await suspending.begun;
    assert.equal(await begun(run), begunAtAnswer, 'calls begun since the answer');
  });

  it('says so where a commit under way does not end in time, and the suspension holds', async () => {
    const agent = await engine.agent();
    const { run } = await engine.start(agent, 'hello');
    const held = door();
    const writing = engine.context.db.withTenant(engine.tenantId, async (tx) => {
      await lockRun(tx, run);
      await engine.context.governance.current(tx, engine.tenantId);
      await held.pass();
    });
    await held.reached;
    const suspension = { kind: 'agent' as const, id: agent, suspended: true };
    await assert.rejects(setSuspension(other.context, engine.caller, { ...suspension, patienceMs: 50 }), {
      status: 503,
    });
    held.open();
    await writing;
    assert.equal(await engine.drive(run), 'dormant');
    await setSuspension(other.context, engine.caller, suspension);
  });

  it('comes after the record of a direct execution that has read the policies before it', async () => {
    const agent = await engine.agent({}, [{ name: 'send' }]);
    engine.toolsAnswer(() => undefined);
    const [id = ''] = await toolsOfAgent(engine, agent);
    const { context } = engine;
    const read = door();
    const current: Context['governance']['current'] = async (tx, tenantId) => {
      const governance = await context.governance.current(tx, tenantId);
      await read.pass();
      return governance;
    };
    const idempotency = { tenantId: engine.tenantId, route: 'execute', body: {} };
    const request = { id, input: {}, idempotency, signal: new AbortController().signal };
    const executing = executeTool(
      { ...context, governance: { ...context.governance, current } },
      engine.caller,
      request,
    );
    await read.reached;
    const recorded = async () =>
      (await auditOf(engine, id)).filter(({ action }) => action === 'tool.execution_started').length;
    const answered = setSuspension(other.context, engine.caller, { kind: 'tool', id, suspended: true }).then(recorded);
    await waitUntil('the suspension is committed', async () => (await toolNamed(engine, id)).suspended);
    read.open();
    await executing;
    assert.equal(await recorded(), await answered, 'executions recorded since the answer');
    assert.equal(engine.tools.seen.length, 1);
  });
}
