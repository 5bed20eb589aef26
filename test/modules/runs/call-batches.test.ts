import assert from 'node:assert/strict';
import { RISK_LEVELS, type RiskLevel } from '../../../core/tool.ts';
import { eraseRun } from '../../../modules/runs/erase-run.ts';
import { cancelRun, failRun } from '../../../modules/runs/end-run.ts';
import { decideApproval, type ApprovalDecision } from '../../../modules/approvals/decide-approval.ts';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import { createPolicy, removePolicy } from '../../../modules/governance/write-policy.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { approvalsOfRun, batchesOfRun } from '../../support/queries/approvals.ts';
import { auditOf } from '../../support/queries/audit.ts';

interface CallBatch {
  id: string;
  status: string;
  purpose: string;
  max_risk_level: string;
  auto_executing: boolean;
  steps: { tool: string; risk_level: string }[];
  reason: string | null;
}
interface Approval {
  id: string;
  plan_id: string;
  status: string;
  arguments: { steps: { tool: string; arguments: unknown }[] };
}

describe('Call batches', () => {
  let engine: Engine;

  before(async () => {
    engine = await openEngine();
  });

  beforeEach(() => engine.toolsAnswer(() => undefined));

  after(async () => {
    const { differences } = await rebuildProjections(engine.context.db, { check: true });
    await engine.close();
    assert.deepEqual(differences, []);
  });

  const tool = (name: string, risk_level: RiskLevel) => ({ name, risk_level });
  const MIXED = [tool('look', 'READ_ONLY'), tool('note', 'WRITE_LOW_RISK'), tool('pay', 'WRITE_HIGH_RISK')];

  /** A run whose model asks for one call of each tool at once, driven until it waits or its driver yields. */
  async function proposed(
    tools: ReturnType<typeof tool>[],
    autonomy_level = 2,
    said = 'Three things to do.',
  ): Promise<string> {
    const agent = await engine.agent({ autonomy_level }, tools);
    engine.say((request, n) => {
      if (n > 0) return text('I see');
      const uses = use(...tools.map(({ name }, index) => ({ name: offered(request, name), input: { n: index } })));
      return { content: [{ type: 'text', text: said }, ...(uses.content ?? [])] };
    });
    const { run } = await engine.start(agent, 'hello');
    await engine.drive(run);
    return run;
  }

  const batches = (run: string) => batchesOfRun<CallBatch>(engine, run);
  const approvals = (run: string) => approvalsOfRun<Approval>(engine, run);
  const types = async (run: string, family: RegExp) =>
    (await engine.log(run)).map(({ type }) => type).filter((type) => family.test(type));
  const decide = (id: string, decided: ApprovalDecision) =>
    decideApproval(engine.context, { tenantId: engine.tenantId, id }, decided);
  const told = () => JSON.stringify(engine.model.requests.at(-1)?.body);

  /** What runs without a person, at levels 0 to 3 by the highest risk in the plan. */
  const MATRIX: Record<RiskLevel, [boolean, boolean, boolean, boolean]> = {
    READ_ONLY: [false, true, true, true],
    WRITE_LOW_RISK: [false, false, true, true],
    WRITE_HIGH_RISK: [false, false, false, true],
  };
  for (const risk of RISK_LEVELS) {
    MATRIX[risk].forEach((runsAlone, level) => {
      it(`of at most ${risk} ${runsAlone ? 'run' : 'wait for a person'} at autonomy level ${level}`, async () => {
        const run = await proposed([tool('a', 'READ_ONLY'), tool('b', 'READ_ONLY'), tool('c', risk)], level);
        const [batch] = await batches(run);
        assert.deepEqual([batch?.auto_executing, batch?.max_risk_level], [runsAlone, risk]);
        assert.equal(batch?.status, runsAlone ? 'executing' : 'proposed');
        assert.equal((await approvals(run)).length, runsAlone ? 0 : 1);
        await engine.makeCalls(run);
        assert.equal(engine.tools.seen.length, runsAlone ? 3 : 0);
      });
    });
  }

  it('are approved as a whole, once, with every step and its exact arguments', async () => {
    const run = await proposed(MIXED);
    const [approval, ...others] = await approvals(run);
    assert.ok(approval && others.length === 0);
    assert.deepEqual(
      approval.arguments.steps.map((step) => step.arguments),
      [{ n: 0 }, { n: 1 }, { n: 2 }],
    );
    const [batch] = await batches(run);
    assert.deepEqual([batch?.id, batch?.purpose], [approval.plan_id, 'Three things to do.']);
    await decide(approval.id, { decision: 'approve' });
    await engine.finish(run);
    assert.equal(engine.tools.seen.length, 3);
    assert.equal((await batches(run))[0]?.status, 'completed');
    assert.deepEqual(await types(run, /^plan\./), ['plan.proposed', 'plan.approved', 'plan.started', 'plan.completed']);
  });

  it('are proposed for whatever purpose, which is cut between two characters', async () => {
    for (const before of ['', 'a']) {
      const [batch] = await batches(await proposed(MIXED, 1, before + '😀'.repeat(400)));
      assert.match(batch?.purpose ?? '', /^a?😀{249,250}$/u);
    }
  });

  it('are two calls or fewer never', async () => {
    const run = await proposed([tool('a', 'READ_ONLY'), tool('pay', 'WRITE_HIGH_RISK')]);
    assert.deepEqual(await batches(run), []);
    assert.equal((await approvals(run))[0]?.plan_id, null);
  });

  it('that a person denies make none of their calls, and the model reads why', async () => {
    const run = await proposed(MIXED);
    const [approval] = await approvals(run);
    await decide(approval?.id ?? '', { decision: 'deny', reason: 'too much at once' });
    await engine.finish(run);
    assert.equal(engine.tools.seen.length, 0);
    assert.equal(told().match(/too much at once/g)?.length, 3);
    assert.deepEqual(await types(run, /^plan\./), ['plan.proposed', 'plan.rejected']);
    assert.equal((await batches(run))[0]?.status, 'rejected');
  });

  it('go on after a failed step, and end with errors; the model is told what failed', async () => {
    engine.toolsAnswer((_request, n) =>
      n === 1 ? Promise.resolve({ status: 400, body: 'no such thing' }) : undefined,
    );
    const run = await proposed([tool('a', 'READ_ONLY'), tool('b', 'READ_ONLY'), tool('c', 'READ_ONLY')]);
    await engine.makeCalls(run);
    await engine.finish(run);
    assert.equal(engine.tools.seen.length, 3);
    const completed = (await engine.log(run)).find(({ type }) => type === 'plan.completed');
    assert.ok(completed?.type === 'plan.completed');
    assert.equal(completed.payload.status, 'completed_with_errors');
    assert.equal(completed.payload.failed.length, 1);
    assert.match(told(), /no such thing/);
    assert.equal((await batches(run))[0]?.status, 'completed_with_errors');
  });

  it('that wait are rejected when their run is cancelled', async () => {
    const run = await proposed(MIXED);
    await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run }, undefined);
    assert.equal((await batches(run))[0]?.status, 'rejected');
    assert.equal((await approvals(run))[0]?.status, 'expired');
  });

  it('count a call of a tool that there is not among their steps, and name it as failed', async () => {
    const agent = await engine.agent({}, [tool('a', 'READ_ONLY'), tool('b', 'READ_ONLY')]);
    engine.say((request, n) => {
      if (n > 0) return text('I see');
      return use({ name: offered(request, 'a') }, { name: 'made_up' }, { name: offered(request, 'b') });
    });
    const { run } = await engine.start(agent, 'hello');
    await engine.drive(run);
    await engine.makeCalls(run);
    await engine.finish(run);
    const log = await engine.log(run);
    const steps = log.flatMap((event) => (event.type === 'plan.proposed' ? event.payload.steps : []));
    const requested = log.flatMap((event) => (event.type === 'tool.requested' ? [event.payload.tool_call_id] : []));
    assert.deepEqual(
      steps.map(({ tool_call_id }) => tool_call_id),
      requested,
    );
    assert.deepEqual([steps[1]?.tool, steps[1]?.risk_level], ['made_up', 'READ_ONLY']);
    const failed = log.flatMap((event) => (event.type === 'plan.completed' ? event.payload.failed : []));
    assert.deepEqual(failed, [{ tool_call_id: requested[1], tool: 'made_up' }]);
    assert.equal(engine.tools.seen.length, 2);

    await eraseRun(engine.context, engine.caller, { id: run, dependents: false });
    assert.equal(JSON.stringify(await batches(run)).includes('made_up'), false);
    assert.equal(JSON.stringify(await engine.log(run)).includes('made_up'), false);
  });

  it('of a session are audited where they run by themselves', async () => {
    const agent = await engine.agent({ autonomy_level: 1 }, [
      tool('a', 'READ_ONLY'),
      tool('b', 'READ_ONLY'),
      tool('c', 'READ_ONLY'),
    ]);
    const audited = async (config: Record<string, unknown>) => {
      engine.say((request, n) =>
        n > 0 ? text('I see') : use(...['a', 'b', 'c'].map((name) => ({ name: offered(request, name) }))),
      );
      const { run, thread } = await engine.start(agent, 'hello', { config });
      await engine.drive(run);
      const [batch] = await batches(run);
      const rows = (await auditOf(engine, batch?.id)).flatMap(({ action, target_type, actor_type, details }) =>
        action === 'plan.executed' && target_type === 'plan' ? [{ actor_type, details }] : [],
      );
      return { rows, thread };
    };
    const { rows, thread } = await audited({ keep_open: true, autonomy_level: 1, session: { user_id: 'ada' } });
    const details = { session_id: thread, user_id: 'ada', autonomy_level: 1, automatic: true, tools: 3 };
    assert.deepEqual(rows, [{ actor_type: 'system', details }]);
    assert.deepEqual((await audited({})).rows, []);
  });

  for (const [how, end] of [
    ['is cancelled', (run: string) => cancelRun(engine.context, { tenantId: engine.tenantId, runId: run })],
    [
      'fails',
      (run: string) =>
        failRun(engine.context, { tenantId: engine.tenantId, runId: run }, { code: 'internal', message: 'a fault' }),
    ],
  ] as const) {
    it(`that are under way end with errors when their run ${how}, naming the steps without a result`, async () => {
      const run = await proposed([tool('a', 'READ_ONLY'), tool('b', 'READ_ONLY'), tool('c', 'READ_ONLY')]);
      engine.toolsAnswer((_request, n) => (n === 0 ? undefined : Promise.resolve({ status: 429, body: {} })));
      await engine.makeCalls(run);
      await end(run);
      assert.equal((await batches(run))[0]?.status, 'completed_with_errors');
      const log = await engine.log(run);
      const completed = log.find(({ type }) => type === 'plan.completed');
      assert.ok(completed?.type === 'plan.completed');
      assert.deepEqual(
        completed.payload.failed.map((step) => step.tool.slice(0, 2)),
        ['b_', 'c_'],
      );
      assert.ok(log.indexOf(completed) < log.findIndex(({ type }) => /^run\.(cancelled|failed)$/.test(type)));
    });
  }

  it('lapse as a whole where a policy blocks one of their steps by now', async () => {
    const run = await proposed(MIXED);
    const { caller } = engine;
    const rule = { name: 'stop', priority: 1, when: 'arguments.n == 1', decision: 'block' as const, reason: 'stopped' };
    const { db } = engine.context;
    const { id } = await db.withTenant(engine.tenantId, (tx) => createPolicy(tx, caller, rule));
    const [approval] = await approvals(run);
    await assert.rejects(decide(approval?.id ?? '', { decision: 'approve' }), /lapsed: .*stopped/);
    await engine.finish(run);
    await db.withTenant(engine.tenantId, (tx) => removePolicy(tx, caller, id));
    assert.equal(engine.tools.seen.length, 0);
    assert.equal((await batches(run))[0]?.status, 'rejected');
  });
});
