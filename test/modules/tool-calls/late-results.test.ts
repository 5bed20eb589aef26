import assert from 'node:assert/strict';
import type { Context } from '../../../modules/governance/context.ts';
import { decideApproval } from '../../../modules/approvals/decide-approval.ts';
import { cancelRun } from '../../../modules/runs/end-run.ts';
import type { CreateRun } from '../../../modules/runs/create-run.ts';
import { eraseRun } from '../../../modules/runs/erase-run.ts';
import { readCheckpointMessages, readCheckpoints, requireCheckpoint } from '../../../modules/runs/read-runs.ts';
import type { AttemptEnd } from '../../../modules/tool-calls/attempt.ts';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import { door, offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import type { AgentDefinition } from '../../../core/definition.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { approvalsOfRun } from '../../support/queries/approvals.ts';
import { isLeaseOver, statusOfRun } from '../../support/queries/runs.ts';
import { callOfRun, endOfCall, isCallLeaseOver, wholeCall } from '../../support/queries/tool-calls.ts';

interface LateCall {
  run: string;
  /** The first worker's attempt, which is still under way. */
  making: Promise<AttemptEnd[]>;
  /** Lets the tool answer it. */
  answer: () => void;
}

/** Outputs of runs come to their limit at once. */
function full({ context }: Engine): Context {
  return { ...context, config: { ...context.config, runOutputBytes: 10 } };
}

/** Who works here does not hear of the end of runs. */
function deaf(context: Context): Context {
  return { ...context, bus: { ...context.bus, subscribe: () => () => undefined } };
}

/** A call under way by a worker that does not hear of the end of its run. */
async function unheardCall(engine: Engine, body: unknown, within = engine.context): Promise<LateCall> {
  const agent = await engine.agent({}, [{ name: 'charge' }]);
  engine.say((request) => use({ name: offered(request, 'charge') }));
  const working = door();
  engine.toolsAnswer(async () => {
    await working.pass();
    return { status: 200, body };
  });
  const { run } = await engine.start(agent, 'charge it');
  await engine.drive(run);
  const making = engine.makeCalls(run, deaf(within));
  await working.reached;
  await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run });
  return { run, making, answer: working.open };
}

