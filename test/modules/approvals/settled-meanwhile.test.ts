import assert from 'node:assert/strict';
import { askAboutCalls } from '../../../core/decision-events/approvals.ts';
import type { AgentDefinition } from '../../../core/definition.ts';
import type { EventType } from '../../../core/events.ts';
import { fold, type RunState } from '../../../core/state.ts';
import { findApproval } from '../../../db/approvals.ts';
import { newId } from '../../../lib/new-id.ts';
import { decideApproval } from '../../../modules/approvals/decide-approval.ts';
import { maintain } from '../../../modules/platform/maintain.ts';
import { appendToRun } from '../../../modules/run-log/append-to-run.ts';
import type { CreateRun } from '../../../modules/runs/create-run.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import { door, offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { sayToRun } from '../../support/say-to-run.ts';
import { toolsOfAgent } from '../../support/queries/agents.ts';
import { pendingApprovals } from '../../support/queries/approvals.ts';
import { statusOfRun } from '../../support/queries/runs.ts';
import { endOfCall } from '../../support/queries/tool-calls.ts';

interface Doubt {
  execution?: AgentDefinition['execution_config'];
  /** The driver's commit that the late result is ahead of. */
  before: EventType;
  config?: CreateRun['config'];
  graph?: AgentDefinition['workflow_graph'];
  /** Waits for the end of the turn. */
  next?: string;
}

