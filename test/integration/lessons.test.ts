/**
 * Tests by the numbers of docs/design/lessons.md, which names the files of those that are elsewhere.
 */
import assert from 'node:assert/strict';
import type { Context } from '../../modules/governance/context.ts';
import { startWorkers } from '../../workers/start-workers.ts';
import { request, type Answer, type Call } from '../support/api.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { openTestPlatform, type TestPlatform } from '../support/platform.ts';
import { assertSound, createAgent, readLog, startRun, toolOf, untilRun } from '../support/runs.ts';
import { startScriptedModel, type ScriptedModel } from '../support/scripted-model.ts';
import { waitUntil } from '../support/wait-until.ts';
import { startWorld, type World } from '../support/world.ts';
import { sizeOfCheckpoints } from '../support/queries/logs.ts';

const LEASE_MS = 1000;

describe('What users of other systems suffer from does not happen here:', () => {
  let model: ScriptedModel;
  let world: World;
  let platform: TestPlatform;
  let agent: string;

  before(async () => {
    [model, world] = [await startScriptedModel(), await startWorld()];
    platform = await open(true);
    agent = await createAgent(here);
  });
  after(async () => {
    await platform.close();
    await world.close();
    await model.close();
  });

  const open = (workers: boolean) =>
    openTestPlatform(DOMAIN_MODE, {
      workers,
      api: true,
      env: { ANTHROPIC_API_KEY: 'test', ANTHROPIC_BASE_URL: model.url, DROVER_LEASE_MS: String(LEASE_MS) },
    });
  const callTo =
    (to: () => TestPlatform) =>
    (method: string, path: string, more: Call = {}): Promise<Answer> =>
      request(`${to().url}${path}`, method, { key: to().apiKey, ...more });
  const call = callTo(() => platform);
  const here = {
    call,
    get world() {
      return world;
    },
  } as unknown as Parameters<typeof assertSound>[0];
  const step = (name: 'lookup' | 'record' | 'charge', args: object) => `${toolOf(agent, name)} ${JSON.stringify(args)}`;

  it('1: a tool call of three leases is made once', async () => {
    const { run } = await startRun(here, agent, `call ${step('charge', { label: 'long', ms: 3 * LEASE_MS })}`);
    await untilRun(here, run);
    await assertSound(here, run);
    assert.equal(world.deliveries('long').length, 1);
  });

  it('2: a call that is tried again has the same key, and another call another one', async () => {
    const both = `${step('charge', { label: 'busy', status: 429 })} & ${step('charge', { label: 'free' })}`;
    const { run } = await startRun(here, agent, `call ${both}`);
    await untilRun(here, run);
    const [first, second, ...more] = world.deliveries('busy').map(({ key }) => key);
    assert.equal(more.length, 0);
    assert.equal(first, second);
    assert.notEqual(first, world.deliveries('free')[0]?.key);
  });

  it('3: checkpoints grow with what is new, not with the square of the length', async () => {
    const bytesOf = async (turns: number) => {
      const created = await call('POST', `/v1/agents/${agent}/runs`, { body: { config: { keep_open: true } } });
      const run = created.json.run_id as string;
      for (let turn = 1; turn <= turns; turn++) {
        const body = { input: { message: `say ${turn} ${'words '.repeat(500)}` } };
        const answer = await call('POST', `/v1/agents/${agent}/runs/${run}/turns`, { body });
        assert.equal(answer.json.output?.status, 'complete', answer.text);
      }
      const { count, bytes } = await sizeOfCheckpoints(platform, run);
      assert.equal(count, turns);
      return bytes;
    };
    const [short, long] = [await bytesOf(3), await bytesOf(12)];
    assert.ok(long < 4.5 * short, `${short} bytes of 3 checkpoints, ${long} of 12`);
  });

  it('4: events hold references, so that a long run with large results keeps a small log', async () => {
    const steps = Array.from(
      { length: 40 },
      (_, index) => `call ${step('lookup', { label: `large ${index} ${'x'.repeat(5000)}` })}`,
    ).join(' | ');
    const own = await createAgent(here, { execution_config: { max_turns: 60, timeout_seconds: 600 } });
    const message = steps.replaceAll(toolOf(agent, 'lookup'), toolOf(own, 'lookup'));
    const { run } = await startRun(here, own, message);
    await untilRun(here, run, { timeoutMs: 80_000 });
    const log = await assertSound(here, run);
    const sizes = log.filter(({ type }) => type !== 'turn.started').map((event) => JSON.stringify(event).length);
    assert.ok(Math.max(...sizes) < 2500, `an event of ${Math.max(...sizes)} bytes`);
  });

  it('5: jobs carry ids, however large the message', async () => {
    const message = `call ${step('charge', { label: 'job' })} | say ${'y'.repeat(300_000)}`;
    const sizesOf = async ({ queues }: Context, name: string, run: string) => {
      const jobs = await queues.queue(name).getJobs(['completed', 'waiting', 'prioritized', 'active']);
      return jobs.filter((job) => job.data.runId === run).map((job) => JSON.stringify(job.data).length);
    };
    const { run } = await startRun(here, agent, message);
    await untilRun(here, run);
    // The process that asks for the call makes it; what goes to the queue instead is in test/workers/local-calls.test.ts.
    assert.deepEqual(await sizesOf(platform.context, 'tool-calls', run), []);
    // Without a worker the turn waits in the queue.
    const idle = await open(false);
    try {
      const there = { call: callTo(() => idle), world };
      const waiting = await startRun(there, await createAgent(there), message);
      await waitUntil('its job is sent', async () => (await sizesOf(idle.context, 'turns', waiting.run)).length > 0);
      const [turn = 0] = await sizesOf(idle.context, 'turns', waiting.run);
      assert.ok(turn > 0 && turn < 500, `${turn} bytes`);
    } finally {
      await idle.close();
    }
  });

  it('7: a closed connection cancels nothing, and a cancel works before the work has begun', async () => {
    const gone = new AbortController();
    const run = (await call('POST', `/v1/agents/${agent}/runs`, { body: {} })).json.run_id as string;
    const stream = await fetch(`${platform.url}/v1/agents/${agent}/runs/${run}/turns/stream`, {
      method: 'POST',
      headers: { authorization: `Bearer ${platform.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ input: { message: 'wait 500 say still here' } }),
      signal: gone.signal,
    });
    assert.equal(stream.status, 200);
    gone.abort();
    await untilRun(here, run, { states: ['awaiting_human'] });
    const log = await readLog(here, run);
    assert.equal(log.at(-1)?.type, 'turn.completed');

    const idle = await open(false);
    try {
      const there = { call: callTo(() => idle), world };
      const waiting = await startRun(there, await createAgent(there), 'say never said');
      assert.equal((await there.call('POST', `/v1/runs/${waiting.run}/cancel`, { body: {} })).status, 202);
      const workers = await startWorkers(idle.context);
      await queueIsEmpty(idle.context);
      await workers.stop(3000);
      assert.equal((await there.call('GET', `/v1/runs/${waiting.run}`)).json.status, 'cancelled');
      assert.equal(model.asked('never said').length, 0);
    } finally {
      await idle.close();
    }
  });

  it('9: the model goes on only when each of its parallel calls has a result, refused ones too', async () => {
    const calls = `${step('charge', { label: 'mixed' })} & no_such_tool {} & calculator {"expression":"1 +"} & ${step('lookup', { label: 'mixed' })}`;
    const { run } = await startRun(here, agent, `call ${calls}`);
    await untilRun(here, run);
    await assertSound(here, run);
    const last = model.asked(calls).at(-1);
    const blocks = (last?.messages ?? []).flatMap(({ content }) => (Array.isArray(content) ? content : []));
    const ids = (type: string, field: string) =>
      blocks
        .filter((block) => block.type === type)
        .map((block) => String((block as never as Record<string, unknown>)[field]));
    assert.equal(ids('tool_use', 'id').length, 4);
    assert.deepEqual(ids('tool_result', 'tool_use_id'), ids('tool_use', 'id'));
  });

  it('10: a run that waited goes on where it was, once, however often it is told to', async () => {
    const careful = await createAgent(here, { autonomy_level: 1 });
    const message = `call ${toolOf(careful, 'lookup')} {"label":"before"} | call ${toolOf(careful, 'charge')} {"label":"approved"}`;
    const { run } = await startRun(here, careful, message);
    await untilRun(here, run, { states: ['awaiting_human'] });
    const [approval] = (await call('GET', `/v1/approvals?status=pending&run_id=${run}`)).json.approvals;
    const decide = () => call('POST', `/v1/approvals/${approval.id}`, { body: { decision: 'approve' } });
    const answers = await Promise.all([decide(), decide(), decide(), decide()]);
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]));
    await untilRun(here, run);
    await assertSound(here, run);
    assert.equal(world.deliveries('before').length, 1);
    assert.equal(world.deliveries('approved').length, 1);
    assert.equal(model.asked('"label":"approved"').length, 3, 'each step was asked for once');
  });

  it('11: a run that waits keeps the versions it has started with', async () => {
    const fields = { autonomy_level: 1, system_prompt: 'The first prompt.' };
    const careful = await createAgent(here, fields);
    const { run } = await startRun(here, careful, `call ${toolOf(careful, 'charge')} {"label":"pinned"}`);
    await untilRun(here, run, { states: ['awaiting_human'] });
    const before = (await call('GET', `/v1/runs/${run}`)).json.agent_version;
    const patched = await call('PATCH', `/v1/agents/${careful}`, {
      body: { system_prompt: 'Another prompt.', tools: [] },
    });
    assert.equal(patched.status, 200, patched.text);
    const [approval] = (await call('GET', `/v1/approvals?status=pending&run_id=${run}`)).json.approvals;
    await call('POST', `/v1/approvals/${approval.id}`, { body: { decision: 'approve' } });
    const ended = await untilRun(here, run);
    assert.equal(ended['agent_version'], before);
    assert.equal(world.deliveries('pinned').length, 1, 'the tool that the new version lacks');
    assert.deepEqual(
      new Set(model.asked('"label":"pinned"').map(({ system }) => system)),
      new Set(['The first prompt.']),
    );
  });

  it('12: a run whose driver is gone does not say "running" for ever, and keeps what it spent', async () => {
    const { run } = await startRun(here, agent, `call ${step('charge', { label: 'zombie', ms: 300 })} | say spent`);
    await waitUntil('the call', () => world.deliveries('zombie').length === 1);
    // Jobs gone, as with a Redis that was emptied; the lease of whoever held the run runs out.
    for (const name of ['turns', 'tool-calls']) await platform.context.queues.queue(name).obliterate({ force: true });
    const ended = await untilRun(here, run);
    assert.equal(ended.status, 'completed');
    const log = await assertSound(here, run);
    const spent = log.filter(({ type }) => type === 'model.responded').map(({ payload }) => payload['usage']);
    const input = spent.reduce<number>((sum, usage) => sum + (usage as { input: number }).input, 0);
    assert.ok(input > 0);
    assert.equal((ended['usage'] as { tokens_in: number }).tokens_in, input);
  });

  it('16: a run does not wait for ever for a call that failed for good', async () => {
    const both = `${step('charge', { label: 'fails', status: 404 })} & ${step('charge', { label: 'works' })}`;
    const { run } = await startRun(here, agent, `call ${both}`);
    await untilRun(here, run);
    const log = await assertSound(here, run);
    assert.equal(log.filter(({ type }) => type === 'tool.failed').length, 1);
    await queueIsEmpty(platform.context);
  });
});

/** No job waits, runs, or waits for others. */
async function queueIsEmpty({ queues }: Context): Promise<void> {
  await waitUntil('the queues are empty', async () => {
    const counts = await Promise.all(
      ['turns', 'tool-calls'].map((name) =>
        queues.queue(name).getJobCounts('waiting', 'active', 'delayed', 'prioritized', 'waiting-children'),
      ),
    );
    return counts.flatMap((each) => Object.values(each)).every((count) => count === 0);
  });
}