describe('A result that comes later than the lease of its call', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  const callOf = (run: string) => endOfCall(engine, run);
  const typesOf = async (run: string) => (await engine.log(run)).map(({ type }) => type);
  const resolvedOf = async (run: string) => {
    const log = await engine.log(run);
    return log.flatMap(({ type, payload }) => (type === 'tool.resolved' ? [payload] : []));
  };
  const askedOf = async (run: string) => {
    const [approval] = await approvalsOfRun(engine, run);
    assert.ok(approval);
    return approval.status;
  };
  const assertProjected = async () => {
    const { differences } = await rebuildProjections(engine.context.db, { check: true });
    assert.deepEqual(differences, []);
  };

  /** A call whose worker is taken for dead while its tool works, so that nobody knows its outcome. */
  async function unknownCall(
    execution: AgentDefinition['execution_config'] = {},
    {
      answered = { status: 200, body: { charged: true } },
      within = engine.context,
      config = {},
    }: { answered?: { status: number; body: unknown }; within?: Context; config?: CreateRun['config'] } = {},
  ): Promise<LateCall> {
    const agent = await engine.agent({ execution_config: execution }, [{ name: 'charge' }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'charge') }) : text('so be it')));
    const working = door();
    engine.toolsAnswer(async (_request, n) => {
      if (n === 0) await working.pass();
      return answered;
    });
    const { run } = await engine.start(agent, 'charge it', { config });
    assert.equal(await engine.drive(run), 'yielded');
    const making = engine.makeCalls(run, within);
    await working.reached;
    await engine.everyoneDies();
    assert.deepEqual(await engine.makeCalls(run), [{ kind: 'done' }]);
    assert.equal((await callOf(run)).status, 'unknown');
    await engine.drive(run);
    return { run, making, answer: working.open };
  }

  it('answers the question that people were asked, and the run goes on with it', async () => {
    const { run, making, answer } = await unknownCall();
    assert.equal(await askedOf(run), 'pending');
    answer();
    await making;
    const call = await callOf(run);
    assert.deepEqual([call.status, call.output], ['succeeded', { charged: true }]);
    const [resolved] = await resolvedOf(run);
    assert.deepEqual([resolved?.outcome, resolved?.by], ['succeeded', 'late_result']);
    assert.equal(await askedOf(run), 'settled');
    await engine.finish(run);
    const types = await typesOf(run);
    assert.equal(types.at(-1), 'turn.completed');
    assert.ok(!types.includes('tool.succeeded'), 'the end that the log had already stands');
    assert.match(JSON.stringify(engine.model.requests.at(-1)?.body), /charged/);
    assert.equal(engine.tools.seen.length, 1);
    await assertProjected();
  });

  it('is what the model reads from then on where it was told that the outcome is unknown', async () => {
    const { run, making, answer } = await unknownCall({ on_unknown: 'tell_model' });
    answer();
    await making;
    assert.equal((await callOf(run)).status, 'succeeded');
    assert.match(JSON.stringify(await engine.conversation(run)), /charged/);
    await engine.finish(run);
    await assertProjected();
  });

  for (const keep_open of [true, false]) {
    it(`is in no checkpoint of before it, where the run has ${keep_open ? 'gone on' : 'ended'}`, async () => {
      const { context, caller, tenantId } = engine;
      const { run, making, answer } = await unknownCall({ on_unknown: 'tell_model' }, { config: { keep_open } });
      const path = { run };
      const [newest] = await context.db.withTenant(tenantId, (tx) =>
        readCheckpoints(tx, caller, { path, before: undefined, limit: 1 }),
      );
      assert.ok(newest);
      answer();
      await making;
      assert.match(JSON.stringify(await engine.conversation(run)), /charged/);
      const row = await context.db.withTenant(tenantId, (tx) =>
        requireCheckpoint(tx, caller, { run, checkpoint: newest.id }),
      );
      const shown: unknown[] = [];
      for await (const page of readCheckpointMessages(context.db, { tenantId, runId: run }, row)) shown.push(...page);
      assert.match(JSON.stringify(shown), /outcome of this call is unknown/);
      assert.doesNotMatch(JSON.stringify(shown), /charged/);
    });
  }

  it('is not kept where the outputs of the run have come to their limit, nor is one that a person tells', async () => {
    const within = full(engine);
    const { run, making, answer } = await unknownCall({}, { within });
    const [approval] = await approvalsOfRun(engine, run);
    assert.ok(approval);
    const told = { decision: 'happened' as const, result: { charged: true } };
    await assert.rejects(decideApproval(within, { tenantId: engine.tenantId, id: approval.id }, told), { status: 409 });
    answer();
    await making;
    const call = await callOf(run);
    assert.deepEqual([call.status, call.code], ['failed', 'run_output_limit']);
    assert.deepEqual((await resolvedOf(run)).at(0)?.outcome, 'failed');
    await engine.finish(run);
    assert.doesNotMatch(JSON.stringify(engine.model.requests.at(-1)?.body), /charged/);
    await assertProjected();
  });

  it('is kept in the ledger alone where the run has ended', async () => {
    const { run, making, answer } = await unknownCall({ on_unknown: 'fail' });
    const types = await typesOf(run);
    assert.equal(await statusOfRun(engine, run), 'failed');
    answer();
    await making;
    assert.equal((await callOf(run)).status, 'succeeded');
    assert.deepEqual(await typesOf(run), types);
  });

  for (const isUnknown of [true, false]) {
    it(`leaves nothing of what it says where the run was erased, ${isUnknown ? 'its outcome unknown' : 'its worker still at work'}`, async () => {
      const body = { said: 'of the erased '.repeat(100_000) };
      const { run, making, answer } = isUnknown
        ? await unknownCall({ on_unknown: 'fail' }, { answered: { status: 200, body } })
        : await unheardCall(engine, body);
      assert.equal(await eraseRun(engine.context, engine.caller, { id: run, dependents: false }), true);
      answer();
      await making;
      const call = await wholeCall(engine, run);
      assert.equal(call.status, 'succeeded');
      assert.doesNotMatch(call.row, /of the erased/);
    });
  }

  it('is not kept beyond the limit of the outputs of its run where that ends while the call is made', async () => {
    const { run, making, answer } = await unheardCall(engine, { charged: true }, full(engine));
    answer();
    await making;
    const call = await callOf(run);
    assert.deepEqual([call.status, call.code], ['failed', 'run_output_limit']);
    assert.doesNotMatch(JSON.stringify(call.output), /charged/);
  });

  it('settles the call as failed where the tool says that it has failed', async () => {
    const { run, making, answer } = await unknownCall({}, { answered: { status: 422, body: { why: 'no money' } } });
    answer();
    await making;
    assert.equal((await callOf(run)).status, 'failed');
    assert.equal((await resolvedOf(run))[0]?.outcome, 'failed');
    await engine.finish(run);
    assert.match(JSON.stringify(engine.model.requests.at(-1)?.body), /no money/);
    await assertProjected();
  });

  it('lets the call be made again where it surely had no effect', async () => {
    const { run, making, answer } = await unknownCall({}, { answered: { status: 429, body: {} } });
    answer();
    await making;
    assert.equal((await callOf(run)).status, 'pending');
    engine.toolsAnswer(() => undefined);
    await engine.finish(run);
    const call = await callOf(run);
    assert.deepEqual([call.status, call.attempt], ['succeeded', 2]);
    assert.equal((await typesOf(run)).at(-1), 'turn.completed');
    await assertProjected();
  });

  it('is dropped where people have had the call made again', async () => {
    const { run, making, answer } = await unknownCall();
    const [approval] = await approvalsOfRun(engine, run);
    await decideApproval(engine.context, { tenantId: engine.tenantId, id: approval?.id ?? '' }, { decision: 'rerun' });
    await engine.finish(run);
    const before = await typesOf(run);
    answer();
    await making;
    assert.equal((await callOf(run)).attempt, 2);
    assert.deepEqual(await typesOf(run), before);
  });

  it('is not lost where people have had the call made again and the run ends before that', async () => {
    const { run } = await unknownCall();
    const [approval] = await approvalsOfRun(engine, run);
    await decideApproval(engine.context, { tenantId: engine.tenantId, id: approval?.id ?? '' }, { decision: 'rerun' });
    assert.equal((await callOf(run)).status, 'pending');
    await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run });
    assert.equal((await callOf(run)).status, 'unknown');
  });

  it('says nothing of the attempt before it, which people have had made again', async () => {
    const { run, making, answer } = await unknownCall({}, { answered: { status: 429, body: {} } });
    const [approval] = await approvalsOfRun(engine, run);
    await decideApproval(engine.context, { tenantId: engine.tenantId, id: approval?.id ?? '' }, { decision: 'rerun' });
    await engine.drive(run);
    await engine.makeCalls(run);
    await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run });
    const call = await callOf(run);
    assert.deepEqual([call.status, call.attempt], ['unknown', 2]);
    answer();
    await making;
    assert.equal((await callOf(run)).status, 'unknown');
  });

  it('is waited for by its worker, which does not break the call off', async () => {
    const agent = await engine.agent({}, [{ name: 'charge' }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'charge') }) : text('so be it')));
    const working = door();
    engine.toolsAnswer(async () => {
      await working.pass();
      return { status: 200, body: { charged: true } };
    });
    const { run } = await engine.start(agent, 'charge it');
    await engine.drive(run);
    const { context } = engine;
    let refused = 0;
    const call: Context['db']['call'] = async (statement) => {
      const rows = await context.db.call(statement);
      if (statement.name === 'renew_call_lease' && (rows[0] as { result?: boolean }).result === false) refused++;
      return rows as never;
    };
    const config = { ...context.config, leaseMs: 3000 };
    const making = engine.makeCalls(run, { ...context, config, db: { ...context.db, call } });
    await working.reached;
    await engine.everyoneDies();
    await engine.makeCalls(run);
    await waitUntil('the worker hears that it has lost the call', () => refused > 1);
    working.open();
    await making;
    assert.equal((await callOf(run)).status, 'succeeded');
  });
});

