import assert from 'node:assert/strict';
import { findApproval } from '../../../db/approvals.ts';
import fc from 'fast-check';
import type { RunBudget } from '../../../core/budget.ts';
import { createBudget } from '../../../modules/budgets/write-budget.ts';
import { driveRun } from '../../../modules/runs/drive.ts';
import { setSuspension } from '../../../modules/governance/suspend.ts';
import { cancelRun } from '../../../modules/runs/end-run.ts';
import { decideApproval, expireApproval } from '../../../modules/approvals/decide-approval.ts';
import { maintain } from '../../../modules/platform/maintain.ts';
import { openPlatform } from '../../../modules/platform/open-platform.ts';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import { retryRun } from '../../../modules/runs/retry-run.ts';
import { findBudgetDrift } from '../../../modules/budgets/settle-budgets.ts';
import type { AnthropicReply } from '../../support/fake-anthropic.ts';
import { cutOff } from '../../support/cut-off.ts';
import { door, offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { DOMAIN_MODES } from '../../support/modes.ts';
import { approvalsOfRun, batchesOfRun, decisionsOfRun, pendingApprovals } from '../../support/queries/approvals.ts';
import {
  addCalls,
  ageReservations,
  lowerBudget,
  removeBudgets,
  removeCalls,
  reservationsOfRun,
  spendingOfBudget,
} from '../../support/queries/budgets.ts';
import { storedRun } from '../../support/queries/runs.ts';
import { ledgerOfRun } from '../../support/queries/tool-calls.ts';

const usage = (input: number, output: number) => ({ usage: { input_tokens: input, output_tokens: output } });
const STEP: AnthropicReply = { ...use({ name: 'calculator', input: { expression: '1+1' } }), ...usage(100, 20) };
const SAID: AnthropicReply = {
  content: [{ type: 'text', text: 'so far' }, ...(STEP.content ?? [])],
  ...usage(100, 20),
};
const END: AnthropicReply = { ...text('done'), ...usage(100, 20) };

for (const mode of DOMAIN_MODES) {
  describe(`budgets in ${mode} mode`, () => {
    let engine: Engine;
    let agent: string;

    before(async () => {
      engine = await openEngine(mode, { DROVER_EGRESS_ALLOW: '127.0.0.1' });
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
    const typesOf = async (run: string, family: string) =>
      (await engine.log(run)).flatMap(({ type }) => (type.startsWith(family) ? [type] : []));
    const reservationsOf = (run: string) => reservationsOfRun(engine, run);
    const limit = async (request: Partial<Parameters<typeof createBudget>[2]>) => {
      const caller = { tenantId: engine.tenantId, workspaceId: engine.platform.workspaceId } as Parameters<
        typeof createBudget
      >[1];
      const made = await engine.context.db.withTenant(engine.tenantId, (tx) =>
        createBudget(tx, caller, { period: 'day', ...request }),
      );
      engine.context.budgets.forget(engine.tenantId);
      return made.id;
    };
    const standing = (id: string) => spendingOfBudget(engine, id);
    const soundNow = async () => {
      assert.deepEqual(await findBudgetDrift(engine.context.db), []);
      assert.deepEqual((await rebuildProjections(engine.context.db, { check: true })).differences, []);
    };

    it('are compared with thousands of calls at once, whatever Postgres knows of the tables', async () => {
      engine.say([END]);
      const run = await start({ max_tokens: 1000 });
      await engine.finish(run);
      await addCalls(engine, run, 3000);
      try {
        assert.deepEqual(await findBudgetDrift(engine.context.db), []);
      } finally {
        await removeCalls(engine, run);
      }
    });

    it('leave a run without one alone', async () => {
      engine.say([STEP, END]);
      const run = await start();
      await engine.finish(run);
      assert.equal((await rowOf(run)).status, 'completed');
      assert.deepEqual(await reservationsOf(run), []);
    });

    it('stop a run whose provider reports no usage, by an estimate that is marked', async () => {
      engine.say((_request, n) => ({ ...(n < 8 ? SAID : END), usage: null }));
      const run = await start({ max_tokens: 600 });
      await engine.finish(run);
      const { stop_reason, tokens_in, tokens_out } = await rowOf(run);
      const log = await engine.log(run);
      const answers = log.flatMap((event) => (event.type === 'model.responded' ? [event.payload] : []));
      assert.ok(stop_reason === 'budget' && answers.length < 9, `${stop_reason} after ${answers.length} answers`);
      const isMarked = ({ usage: used, cost_usd }: (typeof answers)[number]) =>
        used.estimated && used.input > 0 && used.output > 0 && Number(cost_usd) > 0;
      assert.ok(answers.every(isMarked), JSON.stringify(answers));
      const used = answers.reduce((sum, { usage: of }) => sum + of.input + of.output, 0);
      assert.equal(tokens_in + tokens_out, used);
      const made = (await reservationsOf(run)).filter(({ state }) => state !== 'released');
      assert.ok(made.length > 0 && made.every(({ state, tokens }) => state === 'estimated' && tokens > 0));
      await soundNow();
    });

    it('stop a run with what it has where its steps are used up', async () => {
      engine.say([SAID, SAID, END]);
      const run = await start({ max_steps: 2 });
      await engine.finish(run);
      const { status, stop_reason } = await rowOf(run);
      assert.deepEqual([status, stop_reason, engine.model.requests.length], ['completed', 'budget', 2]);
      assert.deepEqual(await typesOf(run, 'budget'), ['budget.exceeded']);
      const [exceeded] = (await engine.log(run)).filter((event) => event.type === 'budget.exceeded');
      assert.equal(exceeded?.type === 'budget.exceeded' && exceeded.payload.spent.steps, 2);
      assert.deepEqual(
        (await reservationsOf(run)).map(({ state }) => state),
        ['settled', 'settled', 'released'],
      );
      await soundNow();
    });

    describe('that are used up by an answer that asks for calls', () => {
      const callsOf = (run: string) => ledgerOfRun(engine, run);
      const sending = (many: number, tokens: number) => {
        engine.toolsAnswer(() => undefined);
        engine.say((request) => {
          const name = offered(request, 'send');
          const uses = use(...Array.from({ length: many }, (_, n) => ({ name, input: { n } }))).content ?? [];
          return { content: [{ type: 'text', text: 'sending' }, ...uses], ...usage(tokens, 20) };
        });
      };
      const ends = async (run: string) => {
        const { status, stop_reason } = await rowOf(run);
        assert.deepEqual([status, stop_reason, engine.model.requests.length], ['completed', 'budget', 1]);
        assert.equal(engine.tools.seen.length, 0);
        await soundNow();
      };

      it('let none of them be made, say so in the log, and stop with what there is', async () => {
        const sender = await engine.agent({}, [{ name: 'send' }]);
        sending(1, 5000);
        const run = await start({ max_tokens: 4000 }, sender);
        await engine.finish(run);
        await ends(run);
        assert.deepEqual(
          (await callsOf(run)).map(({ status, error }) => [status, error?.code]),
          [['denied', 'budget']],
        );
        const [decided] = await decisionsOfRun(engine, run);
        const reason = "The run's budget is used up; the call was not made.";
        assert.deepEqual([decided?.decision, decided?.stage, decided?.reason], ['block', 'budget', reason]);
        assert.deepEqual(
          (await typesOf(run, ''))
            .join(' ')
            .replace(/.*(?=model.responded)/, '')
            .split(' ')
            .filter((type) => !/^run|^checkpoint/.test(type)),
          ['model.responded', 'budget.exceeded', 'tool.requested', 'policy.decided', 'tool.denied', 'turn.completed'],
        );
      });

      it('ask nobody about them, and end the plan that they form', async () => {
        const sender = await engine.agent({}, [{ name: 'send', risk_level: 'WRITE_HIGH_RISK' }]);
        await limit({ max_cost_usd: 0.001, name: 'purse' });
        sending(3, 5000);
        const run = await start(undefined, sender);
        await engine.finish(run);
        await ends(run);
        assert.equal((await callsOf(run)).filter(({ error }) => error?.code === 'budget').length, 3);
        assert.deepEqual(await approvalsOfRun(engine, run), []);
        const [batch] = await batchesOfRun<{ status: string }>(engine, run);
        assert.equal(batch?.status, 'completed_with_errors');
        const [decided] = await decisionsOfRun(engine, run);
        assert.match(decided?.reason ?? '', /^The budget "purse" is used up/);
      });

      it('let none that a person has approved by then be made', async () => {
        const sender = await engine.agent({}, [{ name: 'send', risk_level: 'WRITE_HIGH_RISK' }]);
        const id = await limit({ max_tokens: 100_000 });
        sending(1, 100);
        const run = await start(undefined, sender);
        await engine.finish(run);
        const [approval] = await pendingApprovals(engine, run);
        assert.ok(approval);
        const ref = { tenantId: engine.tenantId, id: approval.id };
        await decideApproval(engine.context, ref, { decision: 'approve' });
        await lowerBudget(engine, id, 100);
        assert.equal(await engine.drive(run), 'yielded');
        await engine.makeCalls(run);
        await engine.finish(run);
        await ends(run);
        assert.deepEqual(
          (await callsOf(run)).map(({ status, error }) => [status, error?.code]),
          [['denied', 'budget']],
        );
      });

      it('let no further attempt of a call begin that its driver makes', async () => {
        const retry_config = { max_retries: 3, backoff_ms: 1 };
        const sender = await engine.agent({}, [{ name: 'send', execution: { inline: true, retry_config } }]);
        const id = await limit({ max_tokens: 100_000 });
        sending(1, 100);
        engine.toolsAnswer(async () => {
          await lowerBudget(engine, id, 100);
          return { status: 429, body: {} };
        });
        const run = await start(undefined, sender);
        await engine.finish(run);
        assert.deepEqual([(await rowOf(run)).stop_reason, engine.tools.seen.length], ['budget', 1]);
        assert.equal((await callsOf(run))[0]?.status, 'denied');
      });

      it('make the calls of the last step, which belong to it', async () => {
        const sender = await engine.agent({}, [{ name: 'send' }]);
        sending(1, 100);
        const run = await start({ max_steps: 1 }, sender);
        await engine.finish(run);
        assert.deepEqual([(await rowOf(run)).stop_reason, engine.tools.seen.length], ['budget', 1]);
      });

      it('leave an answer that ends its turn as it is', async () => {
        engine.say([{ ...text('done'), ...usage(5000, 20) }]);
        const run = await start({ max_tokens: 600 });
        await engine.finish(run);
        assert.deepEqual([(await rowOf(run)).status, (await rowOf(run)).stop_reason], ['completed', 'end_turn']);
      });
    });

    it('fail a run that cannot even begin, and say what its first call needs and what is left', async () => {
      engine.say([END]);
      const run = await start({ max_tokens: 10 });
      await engine.finish(run);
      const { status, stop_reason, error } = await rowOf(run);
      assert.deepEqual([status, stop_reason, error?.code], ['failed', 'budget', 'budget']);
      const why = /^No budget is left for a model call: it needs about [\d,]+ tokens, and 10 of 10 are left\.$/;
      assert.match(error?.message ?? '', why);
      assert.equal(engine.model.requests.length, 0);
    });

    it('count tokens and cost as the provider reports them', async () => {
      engine.say([STEP, END]);
      const run = await start({ max_tokens: 100_000, max_cost_usd: 5 });
      await engine.finish(run);
      const rows = await reservationsOf(run);
      assert.deepEqual(
        rows.map(({ state, tokens }) => [state, tokens]),
        [
          ['settled', 120],
          ['settled', 120],
        ],
      );
      // 100 input tokens at 2 USD and 20 output tokens at 10 USD a million.
      assert.equal(Number(rows[0]?.cost_usd), 0.0004);
      await soundNow();
    });

    it('give the model what room is left, and stop where it has used it up', async () => {
      engine.say((_request, n) =>
        n === 0 ? STEP : { ...text('cut sho'), stop_reason: 'max_tokens', ...usage(100, 60) },
      );
      const run = await start({ max_tokens: 600 });
      await engine.finish(run);
      const [first, second] = engine.model.requests.map(({ body }) => Number(body['max_tokens']));
      assert.ok(first && second && first < 600 && second < first, `${first}, ${second}`);
      const { status, stop_reason } = await rowOf(run);
      assert.deepEqual([status, stop_reason], ['completed', 'budget']);
      await soundNow();
    });

    it('let a model of unknown price count its tokens alone', async () => {
      const unpriced = await engine.agent({ llm_config: { default_model: 'anthropic/claude-of-tomorrow' } });
      engine.say([END, END]);
      const run = await start({ max_cost_usd: 0.0001, max_tokens: 100_000 }, unpriced);
      await engine.finish(run);
      assert.equal((await rowOf(run)).stop_reason, 'end_turn');
      assert.deepEqual(await reservationsOf(run), [{ step: 1, state: 'settled', tokens: 120, cost_usd: null }]);
      const poor = await start({ max_tokens: 20 }, unpriced);
      await engine.finish(poor);
      assert.equal((await rowOf(poor)).stop_reason, 'budget');
    });

    it('warn once where a soft limit is passed', async () => {
      engine.say([STEP, STEP, STEP, END]);
      const run = await start({ max_steps: 10, soft_limit: 0.2 });
      await engine.finish(run);
      assert.deepEqual(await typesOf(run, 'budget'), ['budget.warned']);
      assert.equal((await rowOf(run)).stop_reason, 'end_turn');
    });

    describe('that ask at their soft limit', () => {
      const asking: RunBudget = { max_steps: 4, soft_limit: 0.25, on_soft_limit: 'ask' };
      const untilAsked = async () => {
        engine.say([SAID, END]);
        const run = await start(asking);
        await engine.finish(run);
        assert.equal((await rowOf(run)).status, 'awaiting_human');
        const [approval] = await pendingApprovals(engine, run);
        assert.ok(approval);
        assert.deepEqual([approval.tool, approval.kind, approval.arguments['max_steps']], ['budget', 'approval', 4]);
        assert.equal(engine.model.requests.length, 1);
        return { run, ref: { tenantId: engine.tenantId, id: approval.id } };
      };

      it('go on with leave, and do not ask again', async () => {
        const { run, ref } = await untilAsked();
        await decideApproval(engine.context, ref, { decision: 'approve' });
        await engine.finish(run);
        assert.deepEqual([(await rowOf(run)).stop_reason, engine.model.requests.length], ['end_turn', 2]);
        await soundNow();
      });

      it('stop without', async () => {
        const { run, ref } = await untilAsked();
        await decideApproval(engine.context, ref, { decision: 'deny', reason: 'enough' });
        await engine.finish(run);
        const { status, stop_reason } = await rowOf(run);
        assert.deepEqual([status, stop_reason, engine.model.requests.length], ['completed', 'budget', 1]);
        await soundNow();
      });

      it('stop where nobody answers in time', async () => {
        const { run, ref } = await untilAsked();
        assert.equal(await expireApproval(engine.context, ref), true);
        await engine.finish(run);
        assert.equal((await rowOf(run)).stop_reason, 'budget');
      });

      it('ask nobody any more once the run is cancelled', async () => {
        const { run, ref } = await untilAsked();
        await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run });
        const approval = await engine.context.db.withTenant(engine.tenantId, (tx) => findApproval(tx, ref.id));
        assert.equal(approval?.status, 'expired');
        await soundNow();
      });
    });

    it('are one for all runs of their agent, and for no other', async () => {
      const other = await engine.agent({ tools: ['calculator'] });
      const id = await limit({ agent_id: agent, max_tokens: 100_000, max_cost_usd: 1 });
      engine.say(() => END);
      for (const of of [agent, agent, other]) await engine.finish(await start(undefined, of));
      assert.equal(Number((await standing(id)).tokens), 240);
      await maintain(engine.context, 'settle-budgets');
      const { tokens, cost_usd, open_tokens } = await standing(id);
      assert.deepEqual([Number(tokens), Number(cost_usd), Number(open_tokens)], [240, 0.0008, 0]);
      await soundNow();
    });

    it('stop every run once they are spent', async () => {
      await limit({ max_cost_usd: 0.002 });
      engine.say(() => END);
      const runs: string[] = [];
      for (let count = 0; count < 6; count++) {
        const run = await start();
        await engine.finish(run);
        runs.push(run);
      }
      const ends = await Promise.all(runs.map(async (run) => (await rowOf(run)).stop_reason));
      assert.equal(ends[0], 'end_turn');
      assert.equal(ends[5], 'budget');
    });

    it('settle at the estimate what a dead driver has left open', async () => {
      const stuck = door();
      engine.say(() => stuck.pass().then(() => END));
      const run = await start({ max_tokens: 100_000 });
      const driving = engine.drive(run);
      await stuck.reached;
      const [open] = await reservationsOf(run);
      assert.equal(open?.state, 'open');
      await engine.everyoneDies();
      engine.say([END]);
      await engine.finish(run);
      stuck.open();
      assert.equal(await driving, 'lost');
      assert.deepEqual(
        (await reservationsOf(run)).map(({ state, tokens }) => [state, tokens]),
        [
          ['estimated', open?.tokens],
          ['settled', 120],
        ],
      );
      await soundNow();
    });

    it('hold the model call too that follows a call which a dead driver has left', async () => {
      const execution_config = { on_unknown: 'tell_model' as const };
      const sender = await engine.agent({ execution_config }, [{ name: 'send', execution: { inline: true } }]);
      const stuck = door();
      engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'send') }) : END));
      engine.toolsAnswer(() => stuck.pass().then(() => ({ status: 200, body: {} })));
      const run = await start({ max_tokens: 100_000 }, sender);
      const driving = engine.drive(run);
      await stuck.reached;
      await engine.everyoneDies();
      await engine.finish(run);
      stuck.open();
      assert.equal(await driving, 'lost');
      assert.deepEqual(
        (await reservationsOf(run)).map(({ step, state }) => [step, state]),
        [
          [1, 'settled'],
          [2, 'settled'],
        ],
      );
      await soundNow();
    });

    it('settle at the estimate what a driver that is cut off has left open of a cancelled run', async () => {
      const stuck = door();
      engine.say(() => stuck.pass().then(() => END));
      const run = await start({ max_tokens: 100_000 });
      const driver = cutOff(engine, { leaseMs: engine.context.config.leaseMs });
      const driving = engine.drive(run, driver.context);
      await stuck.reached;
      driver.off();
      await cancelRun(engine.context, { tenantId: engine.tenantId, runId: run });
      await driving;
      stuck.open();
      await ageReservations(engine, run);
      await maintain(engine.context, 'settle-budgets');
      assert.deepEqual(
        (await reservationsOf(run)).map(({ state }) => state),
        ['estimated'],
      );
      await soundNow();
    });

    it('release what was set aside for a call that the provider refused', async () => {
      engine.say([{ error: { status: 400, type: 'invalid_request_error' } }]);
      const run = await start({ max_tokens: 100_000 });
      await engine.finish(run);
      assert.deepEqual(
        (await reservationsOf(run)).map(({ state }) => state),
        ['released'],
      );
    });

    it('release what was set aside for a call that a driver leaves to the next one', async () => {
      engine.say([STEP, END]);
      const run = await start({ max_tokens: 100_000 });
      const stopping = { stop: new AbortController().signal, draining: () => engine.model.requests.length > 0 };
      const job = { tenantId: engine.tenantId, runId: run, seq: 0 };
      assert.equal((await driveRun(engine.context, job, stopping)).result, 'yielded');
      const statesNow = async () => (await reservationsOf(run)).map(({ step, state }) => `${step} ${state}`);
      assert.deepEqual(await statesNow(), ['1 settled', '2 released']);
      await engine.finish(run);
      assert.deepEqual(await statesNow(), ['1 settled', '2 released', '2 settled']);
      await soundNow();
    });

    it('release what was set aside for a call that a suspension stops', async () => {
      const suspend = (suspended: boolean) =>
        setSuspension(engine.context, engine.caller, { kind: 'agent', id: agent, suspended });
      engine.say(async (_request, n) => {
        if (n === 0) await suspend(true);
        return n === 0 ? STEP : END;
      });
      const run = await start({ max_tokens: 100_000 });
      assert.equal(await engine.drive(run), 'dormant');
      const statesNow = async () => (await reservationsOf(run)).map(({ step, state }) => `${step} ${state}`);
      assert.deepEqual(await statesNow(), ['1 settled', '2 released']);
      await suspend(false);
      await engine.finish(run);
      assert.deepEqual(await statesNow(), ['1 settled', '2 released', '2 settled']);
      await soundNow();
    });

    it('go on from one run to its retry', async () => {
      engine.say([SAID, { error: { status: 400, type: 'invalid_request_error' } }]);
      const run = await start({ max_steps: 2 });
      await engine.finish(run);
      assert.equal((await rowOf(run)).status, 'failed');
      engine.say([SAID, END]);
      const idempotency = { tenantId: engine.tenantId, route: 'test', body: null };
      const { body } = await retryRun(engine.context, {
        tenantId: engine.tenantId,
        runId: run,
        mayRaiseAutonomy: true,
        traceparent: undefined,
        idempotency,
      });
      await engine.finish(body.run_id);
      assert.equal((await rowOf(body.run_id)).stop_reason, 'budget');
      assert.ok(engine.model.requests.length < 2, `${engine.model.requests.length} calls after the first`);
    });

    it('are never exceeded by runs side by side, in two processes (lesson 13)', async () => {
      const { context } = engine;
      const second = mode === 'embedded' ? undefined : await openPlatform(context.config, { log: context.log });
      const within = second ? [context, second.context] : [context];
      const narrow = await engine.agent({ tools: ['calculator'], llm_config: { max_tokens: 200 } });
      try {
        await fc.assert(
          fc.asyncProperty(fc.integer({ min: 400, max: 4000 }), fc.integer({ min: 2, max: 12 }), async (most, many) => {
            await removeBudgets(engine);
            const id = await limit({ max_tokens: most });
            for (const each of within) each.budgets.forget(engine.tenantId);
            // As much as a call may use: what was asked for, and what it says itself of its prompt.
            engine.say((request, n) => ({
              ...(n % 3 === 2 ? END : STEP),
              ...usage(60, Number(request['max_tokens'])),
            }));
            const runs = await Promise.all(Array.from({ length: many }, () => start(undefined, narrow)));
            await Promise.all(
              runs.map(async (run, index) => {
                for (let round = 0; round < 40; round++) {
                  await engine.drive(run, within[index % within.length]);
                  if ((await rowOf(run)).status === 'completed' || (await rowOf(run)).status === 'failed') return;
                }
              }),
            );
            const { tokens, open_tokens } = await standing(id);
            assert.equal(Number(open_tokens), 0);
            assert.ok(Number(tokens) <= most, `${tokens} of ${most}`);
            await soundNow();
          }),
          { numRuns: second ? 6 : 2 },
        );
      } finally {
        await second?.close();
      }
    });
  });
}
