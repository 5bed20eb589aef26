/** What was set aside for a model call of Drover's own whose process has died, and whose has not. */
import assert from 'node:assert/strict';
import { z } from 'zod';
import { settleBudgets } from '../../../modules/budgets/settle-budgets.ts';
import { askForTool, type OwnTool } from '../../../modules/model-calls/ask-for-tool.ts';
import { cancelRun } from '../../../modules/runs/end-run.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { cutOff } from '../../support/cut-off.ts';
import { door, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { isOwnRequest, type AnthropicReply } from '../../support/fake-anthropic.ts';
import { DOMAIN_MODES } from '../../support/modes.ts';
import {
  beforeLeases,
  forgetOwnCalls,
  hasOutlivedLease,
  longUnderWay,
  ownCalls,
} from '../../support/queries/model-calls.ts';
import { storedRun } from '../../support/queries/runs.ts';
import { waitUntil } from '../../support/wait-until.ts';

const TITLE: OwnTool<{ title: string }> = {
  name: 'submit_title',
  description: 'Gives the title.',
  arguments: z.object({ title: z.string() }),
};
const GOOD = use({ name: 'submit_title', input: { title: 'Cars' } });
/** Short enough to be waited for, and long enough that a busy machine renews it. */
const LEASE_MS = 3000;

for (const mode of DOMAIN_MODES) {
  describe(`What is set aside for a call of Drover's own (${mode})`, () => {
    let engine: Engine;
    before(async () => {
      engine = await openEngine(mode);
    });
    afterEach(() => forgetOwnCalls(engine));
    after(() => engine.close());

    /** Asks in a process of its own, which can be cut off, and answers once the model has heard. */
    const askInSilence = async (reply: AnthropicReply = GOOD) => {
      const silence = door();
      engine.say(() => silence.pass().then(() => reply));
      const asking = cutOff(engine, { leaseMs: LEASE_MS });
      const asked = askForTool(asking.context, {
        tenantId: engine.tenantId,
        workspaceId: engine.platform.workspaceId,
        purpose: 'title',
        models: ['anthropic/claude-haiku-4-5'],
        tool: TITLE,
        system: 'Name it.',
        messages: [{ role: 'user', content: [{ type: 'text', text: 'It is about cars.' }] }],
        signal: new AbortController().signal,
      });
      await silence.reached;
      return { asked, asking, silence };
    };
    const states = async () => {
      await settleBudgets(engine.context);
      return (await ownCalls(engine)).map(({ state, reserved }) => [state, reserved]);
    };
    const OPEN = [['open', 'open']];
    const ESTIMATED = [['estimated', 'estimated']];

    it('is settled at the estimate once nobody has renewed its lease, and not before', async () => {
      const { asked, asking, silence } = await askInSilence();
      assert.deepEqual(await states(), OPEN);
      asking.off();
      await waitUntil('the call is taken for lost', async () => (await states())[0]?.[0] === 'estimated', 20_000);
      assert.deepEqual(await states(), ESTIMATED);
      silence.open();
      await assert.rejects(asked, /gone/);
    });

    it('stays set aside while its process lives, however long the model takes', async () => {
      const { asked, silence } = await askInSilence();
      await waitUntil('it lives on renewals', () => hasOutlivedLease(engine, LEASE_MS), 20_000);
      assert.deepEqual(await states(), OPEN);
      silence.open();
      assert.ok('arguments' in (await asked));
      assert.deepEqual(await states(), [['settled', 'settled']]);
    });

    it('is settled at once where the data directory proves that its process is dead', async () => {
      const { asked, silence } = await askInSilence();
      await engine.everyoneDies();
      assert.deepEqual(await states(), ESTIMATED);
      silence.open();
      await asked;
    });

    it('is settled after the longest call where a process of the build before has made it, which knows no lease', async () => {
      const { asked, asking, silence } = await askInSilence();
      asking.off();
      await beforeLeases(engine, '10 minutes');
      assert.deepEqual(await states(), OPEN);
      await beforeLeases(engine, '12 minutes');
      assert.deepEqual(await states(), ESTIMATED);
      silence.open();
      await assert.rejects(asked, /gone/);
    });

    it('is settled after the longest call, though its lease is renewed: whoever does that no longer waits', async () => {
      const { asked, asking, silence } = await askInSilence();
      await longUnderWay(engine, '10 minutes');
      assert.deepEqual(await states(), OPEN);
      await longUnderWay(engine, '12 minutes');
      assert.deepEqual(await states(), ESTIMATED);
      asking.off();
      silence.open();
      await assert.rejects(asked, /gone/);
    });

    it('is given back at once where the run is cancelled before the model is asked', async () => {
      let verdicts = 0;
      engine.say((request) => {
        if (isOwnRequest(request)) verdicts += 1;
        return text('Vienna.');
      });
      const agent = await engine.agent({
        llm_config: { default_model: 'anthropic/claude-haiku-4-5' },
        execution_config: { reflect: true },
      });
      const { run } = await engine.start(agent, 'Name the capital.', { config: { budget: { max_tokens: 100_000 } } });
      const { context, tenantId } = engine;
      const commit: Context['commit'] = async (change) => {
        if (JSON.stringify(change).includes('submit_verdict')) await cancelRun(context, { tenantId, runId: run });
        return context.commit(change);
      };
      assert.equal(await engine.drive(run, { ...context, commit }), 'lost');
      assert.equal(verdicts, 0);
      assert.deepEqual(await states(), [['released', 'released']]);
    });

    it('keeps no run from its end whose verdict was asked for by a process that has died', async () => {
      const silence = door();
      const verdict = use({ name: 'submit_verdict', input: { meets_criteria: true, gaps: [] } });
      engine.say((request, n) => {
        if (!isOwnRequest(request)) return text('Vienna.');
        return n === 1 ? silence.pass().then(() => verdict) : verdict;
      });
      const agent = await engine.agent({
        llm_config: { default_model: 'anthropic/claude-haiku-4-5' },
        execution_config: { reflect: true },
      });
      const { run } = await engine.start(agent, 'Name the capital.', { config: { budget: { max_tokens: 1000 } } });
      const driving = engine.drive(run);
      await silence.reached;
      await engine.everyoneDies();
      assert.equal(await engine.drive(run), 'yielded', 'it waits for room');
      await settleBudgets(engine.context);
      await engine.finish(run);
      assert.equal((await storedRun(engine, run)).status, 'completed');
      silence.open();
      assert.equal(await driving, 'lost');
    });
  });
}