describe('A result that comes later than the lease of the driver that makes the call', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  const callOf = (run: string) => callOfRun(engine, run);

  /** A call under way by a driver that everybody takes for dead. */
  async function drivenCall(within = engine.context): Promise<{
    run: string;
    driving: Promise<string>;
    answer: () => void;
  }> {
    const agent = await engine.agent({}, [{ name: 'charge', execution: { inline: true } }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'charge') }) : text('so be it')));
    const working = door();
    engine.toolsAnswer(async (_request, n) => {
      if (n === 0) await working.pass();
      return { status: 200, body: { charged: true } };
    });
    const { run } = await engine.start(agent, 'charge it');
    const driving = engine.drive(run, within);
    await working.reached;
    await engine.everyoneDies();
    return { run, driving, answer: working.open };
  }

  it('settles the call that was taken for lost, and the question about it', async () => {
    const { run, driving, answer } = await drivenCall();
    await engine.drive(run);
    assert.equal((await callOf(run)).status, 'unknown');
    answer();
    assert.equal(await driving, 'lost');
    assert.deepEqual(await callOf(run), { status: 'succeeded', attempt: 1 });
    await engine.finish(run);
    assert.match(JSON.stringify(engine.model.requests.at(-1)?.body), /charged/);
    assert.equal(engine.tools.seen.length, 1);
    const { differences } = await rebuildProjections(engine.context.db, { check: true });
    assert.deepEqual(differences, []);
  });

  it('is waited for by a driver that has heard of its loss, and kept until another one has looked', async () => {
    const { context } = engine;
    let refused = 0;
    let looks = 0;
    const call: Context['db']['call'] = async (statement) => {
      const rows = await context.db.call(statement);
      if (statement.name === 'renew_run_lease' && (rows[0] as { result?: boolean }).result === false) refused++;
      return rows as never;
    };
    const withTenant: Context['db']['withTenant'] = (...given) => {
      looks++;
      return context.db.withTenant(...given);
    };
    const db = { ...context.db, call, withTenant };
    const { run, driving, answer } = await drivenCall({ ...context, config: { ...context.config, leaseMs: 300 }, db });
    const taken = door();
    const commit: Context['commit'] = async (change) => {
      await taken.pass();
      return context.commit(change);
    };
    const goingOn = engine.drive(run, { ...context, commit });
    await taken.reached;
    await waitUntil('the first driver hears that it has lost the run', () => refused > 0);
    looks = 0;
    answer();
    await waitUntil('its result finds nobody who has looked at the call', () => looks > 1);
    assert.equal((await callOf(run)).status, 'running');
    taken.open();
    await goingOn;
    assert.equal(await driving, 'lost');
    assert.deepEqual(await callOf(run), { status: 'succeeded', attempt: 1 });
    await engine.finish(run);
    assert.equal(engine.tools.seen.length, 1);
  });

  it('is waited for by a driver that was cut off for longer, and holds the run no more once it is back', async () => {
    const { context } = engine;
    const leaseMs = 600;
    let isAway = false;
    let asked = 0;
    const call: Context['db']['call'] = async (statement) => {
      if (statement.name !== 'renew_run_lease') return context.db.call(statement);
      asked++;
      if (!isAway) return context.db.call(statement);
      throw Object.assign(new Error('gone'), { code: 'ECONNREFUSED' });
    };
    const agent = await engine.agent({}, [{ name: 'charge', execution: { inline: true } }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'charge') }) : text('so be it')));
    const working = door();
    engine.toolsAnswer(async () => {
      await working.pass();
      return { status: 200, body: { charged: true } };
    });
    const { run } = await engine.start(agent, 'charge it');
    const driving = engine.drive(run, {
      ...context,
      db: { ...context.db, call },
      config: { ...context.config, leaseMs },
    });
    await working.reached;
    isAway = true;
    await waitUntil('it has been cut off for longer than a lease', () => isLeaseOver(engine, run));
    await firedTwice(leaseMs / 3);
    isAway = false;
    asked = 0;
    await firedTwice(leaseMs / 3);
    assert.equal(asked, 0, 'it has asked for its lease again');
    working.open();
    await waitUntil('another driver may take the run', async () => (await engine.drive(run)) !== 'held');
    assert.equal(await driving, 'lost');
    assert.deepEqual(await callOf(run), { status: 'succeeded', attempt: 1 });
    await engine.finish(run);
    assert.equal(await statusOfRun(engine, run), 'completed');
  });
});