describe('A result that lands while a driver is about to commit what follows from an unknown outcome', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  const typesOf = async (run: string) => (await engine.log(run)).map(({ type }) => type);
  const assertProjected = async () => {
    const { differences } = await rebuildProjections(engine.context.db, { check: true });
    assert.deepEqual(differences, []);
  };

  /** A run whose call is taken for lost; `land` lets its result come after all. */
  async function unknownCall({ execution = {}, config = {}, graph }: Partial<Doubt> = {}) {
    const definition = { execution_config: execution, ...(graph && { workflow_graph: graph }) };
    const agent = await engine.agent(definition, graph ? [] : [{ name: 'charge' }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'charge') }) : text('it is charged')));
    const working = door();
    engine.toolsAnswer(async () => {
      await working.pass();
      return { status: 200, body: { charged: true } };
    });
    const { run } = await engine.start(agent, 'charge it', { config });
    assert.equal(await engine.drive(run), 'yielded');
    const making = engine.makeCalls(run);
    await working.reached;
    await engine.everyoneDies();
    await engine.makeCalls(run);
    assert.equal((await endOfCall(engine, run)).status, 'unknown');
    const land = async () => {
      working.open();
      await making;
      assert.equal((await endOfCall(engine, run)).status, 'succeeded');
    };
    return { run, land };
  }

  /** Drives such a run; the result lands just before a commit of the driver. */
  async function settledBefore({ before, next, ...doubt }: Doubt): Promise<string> {
    const { run, land } = await unknownCall(doubt);
    if (next !== undefined) await sayToRun(engine, run, { mode: 'queue', input: { message: next } });
    const { context } = engine;
    let landed = false;
    const commit: Context['commit'] = async (change) => {
      if (!landed && change.events.some(({ type }) => type === before)) {
        landed = true;
        await land();
      }
      return context.commit(change);
    };
    await engine.drive(run, { ...context, commit });
    assert.ok(landed, `nothing committed ${before}`);
    return run;
  }

  it('leaves no question about it to people, and the run goes on with it', async () => {
    const run = await settledBefore({ before: 'approval.requested' });
    assert.deepEqual(await pendingApprovals(engine, run), []);
    assert.equal(await statusOfRun(engine, run), 'completed');
    assert.ok(!(await typesOf(run)).includes('approval.requested'), (await typesOf(run)).join(' '));
    assert.match(JSON.stringify(engine.model.requests.at(-1)?.body), /charged/);
    await assertProjected();
  });

  for (const keep_open of [false, true]) {
    it(`does not let the turn of ${keep_open ? 'a run that is kept open' : 'a run'} fail for it`, async () => {
      const run = await settledBefore({
        execution: { on_unknown: 'fail' },
        before: 'turn.failed',
        config: { keep_open },
      });
      const types = await typesOf(run);
      assert.ok(!types.includes('turn.failed'), types.join(' '));
      assert.equal(types.at(-1), 'turn.completed');
      assert.match(JSON.stringify(engine.model.requests.at(-1)?.body), /charged/);
      await assertProjected();
    });
  }

  it('does not let the turn fail for it where a message waits to begin the next one', async () => {
    const execution = { on_unknown: 'fail' as const };
    const config = { keep_open: true };
    const run = await settledBefore({ execution, before: 'turn.failed', config, next: 'and now?' });
    const types = await typesOf(run);
    assert.ok(!types.includes('turn.failed'), types.join(' '));
    assert.equal(types.filter((type) => type === 'turn.completed').length, 2);
    await assertProjected();
  });

  it('is what the model reads, where the driver was about to ask it with the outcome unknown', async () => {
    const run = await settledBefore({ execution: { on_unknown: 'tell_model' }, before: 'model.called' });
    assert.equal(await statusOfRun(engine, run), 'completed');
    assert.match(JSON.stringify(engine.model.requests.at(-1)?.body), /charged/);
    await assertProjected();
  });

  it('does not let a graph fail that leads on only from a call with a known outcome', async () => {
    const owner = await engine.agent({}, [{ name: 'charge' }]);
    const [tool = ''] = await toolsOfAgent(engine, owner);
    const nodes = [{ name: 'charge', type: 'tool' as const, config: { tool, input: {} } }];
    const graph = { entry_point: 'charge', nodes, edges: [] };
    const execution = { on_unknown: 'tell_model' as const };
    const run = await settledBefore({ execution, before: 'turn.failed', graph });
    const types = await typesOf(run);
    assert.ok(!types.includes('turn.failed'), types.join(' '));
    assert.equal(await statusOfRun(engine, run), 'completed');
    await assertProjected();
  });

  describe('has left a question open in a process of 0.1.0, which', () => {
    /** The question as such a process commits it, on top of the result. */
    async function askAnyway(run: string): Promise<string> {
      const { context, tenantId } = engine;
      const { id: callId, name } = await callOf(run);
      const approvalId = newId();
      const asked = { approvalId, call: { id: callId, name }, digest: 'none', seconds: 86_400 };
      const state = await stateOf(run);
      await appendToRun(context, { tenantId, runId: run }, () => ({ events: askAboutCalls(state, [asked]) }));
      assert.equal(await statusOf(approvalId), 'pending');
      return approvalId;
    }
    const stateOf = async (run: string) => {
      let state: RunState | null = null;
      for (const event of await engine.log(run)) state = fold(state, event);
      assert.ok(state);
      return state;
    };
    const callOf = async (run: string) => {
      const call = (await stateOf(run)).calls[0];
      assert.ok(call);
      return call;
    };
    const statusOf = async (id: string) =>
      (await engine.context.db.withTenant(engine.tenantId, (tx) => findApproval(tx, id)))?.status;

    it('maintenance closes, though the run has ended', async () => {
      const { run, land } = await unknownCall();
      await land();
      const id = await askAnyway(run);
      await engine.finish(run);
      assert.equal(await statusOfRun(engine, run), 'completed');
      const before = await typesOf(run);
      assert.deepEqual(await maintain(engine.context, 'expire-answered'), { expired: 1 });
      assert.equal(await statusOf(id), 'expired');
      assert.deepEqual(await typesOf(run), [...before, 'approval.expired']);
      assert.deepEqual(await maintain(engine.context, 'expire-answered'), { expired: 0 });
      await assertProjected();
    });

    for (const decision of ['rerun', 'give_up'] as const) {
      it(`answers "${decision}" with 409, and is closed by it; the call keeps its result`, async () => {
        const { run, land } = await unknownCall();
        await land();
        const id = await askAnyway(run);
        const ref = { tenantId: engine.tenantId, id };
        await assert.rejects(decideApproval(engine.context, ref, { decision }), { status: 409 });
        assert.equal(await statusOf(id), 'expired');
        assert.equal((await callOf(run)).status, 'succeeded');
        await engine.finish(run);
        assert.equal(await statusOfRun(engine, run), 'completed');
        assert.match(JSON.stringify(engine.model.requests.at(-1)?.body), /charged/);
        assert.equal(engine.tools.seen.length, 1);
        await assertProjected();
      });
    }
  });
});
