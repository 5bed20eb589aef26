import assert from 'node:assert/strict';
import { UNKNOWN_OUTCOME } from '../../../core/ledger.ts';
import type { PolicyDefinition } from '../../../core/policy.ts';
import { newId } from '../../../lib/new-id.ts';
import { decideApproval, type ApprovalDecision } from '../../../modules/approvals/decide-approval.ts';
import { createPolicy, removePolicy } from '../../../modules/governance/write-policy.ts';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { openProcess } from '../../support/killed-process.ts';
import { replayRecorded } from '../../support/recorded-replay.ts';
import { approvalsOfRun, decisionsOfRun } from '../../support/queries/approvals.ts';
import { statusOfRun } from '../../support/queries/runs.ts';
import { endOfCall } from '../../support/queries/tool-calls.ts';
import { waitUntil } from '../../support/wait-until.ts';

const ASK = { decision: 'require_approval' as const, reason: 'Ask the boss.' };

describe('A policy that meets a call of its driver between two attempts', () => {
  let engine: Engine;
  const made: string[] = [];

  before(async () => {
    engine = await openEngine();
  });

  afterEach(async () => {
    for (const id of made.splice(0))
      await engine.context.db.withTenant(engine.tenantId, (tx) => removePolicy(tx, engine.caller, id));
  });

  after(async () => {
    const { differences } = await rebuildProjections(engine.context.db, { check: true });
    await engine.close();
    assert.deepEqual(differences, []);
  });

  async function policy(rule: Partial<PolicyDefinition>): Promise<void> {
    const full = { name: newId(), priority: 1, when: 'true', decision: 'block' as const, reason: 'not now', ...rule };
    const { id } = await engine.context.db.withTenant(engine.tenantId, (tx) => createPolicy(tx, engine.caller, full));
    made.push(id);
  }

  /** A run whose call was answered with this status, when the rule came, and that its driver has left by now. */
  async function met(status: number, rule: Partial<PolicyDefinition>): Promise<string> {
    const tool = {
      name: 'pay',
      execution: { inline: true, retry_config: { max_retries: 3, backoff_ms: 1 } },
      annotations: { idempotentHint: true },
    };
    const agent = await engine.agent({ execution_config: { on_unknown: 'tell_model' } }, [tool]);
    engine.say((request, n) =>
      n === 0 ? use({ name: offered(request, 'pay'), input: { amount: 7 } }) : text('I see'),
    );
    engine.toolsAnswer((_request, n) => (n > 0 ? undefined : policy(rule).then(() => ({ status, body: {} }))));
    const { run } = await engine.start(agent, 'hello');
    await engine.drive(run);
    return run;
  }

  async function decide(run: string, decided: ApprovalDecision): Promise<void> {
    const open = (
      await approvalsOfRun<{ id: string; status: string; kind: string; message: string }>(engine, run)
    ).filter(({ status }) => status === 'pending');
    assert.deepEqual(
      open.map(({ kind, message }) => [kind, message]),
      [['approval', ASK.reason]],
    );
    await decideApproval(engine.context, { tenantId: engine.tenantId, id: open[0]?.id ?? '' }, decided);
  }

  const sent = () => engine.tools.seen.map(({ body }) => JSON.parse(body) as unknown);
  const told = () => JSON.stringify(engine.model.requests.at(-1)?.body);
  const typesOf = async (run: string) => (await engine.log(run)).map(({ type }) => type);
  const decisionsOf = async (run: string) => (await decisionsOfRun(engine, run)).map(({ decision }) => decision);
  async function assertEnd(run: string, end: { status: string; attempt: number; code?: string }): Promise<void> {
    await engine.finish(run);
    const { status, attempt, code } = await endOfCall(engine, run);
    assert.deepEqual([status, attempt, code], [end.status, end.attempt, end.code ?? null]);
    assert.equal(await statusOfRun(engine, run), 'completed');
  }

  for (const status of [429, 503]) {
    it(`has people asked, and the call is made again once they approve it, where the first was answered with ${status}`, async () => {
      const run = await met(status, ASK);
      assert.equal(await statusOfRun(engine, run), 'awaiting_human');
      assert.deepEqual(await decisionsOf(run), ['require_approval']);
      assert.equal(engine.tools.seen.length, 1);
      await decide(run, { decision: 'approve' });
      await assertEnd(run, { status: 'succeeded', attempt: 2 });
      assert.deepEqual(sent(), [{ amount: 7 }, { amount: 7 }]);
    });
  }

  it('has people asked, who may edit a call that surely had no effect', async () => {
    const run = await met(429, ASK);
    await decide(run, { decision: 'edit', arguments: { amount: 1 } });
    await assertEnd(run, { status: 'succeeded', attempt: 2 });
    assert.deepEqual(sent(), [{ amount: 7 }, { amount: 1 }]);
  });

  it('has people asked, and the call is made as they have edited it by the driver that has asked them, too', async () => {
    const execution = { inline: true, retry_config: { max_retries: 3, backoff_ms: 1 } };
    const agent = await engine.agent({}, [
      { name: 'pay', execution, annotations: { idempotentHint: true } },
      { name: 'look', execution: { inline: true } },
    ]);
    engine.say((request, n) => {
      if (n > 0) return text('I see');
      return use(
        { name: offered(request, 'pay'), input: { amount: 7 } },
        { name: offered(request, 'look'), input: {} },
      );
    });
    let isDecided: () => void = () => undefined;
    const decided = new Promise<void>((resolve) => {
      isDecided = resolve;
    });
    const payments: string[] = [];
    engine.toolsAnswer(({ path, body }) => {
      // The other call keeps the driver until people have decided.
      if (path.includes('look')) return decided.then(() => ({ status: 200, body: {} }));
      payments.push(body);
      return payments.length > 1 ? undefined : policy(ASK).then(() => ({ status: 429, body: {} }));
    });
    const { run } = await engine.start(agent, 'hello');
    const driving = engine.drive(run);
    await waitUntil('people are asked', async () => (await approvalsOfRun(engine, run)).length > 0);
    await decide(run, { decision: 'edit', arguments: { amount: 1 } });
    isDecided();
    await driving;
    await engine.finish(run);
    assert.deepEqual(
      payments.map((body) => JSON.parse(body) as unknown),
      [{ amount: 7 }, { amount: 1 }],
    );
    assert.equal(await statusOfRun(engine, run), 'completed');
  });

  it('leaves the outcome of one unknown whose driver has died while it was made', async () => {
    const tool = { name: 'pay', execution: { inline: true }, annotations: { idempotentHint: true } };
    const agent = await engine.agent({ execution_config: { on_unknown: 'tell_model' } }, [tool]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'pay'), input: {} }) : text('I see')));
    const { run } = await engine.start(agent, 'hello');
    const { context, kill } = openProcess(engine.context);
    const execute = () => {
      kill();
      return Promise.reject(new Error('the process was killed'));
    };
    await assert.rejects(engine.drive(run, { ...context, tools: { ...context.tools, execute } }), /was killed/);
    await engine.everyoneDies();
    await policy({});
    await assertEnd(run, { status: 'unknown', attempt: 1, code: 'blocked_by_policy' });
  });

  it('has people asked, and what they deny is denied if it surely had no effect', async () => {
    const run = await met(429, ASK);
    await decide(run, { decision: 'deny', reason: 'too much' });
    await assertEnd(run, { status: 'denied', attempt: 1, code: 'denied' });
    assert.match(told(), /too much/);
  });

  it('has people asked, and what they deny is of unknown outcome if it may have had its effect', async () => {
    const run = await met(503, ASK);
    await decide(run, { decision: 'deny', reason: 'too much' });
    await assertEnd(run, { status: 'unknown', attempt: 1, code: 'denied' });
    assert.ok(told().includes(UNKNOWN_OUTCOME));
  });

  it('has people asked once, though the driver dies before it knows of their answer', async () => {
    const run = await met(429, ASK);
    await decide(run, { decision: 'approve' });
    await engine.everyoneDies();
    await assertEnd(run, { status: 'succeeded', attempt: 2 });
    assert.equal((await approvalsOfRun(engine, run)).length, 1);
  });

  for (const [name, rule, code] of [
    ['blocks it', {}, 'blocked_by_policy'],
    ['would rewrite it', { decision: 'rewrite' as const, rewrite: { arguments: { amount: 1 } } }, 'policy_changed'],
  ] as const) {
    it(`denies the call where it ${name}, and the decision is on record`, async () => {
      const run = await met(429, rule);
      await assertEnd(run, { status: 'denied', attempt: 1, code });
      const types = await typesOf(run);
      assert.ok(types.includes('policy.decided') && types.includes('tool.denied'), types.join(' '));
      assert.equal((await decisionsOf(run)).length, 1);
      assert.equal(engine.tools.seen.length, 1);
    });
  }

  it('leaves the outcome of one unknown that may have had its effect, and the decision is on record', async () => {
    const run = await met(503, {});
    await assertEnd(run, { status: 'unknown', attempt: 1, code: 'blocked_by_policy' });
    assert.deepEqual(await decisionsOf(run), ['block']);
  });

  for (const [name, rule, requests] of [
    ['approved', ASK, 2],
    ['refused', {}, 1],
  ] as const) {
    it(`leaves a call that was ${name} then the same in a recorded replay: neither the tool nor the model is asked`, async () => {
      const run = await met(429, rule);
      if (rule === ASK) await decide(run, { decision: 'approve' });
      await engine.finish(run);
      const asked = engine.model.requests.length;
      const replay = await replayRecorded(engine, run);
      await engine.finish(replay);
      assert.equal(await statusOfRun(engine, replay), 'completed');
      assert.deepEqual([engine.tools.seen.length, engine.model.requests.length], [requests, asked]);
      assert.deepEqual((await endOfCall(engine, replay)).status, (await endOfCall(engine, run)).status);
    });
  }
});
