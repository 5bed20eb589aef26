import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { DelayedError, type Job } from 'bullmq';
import { MAY_HAVE_HAPPENED, UNKNOWN_OUTCOME } from '../../../core/ledger.ts';
import { deleteSecret } from '../../../db/secrets.ts';
import { cancelRun } from '../../../modules/runs/end-run.ts';
import { storeSecret } from '../../../modules/tenants/secrets.ts';
import { reconcile } from '../../../modules/run-log/reconcile.ts';
import { handleJob } from '../../../workers/handle-job.ts';
import { handler } from '../../../workers/handlers/tool-calls.ts';
import { TOOL_CALLS } from '../../../jobs/tool-calls.ts';
import { door, offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { statusOfRun } from '../../support/queries/runs.ts';
import { endOfCall, firstCallOf } from '../../support/queries/tool-calls.ts';

const IDEMPOTENT = { annotations: { idempotentHint: true } };
const HASTY = { retry_config: { max_retries: 3, backoff_ms: 1 } };

describe('A call that another worker makes', () => {
  let engine: Engine;

  before(async () => {
    engine = await openEngine();
  });

  after(() => engine.close());

  /** A run that waits for one call of a tool. */
  async function awaiting(tool: Parameters<Engine['agent']>[1]): Promise<{ run: string; call: string }> {
    const agent = await engine.agent({ execution_config: { on_unknown: 'tell_model' } }, tool);
    const name = tool?.[0]?.name ?? 'tool';
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, name) }) : text('I see')));
    const { run } = await engine.start(agent, 'hello');
    assert.equal(await engine.drive(run), 'yielded');
    return { run, call: await firstCallOf(engine, run) };
  }

  const ledger = (run: string) => endOfCall(engine, run);
  const keys = () => engine.tools.seen.map(({ headers }) => headers['idempotency-key']);
  const toolEvents = async (run: string) =>
    (await engine.log(run)).map(({ type }) => type).filter((type) => /^tool\.(?!requested)/.test(type));

  /** The worker that makes the call dies in the middle of it; gives what its late answer changes. */
  async function dieDuringCall(run: string): Promise<() => Promise<unknown>> {
    const gate = door();
    engine.toolsAnswer((_request, n) =>
      n === 0 ? gate.pass().then(() => ({ status: 200, body: 'too late' })) : undefined,
    );
    // The dead hear nothing: not that their run was cancelled.
    const { bus } = engine.context;
    const deaf = { ...bus, publish: bus.publish.bind(bus), subscribe: () => () => undefined };
    const dying = engine.makeCalls(run, { ...engine.context, bus: deaf });
    await gate.reached;
    await engine.everyoneDies();
    return async () => {
      gate.open();
      return dying;
    };
  }

  it('is never sent again when its worker has died and nobody knows of its effect; the model is told', async () => {
    const { run } = await awaiting([{ name: 'pay' }]);
    const answerLate = await dieDuringCall(run);
    assert.deepEqual(await engine.makeCalls(run), [{ kind: 'done' }]);
    assert.deepEqual(await ledger(run), { status: 'unknown', attempt: 1, code: 'interrupted', output: null });
    await engine.finish(run);
    assert.ok(JSON.stringify(engine.model.requests.at(-1)?.body).includes(UNKNOWN_OUTCOME));
    await answerLate();
    assert.deepEqual(await ledger(run), { status: 'succeeded', attempt: 1, code: null, output: 'too late' });
    assert.equal(engine.tools.seen.length, 1);
    assert.deepEqual(await toolEvents(run), ['tool.started', 'tool.unknown']);
  });

  it('is sent again with the same key where its tool is idempotent, and a late answer changes nothing', async () => {
    const { run } = await awaiting([{ name: 'note', ...IDEMPOTENT }]);
    const answerLate = await dieDuringCall(run);
    assert.deepEqual(await engine.makeCalls(run), [{ kind: 'done' }]);
    await answerLate();
    assert.deepEqual(await ledger(run), { status: 'succeeded', attempt: 2, code: null, output: { ok: true } });
    await engine.finish(run);
    assert.equal(engine.tools.seen.length, 2);
    assert.equal(new Set(keys()).size, 1);
    assert.deepEqual(await toolEvents(run), ['tool.started', 'tool.started', 'tool.succeeded']);
  });

  it('is left alone while its worker lives, and is looked at again when the lease has run out', async () => {
    const { run } = await awaiting([{ name: 'pay' }]);
    const gate = door();
    engine.toolsAnswer(() => gate.pass().then(() => ({ status: 200, body: 'paid' })));
    const making = engine.makeCalls(run);
    await gate.reached;
    const [end] = await engine.makeCalls(run);
    assert.ok(end?.kind === 'later' && end.waitMs > 0 && end.waitMs <= engine.context.config.leaseMs);
    gate.open();
    await making;
    assert.deepEqual(await ledger(run), { status: 'succeeded', attempt: 1, code: null, output: 'paid' });
    assert.equal(engine.tools.seen.length, 1);
  });

  it('is given up after the attempts that its tool allows, however they end', async () => {
    const execution = { retry_config: { max_retries: 1, backoff_ms: 1 } };
    const { run } = await awaiting([{ name: 'note', ...IDEMPOTENT, execution }]);
    const late = [await dieDuringCall(run), await dieDuringCall(run)];
    assert.deepEqual(await engine.makeCalls(run), [{ kind: 'done' }]);
    for (const answerLate of late) await answerLate();
    assert.deepEqual(await ledger(run), {
      status: 'failed',
      attempt: 2,
      code: 'interrupted',
      output: `The worker was lost during the call. ${MAY_HAVE_HAPPENED}`,
    });
    await engine.finish(run);
    assert.ok(JSON.stringify(engine.model.requests.at(-1)?.body).includes(MAY_HAVE_HAPPENED));
    const failed = (await engine.log(run)).find(({ type }) => type === 'tool.failed');
    assert.ok(JSON.stringify(failed?.payload).includes(MAY_HAVE_HAPPENED));
    assert.equal(await statusOfRun(engine, run), 'completed');
  });

  it('is made again after a pause where it surely had no effect, and the first failure is forgotten', async () => {
    const { run } = await awaiting([{ name: 'pay', execution: HASTY }]);
    engine.toolsAnswer((_request, n) => (n < 2 ? Promise.resolve({ status: 429, body: {} }) : undefined));
    for (let round = 0; round < 200 && (await ledgerStatus(run)) !== 'succeeded'; round++) await engine.makeCalls(run);
    assert.deepEqual(await ledger(run), { status: 'succeeded', attempt: 3, code: null, output: { ok: true } });
    assert.equal(new Set(keys()).size, 1);
    assert.deepEqual(await toolEvents(run), ['tool.started', 'tool.started', 'tool.started', 'tool.succeeded']);
  });

  const ledgerStatus = async (run: string) => ((await ledger(run)) as { status: string }).status;

  it('is not made any more when its run was cancelled before it', async () => {
    const { run } = await awaiting([{ name: 'pay' }]);
    engine.toolsAnswer(() => undefined);
    await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run });
    const output = 'The run was cancelled before the call was made.';
    assert.deepEqual(await ledger(run), { status: 'denied', attempt: 0, code: 'cancelled', output });
    await engine.makeCalls(run);
    assert.equal(engine.tools.seen.length, 0);
  });

  const lost = ({ socket }: { socket: Socket }) => {
    socket.destroy();
    return new Promise<never>(() => undefined);
  };
  const refused = () => Promise.resolve({ status: 429, body: {} });

  describe('whose run is cancelled between two of its attempts', () => {
    /** The end of a call whose attempts go as they are told to. */
    const endAfter = async (tool: object, ways: readonly (typeof lost | typeof refused)[]) => {
      const { run } = await awaiting([{ name: 'note', ...tool, execution: HASTY }]);
      engine.toolsAnswer((request, n) => (ways[n] ?? refused)(request));
      while (engine.tools.seen.length < ways.length) await engine.makeCalls(run);
      await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run });
      return ledger(run);
    };
    const unknown = (attempt: number) => ({ status: 'unknown', attempt, code: 'cancelled', output: null });

    it('is unknown where one of them may have had its effect', async () => {
      assert.deepEqual(await endAfter(IDEMPOTENT, [lost]), unknown(1));
      assert.deepEqual(await endAfter(IDEMPOTENT, [lost, refused]), unknown(2), 'the newest one surely had none');
    });

    it('was not made where none had any, or its tool only reads', async () => {
      const output = 'The run was cancelled before the call was made.';
      const denied = { status: 'denied', attempt: 2, code: 'cancelled', output };
      assert.deepEqual(await endAfter(IDEMPOTENT, [refused, refused]), denied);
      assert.deepEqual(await endAfter({ risk_level: 'READ_ONLY' }, [lost, refused]), denied);
    });

    it('is unknown where a worker died in one of them', async () => {
      const { run } = await awaiting([{ name: 'note', ...IDEMPOTENT, execution: HASTY }]);
      const answerLate = await dieDuringCall(run);
      engine.toolsAnswer(refused);
      assert.equal((await engine.makeCalls(run))[0]?.kind, 'later');
      await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run });
      assert.deepEqual(await ledger(run), unknown(2));
      await answerLate();
      assert.deepEqual(await ledger(run), unknown(2));
    });
  });

  describe('whose secret is gone by its second attempt', () => {
    const endAfter = async (first: (request: { socket: Socket }) => Promise<{ status: number; body: object }>) => {
      const { context, tenantId } = engine;
      const secret = { tenantId, name: 'key_of_note', value: 'c4nary' };
      await context.db.withTenant(tenantId, (tx) => storeSecret(tx, context.keyring, secret));
      const headers = { 'x-key': '{{secret:key_of_note}}' };
      const transport = { type: 'http' as const, endpoint: `${engine.tools.url}/note`, headers };
      const { run } = await awaiting([{ name: 'note', ...IDEMPOTENT, execution: HASTY, transport }]);
      engine.toolsAnswer(first);
      await engine.makeCalls(run);
      assert.equal(await ledgerStatus(run), 'pending');
      await context.db.withTenant(tenantId, (tx) => deleteSecret(tx, secret.name));
      while ((await ledgerStatus(run)) === 'pending') await engine.makeCalls(run);
      await engine.finish(run);
      assert.equal(engine.tools.seen.length, 1);
      const read = JSON.stringify(engine.model.requests.at(-1)?.body);
      assert.match(read, /The secret .*key_of_note.* is not set/);
      const { status, code } = await ledger(run);
      return [status, code, read.includes(UNKNOWN_OUTCOME)];
    };

    it('is unknown where the first may have had its effect, and has failed where it had none', async () => {
      assert.deepEqual(await endAfter(lost), ['unknown', 'secret-missing', true]);
      assert.deepEqual(await endAfter(refused), ['failed', 'secret-missing', false]);
    });
  });

  it('settles in its own row when its run is cancelled meanwhile, and the log of the run stays closed', async () => {
    const { run } = await awaiting([{ name: 'pay' }]);
    const gate = door();
    engine.toolsAnswer(() => gate.pass().then(() => ({ status: 200, body: 'paid' })));
    const making = engine.makeCalls(run);
    await gate.reached;
    await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run });
    gate.open();
    await making;
    const { status } = (await ledger(run)) as { status: string };
    assert.ok(status === 'succeeded' || status === 'unknown', status);
    assert.equal((await engine.log(run)).at(-1)?.type, 'turn.interrupted');
  });

  it('is settled by reconciliation when its worker died after the run had ended', async () => {
    const { run, call } = await awaiting([{ name: 'note', ...IDEMPOTENT }]);
    const answerLate = await dieDuringCall(run);
    await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run });
    const { 'tool-calls': sent = 0 } = await reconcile(engine.context, 0);
    assert.ok(sent >= 1);
    const job = await engine.context.queues.queue(TOOL_CALLS.name).getJob(`${call}-1`);
    assert.ok(job);
    await engine.makeCalls(run);
    const unknown = { status: 'unknown', attempt: 1, code: 'interrupted', output: null };
    assert.deepEqual(await ledger(run), unknown, 'it may have had its effect');
    assert.equal((await engine.log(run)).at(-1)?.type, 'turn.interrupted');
    await answerLate();
    assert.equal(((await ledger(run)) as { status: string }).status, 'succeeded');
    assert.equal((await reconcile(engine.context, 0))['tool-calls'], 0);
  });

  it('is put back by its job, not failed, while it is held or pauses', async () => {
    const { run, call } = await awaiting([{ name: 'pay', execution: HASTY }]);
    engine.toolsAnswer(() => Promise.resolve({ status: 429, body: {} }));
    const delays: number[] = [];
    const job = {
      name: TOOL_CALLS.name,
      queueName: TOOL_CALLS.name,
      data: { tenantId: engine.tenantId, runId: run, callId: call },
      opts: {},
      attemptsMade: 0,
      updateData: async () => undefined,
      moveToDelayed: async (at: number) => void delays.push(at - Date.now()),
    } as unknown as Job;
    const held = { job, stop: new AbortController().signal, draining: () => false, token: 'token' };
    await assert.rejects(handleJob(engine.context, handler, held), DelayedError);
    assert.equal(delays.length, 1);
  });
});
