/** Calls whose work goes on elsewhere, where whoever makes them dies. */
import assert from 'node:assert/strict';
import { listLostCalls } from '../../../db/maintenance.ts';
import type { CreateRun } from '../../../modules/runs/create-run.ts';
import { cancelRun } from '../../../modules/runs/end-run.ts';
import { cancelRemote } from '../../../modules/tool-calls/cancel-remote.ts';
import type { ToolRequest } from '../../../modules/tools-registry/register-tool.ts';
import { methodOf, startA2aServer, type A2aServer } from '../../support/a2a-server.ts';
import { door, offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { endOfCall } from '../../support/queries/tool-calls.ts';

describe('A call whose work goes on elsewhere', () => {
  let engine: Engine;
  let remote: A2aServer;

  before(async () => {
    engine = await openEngine();
    remote = await startA2aServer();
  });
  beforeEach(() => {
    remote.seen.length = 0;
    remote.intercept = () => false;
  });
  after(async () => {
    await engine.close();
    await remote.close();
  });

  /** A run that asks the remote agent for it, its call not made yet. */
  const begun = async (
    message: string,
    more: Partial<ToolRequest> = {},
    asked: Partial<CreateRun> = {},
  ): Promise<string> => {
    const tool = { name: 'remote', transport: { type: 'a2a' as const, endpoint: remote.url }, ...more };
    const agent = await engine.agent({}, [tool]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'remote'), input: { message } }) : text('so')));
    const { run } = await engine.start(agent, 'go', asked);
    assert.equal(await engine.drive(run), 'yielded');
    return run;
  };
  const made = async (run: string) => {
    await waitUntil('the call is over', async () => {
      await engine.makeCalls(run);
      return ['succeeded', 'failed', 'unknown'].includes((await endOfCall(engine, run)).status);
    });
    return endOfCall(engine, run);
  };
  /** Lets the first request of this kind wait, while whoever has sent it dies. */
  const dieDuring = async (method: string, run: string): Promise<() => Promise<void>> => {
    const hanging = door();
    let first = true;
    remote.intercept = ({ body }, response, handled) => {
      if (!first || methodOf(body) !== method) return false;
      first = false;
      void hanging.pass().then(() => handled.then((answer) => response.end(JSON.stringify(answer))));
      return true;
    };
    const attempts: Promise<unknown>[] = [];
    await waitUntil('it is asked', async () => {
      attempts.push(engine.makeCalls(run));
      await Promise.race([attempts.at(-1), hanging.reached]);
      return !first;
    });
    await engine.everyoneDies();
    return async () => {
      hanging.open();
      await Promise.all(attempts);
    };
  };

  it('is looked at by the next one, and begun once', async () => {
    const run = await begun('held paper');
    const [end] = await engine.makeCalls(run);
    assert.equal(end?.kind, 'later');
    const late = await dieDuring('GetTask', run);
    remote.release();
    const call = await made(run);
    assert.deepEqual([call.status, call.output], ['succeeded', 'paper']);
    await late();
    assert.equal(remote.count('SendMessage'), 1);
    await engine.finish(run);
    assert.match(JSON.stringify(await engine.conversation(run)), /paper/);
  });

  it('is begun with the same message again where the agent knows it, and nobody knows of the first', async () => {
    const run = await begun('say it', { annotations: { idempotentHint: true } });
    const late = await dieDuring('SendMessage', run);
    assert.equal((await made(run)).status, 'succeeded');
    await late();
    const ids = remote.seen
      .filter(({ body }) => methodOf(body) === 'SendMessage')
      .map(({ body }) => {
        const { params } = JSON.parse(body) as { params: { message: { messageId: string } } };
        return params.message.messageId;
      });
    assert.equal(ids.length, 2);
    assert.equal(new Set(ids).size, 1);
  });

  it('is found by maintenance until it is cancelled there, where its run was cancelled and the job for that is lost', async () => {
    const traceparent = `00-${'1'.repeat(32)}-${'1'.repeat(16)}-01`;
    const run = await begun('held paper', {}, { traceparent });
    assert.equal((await engine.makeCalls(run))[0]?.kind, 'later');
    await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run });
    const lost = async () => {
      const filter = { quietMs: 0, after: '00000000-0000-0000-0000-000000000000', limit: 500, embeds: true };
      return (await listLostCalls(engine.context.db, filter)).filter(({ run_id }) => run_id === run);
    };
    const [call] = await lost();
    assert.ok(call);
    const job = { tenantId: engine.tenantId, runId: run, callId: call.id };
    await cancelRemote(engine.context, job, new AbortController().signal);
    assert.deepEqual(await lost(), []);
    const cancels = remote.seen.filter(({ body }) => methodOf(body) === 'CancelTask');
    assert.deepEqual(
      cancels.map(({ headers }) => headers['traceparent']),
      [traceparent],
    );
  });

  it('is of unknown outcome where the agent is not said to know it, until its answer comes after all', async () => {
    const run = await begun('held late');
    const late = await dieDuring('SendMessage', run);
    assert.equal((await made(run)).status, 'unknown');
    await engine.drive(run);
    await late();
    remote.release();
    assert.equal((await made(run)).status, 'succeeded');
    assert.equal(remote.count('SendMessage'), 1);
  });
});
