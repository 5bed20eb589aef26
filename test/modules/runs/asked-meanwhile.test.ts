/** Runs that ask somebody while their queued calls are at work, as workers and maintenance see them. */
import assert from 'node:assert/strict';
import { createPolicy } from '../../../modules/governance/write-policy.ts';
import { reconcile } from '../../../modules/run-log/reconcile.ts';
import { TOOL_CALLS } from '../../../jobs/tool-calls.ts';
import { door, openEngine, offered, text, use, type Engine } from '../../support/engine.ts';
import { statusOfRun } from '../../support/queries/runs.ts';
import { newName } from '../../support/new-name.ts';
import { callsOfRun, queuedCallOf } from '../../support/queries/tool-calls.ts';

describe('A run that asks somebody while its calls are at work', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  const asksAndCalls = (...names: string[]) =>
    engine.say((request, n) => {
      const question = { name: 'ask_user', input: { question: 'How much?' } };
      return n > 0 ? text('done') : use(question, ...names.map((name) => ({ name: offered(request, name) })));
    });
  const statuses = async (run: string) => (await callsOfRun(engine, run)).map(({ status }) => status);

  it('has its lost calls found, those to be made and those that a worker has died over', async () => {
    const { context } = engine;
    const agent = await engine.agent({ tools: ['ask_user'] }, [{ name: 'read', risk_level: 'READ_ONLY' }]);
    asksAndCalls('read');
    const { run } = await engine.start(agent, 'hello');
    await engine.drive(run);
    assert.equal(await statusOfRun(engine, run), 'awaiting_human');
    const callId = await queuedCallOf(engine, run);
    const lose = async (attempt: number) => {
      const queue = context.queues.queue(TOOL_CALLS.name);
      await queue.remove(TOOL_CALLS.id({ callId, attempt }));
      const lost = (await reconcile(context, 0))['tool-calls'];
      return [lost, (await queue.getJob(TOOL_CALLS.id({ callId, attempt }))) !== undefined];
    };
    assert.deepEqual(await lose(0), [1, true]);
    const gate = door();
    engine.toolsAnswer(() => gate.pass().then(() => ({ status: 200, body: 'late' })));
    const dying = engine.makeCalls(run);
    await gate.reached;
    await engine.everyoneDies();
    assert.deepEqual(await lose(1), [1, true]);
    gate.open();
    await dying;
  });

  it('asks about a call that a policy has come to stand before, and makes it once it is allowed', async () => {
    const { context, caller, tenantId } = engine;
    const agent = await engine.agent({}, [{ name: 'first' }, { name: 'second' }]);
    engine.say((request, n) =>
      n > 0 ? text('done') : use({ name: offered(request, 'first') }, { name: offered(request, 'second') }),
    );
    const { run } = await engine.start(agent, 'hello');
    await engine.drive(run);
    const when = 'tool.name.startsWith("first")';
    const rule = {
      name: newName('guard'),
      when,
      decision: 'require_approval',
      reason: 'from now on',
      priority: 0,
    } as const;
    await context.db.withTenant(tenantId, (tx) => createPolicy(tx, caller, rule));
    const gate = door();
    engine.toolsAnswer(() => gate.pass().then(() => ({ status: 200, body: 'made' })));
    const making = engine.makeCalls(run);
    await gate.reached;
    assert.deepEqual(await statuses(run), ['awaiting_approval', 'running']);
    assert.equal(await engine.drive(run), 'dormant');
    assert.equal(await statusOfRun(engine, run), 'awaiting_human');
    gate.open();
    await making;
    assert.equal(await engine.drive(run), 'dormant');
    assert.equal(await statusOfRun(engine, run), 'awaiting_human');
  });
});
