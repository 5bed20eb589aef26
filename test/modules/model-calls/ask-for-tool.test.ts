import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { z } from 'zod';
import type { NewEvent } from '../../../core/events.ts';
import { foldAll } from '../../../core/state.ts';
import { askForTool, type OwnTool, type ToolAsk } from '../../../modules/model-calls/ask-for-tool.ts';
import { findBudgetDrift, settleBudgets } from '../../../modules/budgets/settle-budgets.ts';
import { appendToRun } from '../../../modules/run-log/append-to-run.ts';
import { wakeParkedRuns } from '../../../modules/runs/wake-parked.ts';
import { door, openEngine, text, use, type Engine } from '../../support/engine.ts';
import type { AnthropicReply } from '../../support/fake-anthropic.ts';
import { addTinyBudget } from '../../support/queries/budgets.ts';
import {
  endProbes,
  failuresOfOutages,
  forgetOwnCalls,
  makeOutagesDue,
  ownCalls,
  reopenOwnCalls,
} from '../../support/queries/model-calls.ts';
import { statusOfRun, storedRun } from '../../support/queries/runs.ts';

const VERDICT: OwnTool<{ meets: boolean; gaps: string[] }> = {
  name: 'submit_verdict',
  description: 'Gives the verdict.',
  arguments: z.object({ meets: z.boolean(), gaps: z.array(z.string()) }),
};
const HAIKU = 'anthropic/claude-haiku-4-5';
const GOOD = { meets: true, gaps: [] };

