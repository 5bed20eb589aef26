import assert from 'node:assert/strict';
import { LIMITS } from '../../../core/limits.ts';
import type { Database } from '../../../db/database.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { newId } from '../../../lib/new-id.ts';
import { createGroupCommit, type CommitChange } from '../../../modules/run-log/group-commit.ts';
import { runToolCall } from '../../../modules/tool-calls/run-tool-call.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { pinTools, storedRun } from '../../support/queries/runs.ts';
import {
  callOfRun,
  endFirstAttempt,
  endOfCall,
  endPause,
  ledgerOfRun,
  outputsOfRun,
  pauseCall,
} from '../../support/queries/tool-calls.ts';

describe('the attempt of a tool call', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  it('continues the run when it was the last that the run waits for, and not before', async () => {
    const agent = await engine.agent({}, [{ name: 'note' }]);
    engine.say((request, n) =>
      n === 0 ? use({ name: offered(request, 'note') }, { name: offered(request, 'note') }) : text('noted'),
    );
    const { run } = await engine.start(agent, 'note it, twice');
    assert.equal(await engine.drive(run), 'yielded');
    const calls = await ledgerOfRun(engine, run);
    assert.equal(calls.length, 2);
    const { context, tenantId: tenant } = engine;
    const jobs = async () => {
      await context.outbox.close();
      const waiting = await context.queues.queue('turns').getJobs(['waiting', 'prioritized']);
      return waiting.filter(({ data }) => data.runId === run).length;
    };
    const found: number[] = [];
    const before = await jobs();
    for (const { id } of calls) {
      await runToolCall(context, { tenantId: tenant, runId: run, callId: id }, new AbortController().signal);
      found.push((await jobs()) - before);
    }
    assert.deepEqual(found, [0, 1]);
  });

  it('keeps what the tool answered while the database is away', async () => {
    const agent = await engine.agent({}, [{ name: 'charge' }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'charge') }) : text('charged')));
    let failures = 0;
    engine.toolsAnswer(async () => {
      failures = 3;
      return { status: 200, body: { charged: true } };
    });
    const { run } = await engine.start(agent, 'charge it');
    await engine.drive(run);
    const commit: CommitChange = (change) => {
      if (failures-- > 0) return Promise.reject(Object.assign(new Error('gone'), { code: 'ECONNREFUSED' }));
      return engine.context.commit(change);
    };
    const [end] = await engine.makeCalls(run, { ...engine.context, commit });
    assert.deepEqual(end, { kind: 'done' });
    assert.ok(failures < 0);
    const call = await endOfCall(engine, run);
    assert.deepEqual([call.status, call.output], ['succeeded', { charged: true }]);
    assert.equal(engine.tools.seen.length, 1);
  });

  it('costs one statement to claim the call and one to settle it', async () => {
    const { run } = await chargingRun();
    await engine.makeCalls(run);
    const next = await chargingRun();
    const statements: string[] = [];
    await engine.makeCalls(next.run, withoutTransactions(statements));
    assert.deepEqual(statements, ['commit_run', 'commit_run']);
    assert.equal(await engine.drive(next.run), 'dormant');
  });

  it('answers what came of it', async () => {
    const { job } = await chargingRun();
    const outcomes: string[] = [];
    for (const _ of [1, 2])
      outcomes.push((await runToolCall(engine.context, job, new AbortController().signal)).outcome);
    assert.deepEqual(outcomes, ['succeeded', 'passed']);
  });

  it('is not claimed while it pauses, nor where another has claimed it', async () => {
    const { run, job } = await chargingRun();
    await pauseCall(engine, run);
    const { end: paused } = await runToolCall(engine.context, job, new AbortController().signal);
    assert.ok(paused.kind === 'later' && paused.waitMs > 50_000);
    await endFirstAttempt(engine, run);
    assert.deepEqual(await runToolCall(engine.context, job, new AbortController().signal), {
      end: { kind: 'done' },
      outcome: 'succeeded',
    });
    const numbers = (await engine.log(run)).flatMap((event) =>
      event.type === 'tool.started' ? [event.payload.attempt] : [],
    );
    assert.deepEqual(numbers, [2]);
  });

  it('is aborted by what ends its turn, and not by what has ended the turn before', async () => {
    for (const [of, status] of [
      ['before', 'succeeded'],
      ['its own', 'unknown'],
    ] as const) {
      const { run, job } = await chargingRun();
      engine.toolsAnswer(async () => {
        const turnId = of === 'before' ? newId() : job.turnId;
        engine.context.bus.publish({ subject: run, kind: 'abort', reason: 'interrupt', below: 2, turnId });
        await heard(run);
        return { status: 200, body: {} };
      });
      await engine.makeCalls(run);
      assert.equal((await endOfCall(engine, run)).status, status, of);
    }
  });

  it('goes back where its tool cannot be loaded after the claim', async () => {
    const { run, job } = await chargingRun();
    const { pinned } = await storedRun(engine, run);
    await pinTools(engine, run, { tools: [] });
    await assert.rejects(runToolCall(engine.context, job, new AbortController().signal), /pins no tool/);
    const call = await callOfRun(engine, run);
    assert.deepEqual(call, { status: 'pending', attempt: 1 });
    await pinTools(engine, run, pinned);
    assert.deepEqual(await engine.makeCalls(run), [{ kind: 'done' }]);
    assert.equal(engine.tools.seen.length, 1);
  });

  it('waits for a process that knows its transport, and fails where none comes in time', async () => {
    const agent = await engine.agent({}, [{ name: 'fax', transport: { type: 'newer' } as never }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'fax') }) : text('sent')));
    const { run } = await engine.start(agent, 'fax it');
    await engine.drive(run);
    for (let attempt = 1; attempt <= LIMITS.unsentRetries; attempt++) {
      const [end] = await engine.makeCalls(run);
      assert.ok(end?.kind === 'later' && end.waitMs >= 5000);
      assert.deepEqual(await callOfRun(engine, run), { status: 'pending', attempt });
      await endPause(engine, run);
    }
    assert.deepEqual(await engine.makeCalls(run), [{ kind: 'done' }]);
    const { status, code } = await endOfCall(engine, run);
    assert.deepEqual([status, code], ['failed', 'unknown-transport']);
    await engine.finish(run);
    assert.match(JSON.stringify(await engine.conversation(run)), /The transport \\"newer\\" is not known here\./);
  });

  for (const inline of [false, true]) {
    it(`keeps what a tool answered whose call has failed all the same, ${inline ? 'inline' : 'queued'}`, async () => {
      const { url } = engine.tools;
      const execution = { timeout_ms: 5000, retry_config: { max_retries: 0, backoff_ms: 0 }, inline };
      const transport = {
        type: 'http' as const,
        endpoint: `${url}/ticket`,
        response: { expression: '$error("boom")' },
      };
      const tools = [
        { name: 'ticket', transport, execution },
        { name: 'check', execution },
        { name: 'refuse', execution },
      ];
      const agent = await engine.agent({}, tools);
      const faults = 'wrong, '.repeat(2000);
      engine.toolsAnswer(async ({ path }) => {
        if (path === '/ticket') return { status: 200, body: { ticket: 'T-123' } };
        return path === '/check' ? { status: 422, body: { faults } } : { status: 404, body: 'no such thing' };
      });
      engine.say((request, n) =>
        n === 0 ? use(...tools.map(({ name }) => ({ name: offered(request, name) }))) : text('seen'),
      );
      const { run } = await engine.start(agent, 'make a ticket');
      await engine.finish(run);
      const [ticket, check, refused] = await outputsOfRun(engine, run);
      assert.deepEqual([ticket?.output, check?.output], [{ ticket: 'T-123' }, { faults }]);
      assert.equal(refused?.output, 'HTTP 404: no such thing');
      const results = JSON.stringify(engine.model.requests.at(-1)?.body['messages']);
      assert.match(results, /its response\.expression fails: boom.*T-123/);
      assert.ok(results.includes(faults), 'the model reads all of it');
      assert.equal(results.split('no such thing').length, 2, 'and nothing twice');
      const failed = (await engine.log(run)).filter(({ type }) => type === 'tool.failed');
      assert.equal(failed.length, 3);
      assert.ok(JSON.stringify(failed).length < 4000, 'the log has the beginning');
    });
  }

  /** Until what was published about the run has come to this process. */
  function heard(run: string): Promise<void> {
    const { bus } = engine.context;
    return new Promise((resolve) => {
      const end = bus.subscribe(run, ({ kind }) => {
        if (kind !== 'governed') return;
        end();
        resolve();
      });
      bus.publish({ subject: run, kind: 'governed' });
    });
  }

  /** A run that waits for one call, and the job of it. */
  async function chargingRun() {
    const agent = await engine.agent({}, [{ name: 'charge' }]);
    engine.toolsAnswer(() => undefined);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'charge') }) : text('charged')));
    const { run } = await engine.start(agent, 'charge it');
    assert.equal(await engine.drive(run), 'yielded');
    const [call] = await ledgerOfRun(engine, run);
    assert.ok(call);
    const { id: callId, turn_id: turnId, step } = call;
    const { tenantId: tenant, context } = engine;
    const { epoch: policyEpoch } = await context.db.withTenant(tenant, (tx) => context.governance.current(tx, tenant));
    return { run, job: { tenantId: tenant, runId: run, callId, turnId, step, attempt: 0, policyEpoch } };
  }

  /** A context that lists its statements and refuses transactions of several. */
  function withoutTransactions(statements: string[]): Context {
    const { db } = engine.context;
    const call: Database['call'] = (statement) => {
      statements.push(statement.name);
      return db.call(statement);
    };
    const withTenant = () => Promise.reject(new Error('a transaction'));
    const counting = { ...db, call, withTenant };
    return { ...engine.context, db: counting, ...createGroupCommit(counting, { lanes: 1 }) };
  }
});
