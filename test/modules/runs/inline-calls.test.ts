import assert from 'node:assert/strict';
import { LIMITS } from '../../../core/limits.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { driveRun, type DriveEnd } from '../../../modules/runs/drive.ts';
import type { CommitResult } from '../../../db/commit-run.ts';
import type { Database } from '../../../db/database.ts';
import { setSuspension } from '../../../modules/governance/suspend.ts';
import { cancelRun } from '../../../modules/runs/end-run.ts';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import type { ToolRequest } from '../../../modules/tools-registry/register-tool.ts';
import { createDriven } from '../../support/create-driven.ts';
import { cutOff } from '../../support/cut-off.ts';
import { door, offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { overDatabase } from '../../support/over-database.ts';
import { holdOfRun, holdRuns, statusOfRun } from '../../support/queries/runs.ts';
import { callOfRun, callsOfRun, endFirstAttempt, endOfCall, endPause } from '../../support/queries/tool-calls.ts';
import { waitUntil } from '../../support/wait-until.ts';

const busy = () => Promise.resolve({ status: 429, body: {} });

describe('A call that its driver makes', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  const callOf = (run: string) => callOfRun(engine, run);
  const typesOf = async (run: string) => (await engine.log(run)).map(({ type }) => type);

  /** A run that is to ask for one call. */
  async function charging(tool: Partial<ToolRequest> = {}): Promise<string> {
    const execution = { inline: true, ...tool.execution };
    const agent = await engine.agent({}, [{ name: 'charge', ...tool, execution }]);
    engine.say((request) =>
      JSON.stringify(request.messages).includes('tool_result')
        ? text('charged')
        : use({ name: offered(request, 'charge') }),
    );
    engine.toolsAnswer(() => undefined);
    return (await engine.start(agent, 'charge it')).run;
  }

  function drive(run: string, within: Context, stop = new AbortController()): Promise<DriveEnd> {
    const options = { stop: stop.signal, draining: () => stop.signal.aborted };
    return driveRun(within, { tenantId: engine.tenantId, runId: run, seq: 0 }, options).then(({ result }) => result);
  }

  /** The run ends with one effect, and nobody was asked about the call. */
  async function assertMade(run: string, made: { attempt: number; requests: number }): Promise<void> {
    await engine.finish(run);
    assert.deepEqual(await callOf(run), { status: 'succeeded', attempt: made.attempt });
    assert.equal(await statusOfRun(engine, run), 'completed');
    assert.equal(engine.tools.seen.length, made.requests);
    const types = await typesOf(run);
    assert.ok(!types.includes('tool.unknown'), types.join(' '));
    const { differences } = await rebuildProjections(engine.context.db, { check: true });
    assert.deepEqual(differences, []);
  }

  describe('and that pauses before its next attempt, as nothing has come of the first', () => {
    const PATIENT = { inline: true, retry_config: { max_retries: 3, backoff_ms: 20_000 } };

    /** The driver waits for the next attempt. */
    async function pausing(
      execution = PATIENT,
    ): Promise<{ run: string; driving: Promise<DriveEnd>; stop: () => void }> {
      const run = await charging({ execution });
      engine.toolsAnswer((_request, n) => (n === 0 ? busy() : undefined));
      const stop = new AbortController();
      const driving = drive(run, engine.context, stop);
      await waitUntil('the tool is asked', () => engine.tools.seen.length === 1);
      await waitUntil('the pause is in the ledger', async () => (await callOf(run)).status === 'pending', 5000);
      return { run, driving, stop: () => stop.abort(new Error('the process stops')) };
    }

    it('is made again where its driver dies meanwhile', async () => {
      const { run, driving, stop } = await pausing();
      await engine.everyoneDies();
      await endFirstAttempt(engine, run);
      await assertMade(run, { attempt: 2, requests: 2 });
      stop();
      await driving;
    });

    it('is made again where its process stops meanwhile', async () => {
      const run = await charging({ execution: PATIENT });
      engine.toolsAnswer((_request, n) => (n === 0 ? busy() : undefined));
      const stop = new AbortController();
      const { context } = engine;
      const { stepSeconds } = context.metrics;
      // Observed once the tool has answered.
      const observe = ({ kind }: { kind: string }) => kind === 'tool' && stop.abort(new Error('the process stops'));
      const metrics = { ...context.metrics, stepSeconds: Object.assign(Object.create(stepSeconds), { observe }) };
      assert.equal(await drive(run, { ...context, metrics }, stop), 'yielded');
      await endFirstAttempt(engine, run);
      await assertMade(run, { attempt: 2, requests: 2 });
    });

    it('is not made where its run is cancelled meanwhile', async () => {
      const { run, driving } = await pausing();
      await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run });
      assert.equal(await driving, 'lost');
      const output = 'The run was cancelled before the call was made.';
      assert.deepEqual(await endOfCall(engine, run), { status: 'denied', attempt: 1, code: 'cancelled', output });
    });

    it('is made again by another driver not before the pause is over', async () => {
      const backoff_ms = 1500;
      const { run, driving, stop } = await pausing({ inline: true, retry_config: { max_retries: 3, backoff_ms } });
      const pausesSinceMs = performance.now();
      let againAtMs = 0;
      engine.toolsAnswer(() => {
        againAtMs = performance.now();
        return undefined;
      });
      stop();
      assert.equal(await driving, 'yielded');
      await assertMade(run, { attempt: 2, requests: 1 });
      assert.ok(againAtMs - pausesSinceMs > backoff_ms / 2, `${againAtMs - pausesSinceMs} ms`);
    });
  });

  describe('and whose transport its process does not know', () => {
    const NEWER = { transport: { type: 'newer' } as never };

    it('is left to others, without keeping the driver, and made by one that knows it', async () => {
      const run = await charging(NEWER);
      assert.equal(await drive(run, engine.context), 'yielded');
      assert.deepEqual(await callOf(run), { status: 'pending', attempt: 1 });
      assert.equal((await holdOfRun(engine, run)).lease, null);
      assert.equal(await drive(run, engine.context), 'yielded', 'its pause is not over');
      assert.deepEqual(await callOf(run), { status: 'pending', attempt: 1 });
      await endPause(engine, run);
      const execute = async () => ({ kind: 'succeeded', output: 'charged' }) as const;
      assert.equal(await drive(run, { ...engine.context, tools: { ...engine.context.tools, execute } }), 'dormant');
      assert.deepEqual(await callOf(run), { status: 'succeeded', attempt: 2 });
    });

    it('has failed where none that knows it comes in time', async () => {
      const run = await charging(NEWER);
      for (let attempt = 1; attempt <= LIMITS.unsentRetries; attempt++) {
        assert.equal(await drive(run, engine.context), 'yielded');
        assert.deepEqual(await callOf(run), { status: 'pending', attempt });
        await endPause(engine, run);
      }
      assert.equal(await drive(run, engine.context), 'dormant');
      const { status, code } = await endOfCall(engine, run);
      assert.deepEqual([status, code, await statusOfRun(engine, run)], ['failed', 'unknown-transport', 'completed']);
    });
  });

  it('keeps its result where the database is away for longer than the lease of its driver', async () => {
    const run = await charging();
    const cut = cutOff(engine, { leaseMs: 1500 });
    engine.toolsAnswer(() => {
      cut.off();
      return undefined;
    });
    const driving = drive(run, cut.context).catch((error: unknown) => error);
    await cut.forLongerThanLease(run);
    cut.on();
    await driving;
    await assertMade(run, { attempt: 1, requests: 1 });
  });

  it('keeps its result, too, where it ends after another one that was cut off', async () => {
    const execution = { inline: true };
    const agent = await engine.agent({}, [
      { name: 'charge', execution },
      { name: 'send', execution },
    ]);
    engine.say((request, n) =>
      n === 0 ? use({ name: offered(request, 'charge') }, { name: offered(request, 'send') }) : text('done'),
    );
    const sending = door();
    const cut = cutOff(engine, { leaseMs: 1500 });
    engine.toolsAnswer(({ path }) => {
      if (path === '/send') return sending.pass().then(() => ({ status: 200, body: {} }));
      return sending.reached.then(() => {
        cut.off();
        return { status: 200, body: {} };
      });
    });
    const { run } = await engine.start(agent, 'charge and send');
    const driving = drive(run, cut.context).catch((error: unknown) => error);
    await cut.forLongerThanLease(run);
    cut.on();
    sending.open();
    await driving;
    await engine.finish(run);
    const succeeded = { status: 'succeeded', attempt: 1 };
    assert.deepEqual(await callsOfRun(engine, run), [succeeded, succeeded]);
    assert.equal(await statusOfRun(engine, run), 'completed');
    assert.equal(engine.tools.seen.length, 2);
  });

  it('is made again where its driver stops before it sends anything', async () => {
    const run = await charging();
    const stop = new AbortController();
    const commit: Context['commit'] = async (change) => {
      const result = await engine.context.commit(change);
      if (change.events.some(({ type }) => type === 'tool.started')) stop.abort(new Error('the process stops'));
      return result;
    };
    assert.equal(await drive(run, { ...engine.context, commit }, stop), 'yielded');
    assert.deepEqual(await callOf(run), { status: 'pending', attempt: 1 });
    await assertMade(run, { attempt: 2, requests: 1 });
  });

  it('is made after a suspension that found it claimed, also where its driver stops before it has put it off', async () => {
    const run = await charging({ execution: { retry_config: { max_retries: 3, backoff_ms: 1 } } });
    engine.toolsAnswer((_request, n) => (n === 0 ? busy() : undefined));
    const suspend = (suspended: boolean) =>
      setSuspension(engine.context, engine.caller, { kind: 'tenant', id: engine.tenantId, suspended });
    let suspending: Promise<void> | undefined;
    const suspendOnce = () => (suspending ??= suspend(true));
    const stop = new AbortController();
    const commit: Context['commit'] = async (change) => {
      const isSecond = change.events.some(({ payload }) => (payload as { attempt?: number }).attempt === 2);
      if (isSecond) await suspendOnce();
      const result = await engine.context.commit(change);
      if (isSecond && result.ok) stop.abort(new Error('the process stops'));
      return result;
    };
    assert.equal(await drive(run, { ...engine.context, commit }, stop), 'yielded');
    const put = await callOf(run);
    await suspend(false);
    assert.deepEqual(put, { status: 'pending', attempt: 2 });
    await assertMade(run, { attempt: 3, requests: 2 });
  });

  describe('and that the commit claims which creates its run', () => {
    /** Creates a run whose graph begins with the call, as `commit` does it, in a slot of this process. */
    async function creating(commit: (made: Promise<CommitResult>, stop: AbortController) => Promise<CommitResult>) {
      const stop = new AbortController();
      const { created, drive: driven } = await createDriven(engine, {
        context: engine.context,
        commit: (change) => {
          const made = engine.context.commit(change);
          return change.create ? commit(made, stop) : made;
        },
        stop,
      });
      const answer = await created.then(
        () => 'created',
        (error: Error) => error.message,
      );
      await driven.end.catch(() => undefined);
      return { run: driven.run, answer };
    }

    it('is made where its process stops before it is sent', async () => {
      const { run, answer } = await creating(async (made, stop) => {
        const result = await made;
        stop.abort(new Error('the process stops'));
        return result;
      });
      assert.equal(answer, 'created');
      assert.deepEqual(await callOf(run), { status: 'pending', attempt: 1 });
      await assertMade(run, { attempt: 2, requests: 1 });
    });

    it('is made where the answer to that commit is lost', async () => {
      const { run, answer } = await creating(async (made) => {
        await made;
        throw Object.assign(new Error('gone'), { code: 'ECONNRESET' });
      });
      assert.equal(answer, 'gone');
      assert.deepEqual(await callOf(run), { status: 'pending', attempt: 1 });
      await assertMade(run, { attempt: 2, requests: 1 });
    });

    it('is made where that commit lands only after its process has looked for it', async () => {
      let looks = 0;
      let landing: Promise<CommitResult> | undefined;
      const { db } = engine.context;
      const withTenant: Database['withTenant'] = (...given) =>
        db.withTenant(...given).finally(() => {
          if (landing) looks += 1;
        });
      const creation = await holdRuns(db, async () => {
        const { created, drive: driven } = await createDriven(engine, {
          context: overDatabase(engine.context, { ...db, withTenant }),
          commit: (change) => {
            const made = engine.context.commit(change);
            if (!change.create) return made;
            landing = made;
            return Promise.reject(Object.assign(new Error('gone'), { code: 'ECONNRESET' }));
          },
          stop: new AbortController(),
        });
        await assert.rejects(created, /gone/);
        await waitUntil('its process has looked for it', () => looks > 0);
        return driven;
      });
      await landing;
      await creation.end.catch(() => undefined);
      assert.deepEqual(await callOf(creation.run), { status: 'pending', attempt: 1 });
      await assertMade(creation.run, { attempt: 2, requests: 1 });
    });
  });

  it('has failed, and is not in doubt, where its run is cancelled before anything is sent', async () => {
    const run = await charging();
    const heard = door();
    const commit: Context['commit'] = async (change) => {
      const result = await engine.context.commit(change);
      if (!change.events.some(({ type }) => type === 'tool.started')) return result;
      const unsubscribe = engine.context.bus.subscribe(run, ({ kind }) => kind === 'abort' && heard.open());
      await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run });
      await heard.pass();
      unsubscribe();
      return result;
    };
    assert.equal(await drive(run, { ...engine.context, commit }), 'lost');
    const { status, attempt, code } = await endOfCall(engine, run);
    assert.deepEqual([status, attempt, code], ['failed', 1, 'not_sent']);
    assert.equal(engine.tools.seen.length, 0);
  });

  for (const isSecond of [false, true]) {
    const which = isSecond ? 'its second attempt' : 'it';
    it(`is made again where ${which} was claimed, and the answer of the database is lost with it for longer than a lease`, async () => {
      const run = await charging({ execution: { retry_config: { max_retries: 3, backoff_ms: 1 } } });
      engine.toolsAnswer((_request, n) => (isSecond && n === 0 ? busy() : undefined));
      const cut = cutOff(engine, { leaseMs: 1500 });
      const driving = drive(run, cut.losingAnswer(isSecond ? 2 : 1)).catch((error: unknown) => error);
      await cut.forLongerThanLease(run);
      cut.on();
      await driving;
      await assertMade(run, isSecond ? { attempt: 3, requests: 2 } : { attempt: 2, requests: 1 });
    });
  }

  it('is not said to be unsent by a driver whose claim was not made, while another has made the same attempt', async () => {
    const run = await charging({ execution: { retry_config: { max_retries: 3, backoff_ms: 1 } } });
    const sending = door();
    engine.toolsAnswer((_request, n) =>
      n === 0 ? busy() : sending.pass().then(() => ({ status: 200, body: { charged: true } })),
    );
    let other: Promise<unknown> = Promise.resolve();
    let isClaiming = false;
    const commit: Context['commit'] = async (change) => {
      const isSecond = change.events.some(({ payload }) => (payload as { attempt?: number }).attempt === 2);
      if (!isSecond || isClaiming) return engine.context.commit(change);
      isClaiming = true;
      await engine.everyoneDies();
      other = engine.drive(run);
      await sending.reached;
      return engine.context.commit(change);
    };
    assert.equal(await drive(run, { ...engine.context, commit }), 'lost');
    assert.deepEqual(await callOf(run), { status: 'running', attempt: 2 });
    await engine.everyoneDies();
    await engine.drive(run);
    assert.deepEqual(await callOf(run), { status: 'unknown', attempt: 2 });
    sending.open();
    await other;
    assert.deepEqual(await callOf(run), { status: 'succeeded', attempt: 2 });
    assert.equal(engine.tools.seen.length, 2);
  });

  it('is committed once before each attempt and once after it', async () => {
    const run = await charging({ execution: { retry_config: { max_retries: 3, backoff_ms: 1 } } });
    let commits = 0;
    const commit: Context['commit'] = (change) => {
      commits += 1;
      return engine.context.commit(change);
    };
    await drive(run, { ...engine.context, commit });
    const plain = commits;
    const again = await charging({ execution: { retry_config: { max_retries: 3, backoff_ms: 1 } } });
    engine.toolsAnswer((_request, n) => (n === 0 ? busy() : undefined));
    commits = 0;
    await drive(again, { ...engine.context, commit });
    assert.equal(commits, plain + 2);
  });
});

describe('A queued call that its asker has claimed for itself', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  it('is made again where the answer of the database is lost with it for longer than a lease', async () => {
    const agent = await engine.agent({}, [{ name: 'charge' }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'charge') }) : text('charged')));
    engine.toolsAnswer(() => undefined);
    const { run } = await engine.start(agent, 'charge it');
    const cut = cutOff(engine, { leaseMs: 1500 });
    const slot = { make: () => assert.fail('nobody knows that it was claimed'), leave: () => undefined };
    const within = cut.losingAnswer(1);
    const outbox = { ...within.outbox, reserveCallSlot: () => slot };
    const driving = engine.drive(run, { ...within, outbox }).catch((error: unknown) => error);
    await cut.forLongerThanLease(run);
    await driving;
    cut.on();
    await waitUntil('the claim is given back', async () => (await callOfRun(engine, run)).status === 'pending', 10_000);
    await engine.makeCalls(run);
    await engine.finish(run);
    assert.deepEqual(await callOfRun(engine, run), { status: 'succeeded', attempt: 2 });
    assert.equal(engine.tools.seen.length, 1);
  });
});