describe('a model call that Drover makes for itself', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  const ask = (more: Partial<ToolAsk<{ meets: boolean; gaps: string[] }>> = {}) =>
    askForTool(engine.context, {
      tenantId: engine.tenantId,
      workspaceId: engine.platform.workspaceId,
      purpose: 'verdict',
      models: [HAIKU],
      tool: VERDICT,
      system: 'Judge.',
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Is it done?' }] }],
      signal: new AbortController().signal,
      ...more,
    });
  const rows = () => ownCalls(engine);
  const forget = () => forgetOwnCalls(engine);

  it('forces the tool, and answers its validated arguments and what they have cost', async () => {
    engine.say([use({ name: 'submit_verdict', input: GOOD })]);
    const answer = await ask();
    assert.ok('arguments' in answer);
    assert.deepEqual(answer.arguments, GOOD);
    const [request] = engine.model.requests;
    assert.deepEqual(request?.body['tool_choice'], { type: 'tool', name: 'submit_verdict' });
    const [row] = await rows();
    assert.equal(row?.state, 'settled');
    assert.equal(row.reserved, 'settled');
    assert.ok(Number(row.cost_usd) > 0);
    assert.deepEqual(await findBudgetDrift(engine.context.db), []);
    await forget();
  });

  it('asks once more where the answer cannot be used, saying what was wrong, and then gives up', async () => {
    const bad = use({ name: 'submit_verdict', input: { meets: 'perhaps' } });
    engine.say([bad, use({ name: 'submit_verdict', input: GOOD })]);
    assert.ok('arguments' in (await ask()));
    assert.match(JSON.stringify(engine.model.requests[1]?.body['messages']), /not valid/);
    engine.say([bad, text('no')]);
    const answer = await ask();
    assert.ok('fault' in answer);
    assert.equal(answer.fault.code, 'unusable');
    assert.equal(engine.model.requests.length, 2);
    assert.equal((await rows()).filter(({ state }) => state === 'settled').length, 4, 'each answer was paid');
    await forget();
  });

  it('asks the next model where one cannot be asked or refuses', async () => {
    engine.say([
      { error: { status: 400, type: 'invalid_request_error', message: 'no such thing' } },
      use({ name: 'submit_verdict', input: GOOD }),
    ]);
    const models = ['openai/gpt-4.1', 'anthropic/claude-sonnet-4-5', 'anthropic/claude-haiku-4-5'];
    const answer = await ask({ models });
    assert.ok('arguments' in answer);
    assert.deepEqual(
      (await rows()).map(({ state, error_code }) => [state, error_code]),
      [
        ['released', 'invalid_request'],
        ['settled', null],
      ],
    );
    await forget();
  });

  it('ends when its time is up or its caller stops, and leaves nothing on the signal of the caller', async () => {
    const stop = new AbortController();
    const gate = door();
    const answering = async () => {
      await gate.pass();
      return use({ name: 'submit_verdict', input: GOOD });
    };
    engine.say(answering);
    await assert.rejects(ask({ signal: stop.signal, timeoutMs: 1 }), /timed out after 1 ms/);
    assert.equal(getEventListeners(stop.signal, 'abort').length, 0);
    engine.say(answering);
    const asked = ask({ signal: stop.signal, timeoutMs: 60_000 });
    stop.abort(new Error('stopped'));
    await assert.rejects(asked, /aborted by the caller/);
    gate.open();
    await forget();
  });

  const AWAY: AnthropicReply = {
    error: { status: 500, type: 'api_error', message: 'away', headers: { 'retry-after-ms': '0' } },
  };
  const GOOD_REPLY = use({ name: 'submit_verdict', input: GOOD });
  const dueNow = () => makeOutagesDue(engine);
  const faultOf = (answer: Awaited<ReturnType<typeof ask>>) => ('fault' in answer ? answer.fault.code : 'answered');
  const askMany = async () => (await Promise.all(Array.from({ length: 5 }, () => ask()))).map(faultOf).toSorted();

  it('is not made while its provider is known to be away, but for one that asks for all', async () => {
    engine.say(() => AWAY);
    assert.equal(faultOf(await ask()), 'unavailable');
    assert.equal(engine.model.requests.length, 3);
    assert.deepEqual(await askMany(), Array(5).fill('unavailable'));
    assert.equal(engine.model.requests.length, 3, 'nobody asks before the time');
    await dueNow();
    await askMany();
    assert.equal(engine.model.requests.length, 4, 'one asks for all, once');
    const { run } = await engine.start(await engine.agent(), 'hello');
    engine.say(() => text('well'));
    await engine.finish(run);
    assert.equal(await statusOfRun(engine, run), 'completed', 'no run waits for what calls of Drover have met');
    await dueNow();
    engine.say(() => GOOD_REPLY);
    assert.ok((await askMany()).includes('answered'));
    assert.deepEqual(await askMany(), Array(5).fill('answered'));
    await forget();
  });

  it('waits for a provider that runs have found away, and may be what finds it back for them', async () => {
    engine.say(() => AWAY);
    const agent = await engine.agent({ llm_config: { default_model: HAIKU } });
    const [one, other] = [await engine.start(agent, 'hello'), await engine.start(agent, 'hello')];
    for (const { run } of [one, other]) assert.equal(await engine.drive(run), 'dormant');
    const before = engine.model.requests.length;
    assert.equal(faultOf(await ask()), 'unavailable');
    assert.equal(engine.model.requests.length, before);
    await dueNow();
    engine.say((request) => (request.tools?.[0]?.name === 'submit_verdict' ? GOOD_REPLY : text('back')));
    assert.equal(faultOf(await ask()), 'answered');
    assert.equal(await wakeParkedRuns(engine.context), 2, 'the runs go on');
    for (const { run } of [one, other]) await engine.finish(run);
    await forget();
  });

  /** A call that asks for all, and hears nothing until the door is opened. */
  const askInSilence = async (reply: AnthropicReply) => {
    await dueNow();
    const silence = door();
    engine.say(async () => {
      await silence.pass();
      return reply;
    });
    const asked = ask();
    await silence.reached;
    await endProbes(engine);
    return { asked, open: silence.open };
  };

  it('keeps no others waiting where it fails after another was answered', async () => {
    engine.say(() => AWAY);
    assert.equal(faultOf(await ask()), 'unavailable');
    const late = await askInSilence(AWAY);
    engine.say(() => GOOD_REPLY);
    assert.equal(faultOf(await ask()), 'answered');
    late.open();
    assert.equal(faultOf(await late.asked), 'unavailable');
    assert.equal(faultOf(await ask()), 'answered');
    await forget();
  });

  it('ends the outage for calls and runs with its late answer, although a run asks by now', async () => {
    engine.say(() => AWAY);
    assert.equal(faultOf(await ask()), 'unavailable');
    const agent = await engine.agent({ llm_config: { default_model: HAIKU } });
    const [one, other] = [await engine.start(agent, 'hello'), await engine.start(agent, 'hello')];
    for (const { run } of [one, other]) assert.equal(await engine.drive(run), 'dormant');
    const late = await askInSilence(GOOD_REPLY);
    assert.equal(await wakeParkedRuns(engine.context), 1, 'it asks by now');
    late.open();
    assert.equal(faultOf(await late.asked), 'answered');
    assert.deepEqual(await failuresOfOutages(engine), []);
    assert.equal(await wakeParkedRuns(engine.context), 1);
    engine.say(() => text('back'));
    for (const { run } of [one, other]) await engine.finish(run);
    await forget();
  });

  it('costs what the provider had counted where the answer breaks off', async () => {
    const error = { type: 'api_error', message: 'broken', midStream: true };
    const usage = { input_tokens: 10, output_tokens: 50 };
    engine.say((_, n) => (n === 0 ? { ...GOOD_REPLY, usage, error } : GOOD_REPLY));
    assert.equal(faultOf(await ask()), 'answered');
    const [broken, whole] = await rows();
    assert.deepEqual([broken?.state, broken?.reserved, broken?.error_code], ['settled', 'settled', 'unavailable']);
    assert.ok(Number(broken?.cost_usd) > 0);
    assert.equal(whole?.state, 'settled');
    assert.deepEqual(await findBudgetDrift(engine.context.db), []);
    await forget();
  });

  it('costs what had come of an answer that breaks off before the provider has counted it', async () => {
    const error = { type: 'api_error', message: 'broken', midStream: true };
    engine.say((_, n) => (n === 0 ? { ...GOOD_REPLY, usage: null, error } : GOOD_REPLY));
    assert.equal(faultOf(await ask()), 'answered');
    const [broken, whole] = await rows();
    assert.deepEqual([broken?.state, broken?.reserved, broken?.error_code], ['estimated', 'estimated', 'unavailable']);
    assert.ok(Number(broken?.cost_usd) > 0);
    assert.equal(whole?.state, 'settled');
    assert.deepEqual(await findBudgetDrift(engine.context.db), []);
    await forget();
  });

  it('costs what the asked model does where its server names one without a price', async () => {
    engine.say([{ ...GOOD_REPLY, model: 'my-gateway-model', usage: { input_tokens: 1000, output_tokens: 100 } }]);
    assert.equal(faultOf(await ask()), 'answered');
    const [row] = await rows();
    assert.equal(Number(row?.cost_usd), 0.0015);
    await forget();
  });

  it('is not made where no budget of the tenant is left', async () => {
    engine.say([use({ name: 'submit_verdict', input: GOOD })]);
    await addTinyBudget(engine);
    engine.context.budgets.forget(engine.tenantId);
    const answer = await ask();
    assert.ok('fault' in answer);
    assert.equal(answer.fault.code, 'budget');
    assert.equal(engine.model.requests.length, 0);
    assert.deepEqual(
      (await rows()).map(({ state, reserved }) => [state, reserved]),
      [['released', 'released']],
    );
    await forget();
    engine.context.budgets.forget(engine.tenantId);
  });

  it('is settled at what was set aside where its process died', async () => {
    engine.say([use({ name: 'submit_verdict', input: GOOD })]);
    await ask();
    await reopenOwnCalls(engine, 4242);
    await settleBudgets(engine.context);
    const [row] = await rows();
    assert.deepEqual([row?.state, row?.reserved], ['estimated', 'estimated']);
    await forget();
  });

  it('stands in the log of the run that it is made for, without being a step of it', async () => {
    engine.say([text('hello'), use({ name: 'submit_verdict', input: GOOD }), text('again')]);
    const agent = await engine.agent({ llm_config: { default_model: 'anthropic/claude-haiku-4-5' } });
    const { run } = await engine.start(agent, 'hi', { config: { keep_open: true } });
    await engine.finish(run);
    const before = await storedRun(engine, run);
    const pending: NewEvent[] = [];
    const state = foldAll(null, await engine.log(run));
    assert.ok(state);
    const commit = () =>
      appendToRun(engine.context, { tenantId: engine.tenantId, runId: run }, () => ({ events: pending.splice(0) }));
    const record = { step: 1, state: () => state, append: (event: NewEvent) => void pending.push(event), commit };
    const answer = await ask({ record, run: { id: run, rootId: run, ancestors: [{ run_id: run }] } });
    assert.ok('arguments' in answer);
    await commit();
    const log = await engine.log(run);
    const own = log.filter(({ type, actor }) => type.startsWith('model.') && actor === 'system');
    assert.deepEqual(
      own.map(({ type }) => type),
      ['model.called', 'model.responded'],
    );
    const after = await storedRun(engine, run);
    assert.equal(after.steps, before.steps);
    assert.ok(after.tokens_in > before.tokens_in, 'what it has used is the run’s');
    await engine.post(agent, run, 'and now?');
    await engine.finish(run);
    assert.equal((await engine.log(run)).at(-1)?.type, 'turn.completed');
  });
});
