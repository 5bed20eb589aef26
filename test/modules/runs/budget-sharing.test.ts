import assert from 'node:assert/strict';
import type { RunBudget } from '../../../core/budget.ts';
import { decideApproval } from '../../../modules/approvals/decide-approval.ts';
import { findBudgetDrift } from '../../../modules/budgets/settle-budgets.ts';
import { createBudget } from '../../../modules/budgets/write-budget.ts';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import type { AnthropicReply } from '../../support/fake-anthropic.ts';
import { door, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { toolsOfAgent } from '../../support/queries/agents.ts';
import { approvalsOfRun } from '../../support/queries/approvals.ts';
import { lowerBudget, removeBudgets, spendingOfBudget } from '../../support/queries/budgets.ts';
import { storedRun } from '../../support/queries/runs.ts';
import { ledgerOfRun } from '../../support/queries/tool-calls.ts';

const usage = { usage: { input_tokens: 100, output_tokens: 20 } };
const SAID: AnthropicReply = { ...use({ name: 'calculator', input: { expression: '1+1' } }), ...usage };
const END: AnthropicReply = { ...text('done'), ...usage };

describe('Budgets that several look at', () => {
  let engine: Engine;
  let agent: string;
  before(async () => {
    engine = await openEngine();
    agent = await engine.agent({ tools: ['calculator'] });
  });
  afterEach(async () => {
    await removeBudgets(engine);
    engine.context.budgets.forget(engine.tenantId);
  });
  after(() => engine.close());

  const start = async (budget?: RunBudget, of = agent) =>
    (await engine.start(of, 'go', { config: budget ? { budget } : {} })).run;
  const rowOf = (run: string) => storedRun(engine, run);
  const limit = async (request: Partial<Parameters<typeof createBudget>[2]>) => {
    const { db, budgets } = engine.context;
    const made = await db.withTenant(engine.tenantId, (tx) =>
      createBudget(tx, engine.caller, { period: 'day', ...request }),
    );
    budgets.forget(engine.tenantId);
    return made.id;
  };
  const soundNow = async () => {
    assert.deepEqual(await findBudgetDrift(engine.context.db), []);
    assert.deepEqual((await rebuildProjections(engine.context.db, { check: true })).differences, []);
  };

  it('count the money that is set aside for calls under way, and let another call wait for it', async () => {
    const narrow = await engine.agent({ tools: ['calculator'], llm_config: { max_tokens: 200 } });
    // Room for one call: what is left of it beside the prompt goes to the first.
    const id = await limit({ max_cost_usd: 0.002 });
    const stuck = door();
    engine.say(() => stuck.pass().then(() => END));
    const first = await start(undefined, narrow);
    const second = await start(undefined, narrow);
    const driving = engine.drive(first);
    await stuck.reached;
    assert.equal(await engine.drive(second), 'yielded');
    assert.equal(engine.model.requests.length, 1);
    assert.ok((await engine.log(second)).every(({ type }) => !type.startsWith('budget')));
    stuck.open();
    assert.equal(await driving, 'dormant');
    await engine.finish(second);
    assert.ok(Number((await spendingOfBudget(engine, id)).cost_usd) <= 0.002);
    await soundNow();
  });

  describe('of a run in a graph', () => {
    const graphOf = async (first: 'llm' | 'tool', then: 'tool' | 'human') => {
      const [pay = ''] = await toolsOfAgent(engine, await engine.agent({}, [{ name: 'pay' }]));
      const nodes = {
        llm: { name: 'think', type: 'llm' as const, config: { tools: [] } },
        tool: { name: 'pay', type: 'tool' as const, config: { tool: pay, input: {} } },
        human: { name: 'ask', type: 'human' as const, config: { signal: 'approval' as const, prompt: 'May I?' } },
      };
      const [from, to] = first === then ? [nodes[first]] : [nodes[first], nodes[then]];
      const edges = to ? [{ from: from.name, to: to.name, condition: null }] : [];
      return engine.agent({ workflow_graph: { entry_point: from.name, nodes: to ? [from, to] : [from], edges } });
    };
    const isRefused = async (run: string) => {
      assert.equal(engine.tools.seen.length, 0);
      assert.deepEqual(await approvalsOfRun(engine, run), []);
      const [call, ...others] = await ledgerOfRun(engine, run);
      assert.deepEqual([call?.status, call?.error?.code, others.length], ['denied', 'budget', 0]);
      const types = (await engine.log(run)).map(({ type }) => type);
      const told = ['budget.exceeded', 'tool.requested', 'policy.decided', 'tool.denied'];
      assert.deepEqual(
        types.slice(types.indexOf('budget.exceeded')).filter((type) => told.includes(type)),
        told,
      );
      await soundNow();
    };

    for (const then of ['tool', 'human'] as const) {
      it(`let no call of a ${then} node be made once a model has used them up, and stop with what it said`, async () => {
        engine.toolsAnswer(() => undefined);
        engine.say([{ ...text('so far'), usage: { input_tokens: 5000, output_tokens: 100 } }]);
        const run = await start({ max_tokens: 4000 }, await graphOf('llm', then));
        await engine.finish(run);
        const { status, stop_reason } = await rowOf(run);
        assert.deepEqual([status, stop_reason], ['completed', 'budget']);
        await isRefused(run);
      });
    }

    it('fail the turn where they are used up before a node that begins with its call', async () => {
      const of = await graphOf('tool', 'tool');
      engine.toolsAnswer(() => undefined);
      const id = await limit({ max_tokens: 100_000 });
      engine.say([END]);
      await engine.finish(await start());
      await lowerBudget(engine, id, 100);
      const run = await start(undefined, of);
      await engine.finish(run);
      const { status, stop_reason } = await rowOf(run);
      assert.deepEqual([status, stop_reason], ['failed', 'budget']);
      await isRefused(run);
    });

    it('let the calls of nodes be made while there is something left', async () => {
      engine.toolsAnswer(() => undefined);
      engine.say([END]);
      const run = await start({ max_tokens: 4000 }, await graphOf('llm', 'tool'));
      await engine.finish(run);
      assert.deepEqual([(await rowOf(run)).stop_reason, engine.tools.seen.length], ['end_turn', 1]);
      await soundNow();
    });
  });

  it('ask once where two pass their soft limits in one look, the first asks and the second warns', async () => {
    // In the order of their keys: an id comes before `run`.
    await limit({ max_tokens: 100_000, soft_limit: 0.001, on_soft_limit: 'ask' });
    engine.say([SAID, END]);
    const run = await start({ max_steps: 4, soft_limit: 0.25, on_soft_limit: 'warn' });
    await engine.finish(run);
    assert.equal((await rowOf(run)).status, 'awaiting_human');
    assert.equal(engine.model.requests.length, 1);
    const warned = (await engine.log(run)).flatMap((event) => (event.type === 'budget.warned' ? [event.payload] : []));
    assert.deepEqual(
      warned.map(({ key, approval_id }) => [key === 'run', approval_id !== undefined]),
      [
        [false, true],
        [true, false],
      ],
    );
    const [approval, ...others] = await approvalsOfRun(engine, run);
    assert.deepEqual(others, []);
    const ref = { tenantId: engine.tenantId, id: approval?.id ?? '' };
    await decideApproval(engine.context, ref, { decision: 'approve' });
    await engine.finish(run);
    assert.deepEqual([(await rowOf(run)).stop_reason, engine.model.requests.length], ['end_turn', 2]);
    await soundNow();
  });
});
