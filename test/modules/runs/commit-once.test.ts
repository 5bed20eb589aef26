import assert from 'node:assert/strict';
import { lockRun } from '../../../db/runs.ts';
import { cancelRun } from '../../../modules/runs/end-run.ts';
import { postSignal } from '../../../modules/waits/post-signal.ts';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import { openServiceProxy, type ServiceProxy } from '../../../scripts/kit/service-proxy.ts';
import { createMigratedDatabase } from '../../support/database.ts';
import { door, offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import type { AnthropicReply, AnthropicRequest } from '../../support/fake-anthropic.ts';
import { MODES } from '../../support/modes.ts';
import { openTestPlatform, type TestPlatform } from '../../support/platform.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { messagesOfRun, typesOfEvents } from '../../support/queries/logs.ts';
import { cancelStatement, sessionsWaitingIn, terminateSession } from '../../support/queries/postgres.ts';

const ANSWERS: Record<string, (request: AnthropicRequest) => AnthropicReply> = {
  'ends its run': () => text('done'),
  'asks for a call of the driver': () => use({ name: 'calculator', input: { expression: '1+1' } }),
  'asks for a call of a worker': (request) => use({ name: offered(request, 'note') }),
};

if (MODES.includes('postgres')) describe('An answer whose commit loses its connection', onPostgres);

function onPostgres(): void {
  let testDatabase: Awaited<ReturnType<typeof createMigratedDatabase>>;
  let proxy: ServiceProxy;
  let engine: Engine;
  /** Another process, with a network of its own. */
  let outside: TestPlatform;
  let agent: string;

  before(async () => {
    testDatabase = await createMigratedDatabase();
    proxy = await openServiceProxy(testDatabase.url);
    engine = await openEngine('postgres', { DATABASE_URL: proxy.url });
    outside = await openTestPlatform('postgres', { env: { DATABASE_URL: testDatabase.url } });
    agent = await engine.agent({ tools: ['calculator'] }, [{ name: 'note' }]);
  });
  after(async () => {
    await outside.close();
    await engine.close();
    await proxy.close();
    await testDatabase.drop();
  });

  interface InFlight {
    run: string;
    driving: Promise<string>;
    /** Lets the server make the commit, if it still has it, or others. */
    letGo: () => Promise<void>;
  }

  /** A run whose first answer is being committed: the statement waits on the server, since somebody holds the run's row. */
  async function inFlight(answer: (request: AnthropicRequest) => AnthropicReply, leaseMs?: number): Promise<InFlight> {
    const flight = await waitingCommit(answer, leaseMs);
    await proxy.cut();
    return flight;
  }

  /** The same with its connection. */
  async function waitingCommit(
    answer: (request: AnthropicRequest) => AnthropicReply,
    leaseMs?: number,
  ): Promise<InFlight> {
    const held = door();
    let holding: Promise<void> = Promise.resolve();
    engine.say(async (request, n) => {
      if (n > 0) return text('done');
      holding = outside.context.db.withTenant(engine.tenantId, async (tx) => {
        await lockRun(tx, run);
        await held.pass();
      });
      await held.reached;
      return answer(request);
    });
    const { run } = await engine.start(agent, 'go');
    const { config } = engine.context;
    const context = { ...engine.context, config: { ...config, leaseMs: leaseMs ?? config.leaseMs } };
    const driving = engine.drive(run, context).catch((error: unknown) => `failed: ${String(error)}`);
    await waitUntil('the commit waits', async () => (await waiting('commit_run')).length === 1);
    const letGo = () => {
      held.open();
      return holding;
    };
    return { run, driving, letGo };
  }

  /** Server processes that wait for a lock in such a statement. */
  const waiting = (statement: string) => sessionsWaitingIn(outside.context.db, statement);

  /** The commit is undone, as where it never came to the server. */
  async function undo(): Promise<void> {
    for (const pid of await waiting('commit_run')) {
      await terminateSession(outside.context.db, pid);
    }
    await waitUntil('nothing waits', async () => (await waiting('commit_run')).length === 0);
  }

  const typesOf = (run: string) => typesOfEvents({ ...outside, tenantId: engine.tenantId }, run);
  const count = async (run: string, type: string) => (await typesOf(run)).filter((each) => each === type).length;

  async function assertOnce(run: string, answers: number): Promise<void> {
    assert.equal(engine.model.requests.length, answers, 'answers that were paid for');
    assert.equal(await count(run, 'model.responded'), answers);
    assert.equal((await typesOf(run)).at(-1), 'turn.completed');
    const { differences } = await rebuildProjections(engine.context.db, { check: true });
    assert.deepEqual(differences, []);
    assert.equal((await messagesOfRun(engine, run)).length, answers === 1 ? 2 : 4);
  }

  for (const [what, answer] of Object.entries(ANSWERS)) {
    const answers = what === 'ends its run' ? 1 : 2;
    const finish = async ({ run, driving }: InFlight) => {
      const end = await driving;
      assert.ok(end === 'dormant' || end === 'yielded', end);
      await engine.makeCalls(run);
      if (end === 'yielded') await engine.finish(run);
      await assertOnce(run, answers);
    };

    it(`and ${what} is committed once where the commit had come through`, async () => {
      const flight = await inFlight(answer);
      await flight.letGo();
      await waitUntil('it is made', async () => (await count(flight.run, 'model.responded')) === 1);
      await proxy.restore();
      await finish(flight);
    });

    it(`and ${what} is committed once where the commit had not come through`, async () => {
      const flight = await inFlight(answer);
      await undo();
      await flight.letGo();
      await proxy.restore();
      await finish(flight);
    });

    it(`and ${what} is committed once where the server makes the commit while it is looked for`, async () => {
      const flight = await inFlight(answer);
      await proxy.restore();
      await waitUntil('it is looked for', async () => (await waiting('for update')).length > 0);
      await flight.letGo();
      await finish(flight);
    });

    it(`and ${what} is kept where others have appended meanwhile`, async () => {
      const flight = await inFlight(answer);
      await undo();
      await flight.letGo();
      const signal = { tenantId: engine.tenantId, runId: flight.run, type: 'user' as const, payload: 'early' };
      await postSignal(outside.context, signal);
      await proxy.restore();
      await finish(flight);
      assert.equal(await count(flight.run, 'signal.received'), 1);
    });
  }

  it('is committed once where its statement ran out of time', async () => {
    const flight = await waitingCommit(() => text('in time'));
    const pids = await waiting('commit_run');
    for (const pid of pids) await cancelStatement(outside.context.db, pid);
    await waitUntil('it is tried again', async () => (await waiting('commit_run')).length > 0);
    await flight.letGo();
    assert.equal(await flight.driving, 'dormant');
    await assertOnce(flight.run, 1);
  });

  it('is given up where the run was cancelled meanwhile', async () => {
    const flight = await inFlight(() => text('too late'));
    await undo();
    await flight.letGo();
    await cancelRun(outside.context, { tenantId: engine.tenantId, runId: flight.run });
    await proxy.restore();
    assert.equal(await flight.driving, 'lost');
    assert.equal(await count(flight.run, 'model.responded'), 0);
  });

  it('is given up, and asked for again, where the database stays away for longer than the lease', async () => {
    const flight = await inFlight(() => text('in vain'), 1500);
    await undo();
    await flight.letGo();
    assert.match(await flight.driving, /^(lost|failed: )/);
    await proxy.restore();
    await engine.everyoneDies();
    await engine.finish(flight.run);
    assert.equal(engine.model.requests.length, 2);
    assert.equal(await count(flight.run, 'model.responded'), 1);
  });
}