/** By then a timer of this length that was set before has fired, as a driver's that renews its lease: those of one length fire in turn. */
function firedTwice(everyMs: number): Promise<void> {
  let fired = 0;
  return new Promise((resolve) => {
    const timer = setInterval(() => {
      fired += 1;
      if (fired < 2) return;
      clearInterval(timer);
      resolve();
    }, everyMs);
  });
}

describe('A worker that has claimed a call and sent nothing', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  async function chargingRun(): Promise<string> {
    const agent = await engine.agent({}, [{ name: 'charge' }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'charge') }) : text('charged')));
    engine.toolsAnswer(() => undefined);
    const { run } = await engine.start(agent, 'charge it');
    assert.equal(await engine.drive(run), 'yielded');
    return run;
  }
  const callOf = (run: string) => callOfRun(engine, run);

  /** The claim is made, and its answer lost with the connection. */
  function losingAnswers(meanwhile: () => Promise<void> = () => Promise.resolve()): Context {
    const { context } = engine;
    const commit: Context['commit'] = async (change) => {
      await context.commit(change);
      if (!change.events.some(({ type }) => type === 'tool.started')) throw new Error('nothing else is committed');
      await meanwhile();
      throw Object.assign(new Error('gone'), { code: 'ECONNRESET' });
    };
    return { ...context, commit };
  }

  it('gives it back where the answer to its claim was lost', async () => {
    const run = await chargingRun();
    await assert.rejects(engine.makeCalls(run, losingAnswers()), { code: 'ECONNRESET' });
    assert.deepEqual(await callOf(run), { status: 'pending', attempt: 1 });
    await engine.makeCalls(run);
    assert.deepEqual(await callOf(run), { status: 'succeeded', attempt: 2 });
    assert.equal(engine.tools.seen.length, 1);
  });

  it('says so where it was taken for dead meanwhile, and the call is made again', async () => {
    const run = await chargingRun();
    const meanwhile = async () => {
      await engine.everyoneDies();
      await engine.makeCalls(run);
      assert.equal((await callOf(run)).status, 'unknown');
      await engine.drive(run);
    };
    await assert.rejects(engine.makeCalls(run, losingAnswers(meanwhile)), { code: 'ECONNRESET' });
    assert.deepEqual(await callOf(run), { status: 'pending', attempt: 1 });
    await engine.finish(run);
    assert.deepEqual(await callOf(run), { status: 'succeeded', attempt: 2 });
    assert.equal(engine.tools.seen.length, 1);
  });

  it('says so where its run was cancelled meanwhile, and nothing is left of the call to be made', async () => {
    const run = await chargingRun();
    const meanwhile = async () => {
      await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run });
      assert.equal((await callOf(run)).status, 'running', 'it is left to its worker');
    };
    await assert.rejects(engine.makeCalls(run, losingAnswers(meanwhile)), { code: 'ECONNRESET' });
    const { status, attempt, code } = await endOfCall(engine, run);
    assert.deepEqual([status, attempt, code], ['failed', 1, 'not_sent']);
    assert.equal(engine.tools.seen.length, 0);
  });

  it('leaves the claim of another worker alone', async () => {
    const run = await chargingRun();
    const working = door();
    engine.toolsAnswer(async () => {
      await working.pass();
      return { status: 200, body: {} };
    });
    let making: Promise<unknown> = Promise.resolve();
    const commit: Context['commit'] = async () => {
      making = engine.makeCalls(run);
      await working.reached;
      throw Object.assign(new Error('gone'), { code: 'ECONNRESET' });
    };
    await assert.rejects(engine.makeCalls(run, { ...engine.context, commit }), { code: 'ECONNRESET' });
    assert.deepEqual(await callOf(run), { status: 'running', attempt: 1 });
    working.open();
    await making;
    assert.deepEqual(await callOf(run), { status: 'succeeded', attempt: 1 });
  });

  it('sends nothing once its lease is over by its own clock', async () => {
    const run = await chargingRun();
    const { context } = engine;
    const commit: Context['commit'] = async (change) => {
      const result = await context.commit(change);
      await waitUntil('the lease is over', () => isCallLeaseOver(engine, run));
      return result;
    };
    await engine.makeCalls(run, { ...context, commit, config: { ...context.config, leaseMs: 50 } });
    assert.equal(engine.tools.seen.length, 0);
    assert.deepEqual(await callOf(run), { status: 'pending', attempt: 1 });
  });
});
