import assert from 'node:assert/strict';
import { request } from 'node:http';
import { LIMITS } from '../../../core/limits.ts';
import { claimRun, loadRun } from '../../../db/claim-run.ts';
import { maintain } from '../../../modules/platform/maintain.ts';
import { postSignal } from '../../../modules/waits/post-signal.ts';
import { BUILTIN_TOOLS } from '../../../tools/builtin.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { DOMAIN_MODES } from '../../support/modes.ts';
import { startProcess, type TestProcess } from '../../support/processes.ts';
import { attemptOf, messageOf, outputOf } from '../../support/tool-attempt.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { sized } from '../../support/size.ts';
import {
  makeCheckpointsLarge,
  makeEarlierMessagesLarge,
  makeChildOf,
  makeInputsLarge,
  makeMessagesLarge,
  statusOfRun,
  storedRun,
} from '../../support/queries/runs.ts';
import {
  firstCallOf,
  joinOutputs,
  ledgerOfRun,
  makeCallsLarge,
  splitOfOutput,
  storeOutputsInOnePiece,
} from '../../support/queries/tool-calls.ts';

const MB = 1_000_000;
const LIMIT_BYTES = 3 * MB;
/** Calls with six megabytes each, and quick readers of them all beside ten slow ones: in CI, too, far more than an API with little memory could hold. */
const CALLS = sized({ usual: 30, nightly: 60 });
/** With inputs and states of 1,500,000 characters: read whole by three at a time they are more than an API here can hold. */
const TURNS = sized({ usual: 16, nightly: 30 });
const QUICK_READERS = sized({ usual: 2, nightly: 4 });

describe('A run with large outputs', function () {
  let engine: Engine;
  before(async () => {
    // A model that takes all of it.
    engine = await openEngine(undefined, { DROVER_CONTEXT_WINDOWS: 'anthropic=99999999' });
  });
  after(() => engine.close());

  it('shows the model the same bytes, however the output is stored, and whoever asks the whole of it', async () => {
    const run = await startCalls(engine, 1);
    await engine.drive(run);
    engine.toolsAnswer(() => Promise.resolve({ status: 200, body: { b: 'ü'.repeat(MB), a: 1 } }));
    await engine.makeCalls(run);
    const shown = await lastResult(run);
    assert.ok(shown.startsWith('{"a":1,"b":"üü'));
    assert.match(shown, /\n\[cut: 2000014 bytes in all, the first 1048576 shown\]$/);
    assert.ok(Buffer.byteLength(shown) <= LIMITS.toolOutputForModelBytes + 100);
    await joinOutputs(engine, run);
    assert.equal(await lastResult(run), shown, 'stored in one piece');
    const { split } = (await maintain(engine.context, 'split-outputs')) as { split: number };
    assert.ok(split >= 1);
    assert.equal(await lastResult(run), shown, 'split');
    assert.deepEqual(await splitOfOutput(engine, run), { split: true, whole: MB });
  });

  it('lets the model read the rest of an output part by part, of its own conversation alone', async () => {
    const run = await startCalls(engine, 1);
    await engine.drive(run);
    const notes = `${'n'.repeat(2 * MB)} 😀 the end`;
    engine.toolsAnswer(() => Promise.resolve({ status: 200, body: notes }));
    await engine.makeCalls(run);
    const tool = BUILTIN_TOOLS.find(({ name }) => name === 'read_tool_output') ?? assert.fail();
    const read = (runId: string, args: Record<string, unknown>) =>
      engine.context.tools.execute(tool, attemptOf(args, { tenantId: engine.tenantId, runId }));
    const [call] = await ledgerOfRun(engine, run);
    assert.ok(call);
    const { tool_use_id } = call;
    const end = await read(run, { tool_use_id, offset: 2 * MB - 3 });
    assert.deepEqual(outputOf(end), { text: 'nnn 😀 the end' });
    const part = await read(run, { tool_use_id, offset: 2 * MB - 1, limit: 3 });
    assert.deepEqual(outputOf(part), { text: 'n 😀', next_offset: 2 * MB + 2 });
    assert.equal((outputOf(await read(run, { tool_use_id })) as { text: string }).text.length, LIMITS.outputPieceChars);
    const another = await startCalls(engine, 1);
    assert.match(messageOf(await read(another, { tool_use_id: `${tool_use_id}-of-another` })), /No earlier call/);
    assert.match(messageOf(await read(another, { tool_use_id })), /No earlier call/);
  });

  it('is read in pages that fit together, where its messages and events are large', async () => {
    const agent = await engine.agent();
    engine.say(() => text('noted'));
    const { run } = await engine.start(agent, `0 ${'m'.repeat(2 * MB)}`, { config: { keep_open: true } });
    await engine.drive(run);
    for (let n = 1; n < 6; n++) {
      await engine.post(agent, run, `${n} ${'m'.repeat(2 * MB)}`);
      await engine.drive(run);
    }
    // Before its first checkpoint: all its events.
    const ref = { tenant_id: engine.tenantId, run_id: run, beforeCheckpoint: 1 };
    const loaded = await loadRun(engine.context.db, ref);
    assert.ok(loaded.ok);
    assert.deepEqual(
      loaded.events.map(({ seq }) => seq),
      Array.from({ length: loaded.run.last_seq }, (_, index) => index + 1),
    );
    assert.deepEqual(
      loaded.messages.map(({ ordinal }) => ordinal),
      Array.from({ length: 12 }, (_, index) => index),
    );
    await engine.everyoneDies();
    const claim = { tenant_id: engine.tenantId, run_id: run, seq: 0, leaseMs: 1000 };
    const claimed = await claimRun(engine.context.db, claim);
    assert.ok(claimed.ok);
    const bytes = Buffer.byteLength(JSON.stringify([claimed.events, claimed.messages]));
    assert.ok(bytes < 4 * MB, `a claim answers ${bytes} bytes`);
    await engine.everyoneDies();
    await engine.post(agent, run, 'again');
    assert.equal(await engine.drive(run), 'dormant');
  });

  it('is loaded again, however large the outputs of its calls are together', async () => {
    const run = await startCalls(engine, 28);
    await engine.drive(run);
    await engine.makeCalls(run);
    await storeOutputsInOnePiece(engine, run, 9.6 * MB);
    await engine.everyoneDies();
    assert.equal(await engine.drive(run), 'dormant');
    assert.equal(await statusOfRun(engine, run), 'completed');
  });

  it('takes no more signals that it has not used yet than can be loaded with it, and more once it has', async () => {
    const agent = await engine.agent({ tools: ['wait_for_webhook', 'ask_user'] });
    engine.say((_asked, n) => {
      if (n === 0) return use({ name: 'ask_user', input: { question: 'now?' } });
      return n === 1 ? use({ name: 'wait_for_webhook', input: { name: 'paid' } }) : text('done');
    });
    const { run } = await engine.start(agent, 'go', { config: { keep_open: true } });
    await engine.drive(run);
    const payload = 'x'.repeat(LIMITS.keptSignalBytes / 4);
    const early = (id: string) =>
      postSignal(engine.context, { tenantId: engine.tenantId, runId: run, id, type: 'webhook', name: 'paid', payload });
    for (const id of ['one', 'two', 'three']) assert.ok((await early(id)).isNew);
    await assert.rejects(early('four'), { status: 409 });
    assert.equal((await early('three')).isNew, false);
    const yes = { type: 'user' as const, payload: { message: 'yes' } };
    await postSignal(engine.context, { tenantId: engine.tenantId, runId: run, ...yes });
    await engine.everyoneDies();
    assert.equal(await engine.drive(run), 'dormant');
    assert.ok((await early('four')).isNew, 'the answer to a wait has made room');
    await assert.rejects(early('five'), { status: 409 });
  });

  async function lastResult(run: string): Promise<string> {
    const [block] = (await engine.conversation(run)).at(-1)?.content ?? [];
    assert.ok(block?.type === 'tool_result' && typeof block.content === 'string');
    return block.content;
  }
});

describe('A run whose outputs have reached their limit', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine(undefined, { DROVER_RUN_OUTPUT_BYTES: String(LIMIT_BYTES) });
  });
  after(() => engine.close());

  for (const inline of [false, true]) {
    it(`keeps no further one of a call that ${inline ? 'its driver' : 'a worker'} makes, and goes on`, async () => {
      const run = await startCalls(engine, 3, inline);
      engine.toolsAnswer(() => Promise.resolve({ status: 200, body: 'x'.repeat(1.2 * MB) }));
      await engine.finish(run);
      await holdsLimit(run);
    });
  }

  it('keeps no further one that a signal brings, and goes on', async () => {
    const agent = await engine.agent({ tools: ['wait_for_webhook'] });
    const named = ['one', 'two', 'three'].map((name) => ({ name: 'wait_for_webhook', input: { name } }));
    engine.say((_asked, n) => (n === 0 ? use(...named) : text('done')));
    const { run } = await engine.start(agent, 'go');
    await engine.drive(run);
    for (const { input } of named) {
      const signal = { type: 'webhook' as const, name: input.name, payload: 'x'.repeat(1.2 * MB) };
      await postSignal(engine.context, { tenantId: engine.tenantId, runId: run, ...signal });
    }
    await engine.finish(run);
    await holdsLimit(run);
  });

  async function holdsLimit(run: string): Promise<void> {
    const calls = (await ledgerOfRun(engine, run)).map((call) => `${call.status} ${call.error?.code ?? ''}`);
    assert.deepEqual(calls.toSorted(), ['failed run_output_limit', 'succeeded ', 'succeeded ']);
    const { status, output_bytes: bytes } = await storedRun(engine, run);
    assert.equal(status, 'completed');
    assert.ok(bytes > 2 * MB && bytes <= LIMIT_BYTES, String(bytes));
  }
});

for (const mode of DOMAIN_MODES.filter((each) => each !== 'embedded')) {
  describe('An API with little memory', function () {
    this.timeout(180_000);
    let engine: Engine;
    let api: TestProcess;
    let url = '';
    before(async () => {
      engine = await openEngine(mode);
      const { env, apiKey } = engine.platform;
      const memory = { NODE_OPTIONS: '--max-old-space-size=128' };
      api = await startProcess('api', {
        file: 'api/main.ts',
        env: { ...env, ...memory, DROVER_API_KEY: apiKey, PORT: '0' },
        ready: /"url":"([^"]+)"/,
      });
      url = /"url":"([^"]+)"/.exec(api.output())?.[1] ?? '';
    });
    after(async () => {
      await api.end('SIGTERM');
      await engine.close();
    });

    it('streams a run with hundreds of megabytes to several readers at once, quick and slow ones', async () => {
      const run = await startCalls(engine, CALLS);
      await engine.finish(run);
      // Half of each is by reference, half lies with the events.
      await makeCallsLarge(engine, run);
      const slow = Array.from({ length: 10 }, () => openStream(run));
      const quick = await Promise.all(Array.from({ length: QUICK_READERS }, () => readStream(run)));
      for (const { bytes, last, references } of quick) {
        assert.ok(bytes > CALLS * MB, String(bytes));
        assert.match(last, /event: done/);
        assert.equal(references, CALLS);
      }
      await waitUntil('every slow reader is served', () => slow.every(({ answered }) => answered()));
      const call = await firstCallOf(engine, run);
      const whole = await Promise.all(Array.from({ length: 8 }, () => get(`/v1/tool-calls/${call}/output`)));
      for (const body of whole) assert.equal((JSON.parse(body) as { output: string }).output.length, 5_000_000);
      for (const { close } of slow) close();
    });

    it('lists events in pages that are bounded in bytes', async () => {
      const agent = await engine.agent();
      engine.say(() => text('noted'));
      const { run } = await engine.start(agent, 'm'.repeat(3 * MB), { config: { keep_open: true } });
      await engine.drive(run);
      await engine.post(agent, run, 'm'.repeat(3 * MB));
      await engine.drive(run);
      const seqs: number[] = [];
      for (let cursor = ''; ;) {
        const body = await get(`/v1/runs/${run}/events?limit=200${cursor}`);
        assert.ok(Buffer.byteLength(body) < LIMITS.eventsPageBytes + 100_000);
        const page = JSON.parse(body) as { events: { seq: number }[]; next_cursor?: string };
        seqs.push(...page.events.map(({ seq }) => seq));
        if (page.next_cursor === undefined) break;
        cursor = `&cursor=${page.next_cursor}`;
      }
      const { last_seq: last } = await storedRun(engine, run);
      assert.deepEqual(
        seqs,
        Array.from({ length: last }, (_, index) => index + 1),
      );
    });

    it('lists turns, conversations and checkpoints in pages that it can hold, and shows a checkpoint piece by piece', async () => {
      const agent = await engine.agent();
      engine.say(() => text('noted'));
      const { run, thread } = await engine.start(agent, 'first', { config: { keep_open: true } });
      await engine.drive(run);
      for (let n = 1; n < TURNS; n++) {
        await engine.post(agent, run, `number ${n}`);
        await engine.drive(run);
      }
      await makeInputsLarge(engine, run);
      await makeCheckpointsLarge(engine, run);
      for (const [path, plural] of [
        [`/v1/runs/${run}/turns`, 'turns'],
        [`/v1/threads/${thread}/conversations`, 'conversations'],
        [`/v1/agents/${agent}/conversations`, 'conversations'],
        [`/v1/runs/${run}/checkpoints`, 'checkpoints'],
      ] as const) {
        const seen = new Set<string>();
        for (let cursor = ''; ;) {
          const readers = cursor === '' ? 3 : 1;
          const [body] = await Promise.all(Array.from({ length: readers }, () => get(`${path}?limit=200${cursor}`)));
          const page = JSON.parse(body ?? '') as Record<string, { id: string }[]> & { next_cursor?: string };
          for (const { id } of page[plural] ?? []) seen.add(id);
          if (page.next_cursor === undefined) break;
          cursor = `&cursor=${page.next_cursor}`;
        }
        assert.equal(seen.size, TURNS, path);
      }
      await makeEarlierMessagesLarge(engine, run);
      const { checkpoints } = JSON.parse(await get(`/v1/runs/${run}/checkpoints`)) as { checkpoints: { id: string }[] };
      const path = `/v1/runs/${run}/checkpoints/${checkpoints[0]?.id}`;
      for (const body of await Promise.all([get(path), get(path), get(path)])) {
        const { state } = JSON.parse(body) as { state: { messages: unknown[]; current_node: string } };
        assert.deepEqual([state.messages.length, state.current_node], [2 * TURNS, 'agent']);
      }
    });

    it('ends a page of runs where what they wait for is large enough', async () => {
      const agent = await engine.agent({}, [{ name: 'show', transport: { type: 'client' } }]);
      const input = { text: 'm'.repeat(500_000) };
      const runs: string[] = [];
      for (let n = 0; n < 9; n++) {
        engine.say((asked) => use({ name: offered(asked, 'show'), input }));
        const { run } = await engine.start(agent, `number ${n}`);
        assert.equal(await engine.drive(run), 'dormant');
        runs.unshift(run);
      }
      const seen: string[] = [];
      for (let cursor = ''; ;) {
        const body = await get(`/v1/agents/${agent}/runs?limit=200${cursor}`);
        assert.ok(body.length < LIMITS.eventsPageBytes + 100_000, `${body.length} characters`);
        const page = JSON.parse(body) as { runs: { id: string }[]; next_cursor?: string };
        seen.push(...page.runs.map(({ id }) => id));
        if (page.next_cursor === undefined) break;
        cursor = `&cursor=${page.next_cursor}`;
      }
      assert.deepEqual(seen, runs);
    });

    it('ends a page of runs, and a tree of them, where it is large enough', async () => {
      const agent = await engine.agent();
      engine.say(() => text('noted'));
      const runs: string[] = [];
      for (let n = 0; n < 9; n++) {
        const { run } = await engine.start(agent, `number ${n}`);
        await engine.finish(run);
        await makeMessagesLarge(engine, run);
        runs.unshift(run);
      }
      const seen: string[] = [];
      for (let cursor = ''; ;) {
        const body = await get(`/v1/agents/${agent}/runs?limit=200${cursor}`);
        assert.ok(body.length < LIMITS.eventsPageBytes + 1_500_000, `${body.length} characters`);
        const page = JSON.parse(body) as { runs: { id: string }[]; next_cursor?: string };
        seen.push(...page.runs.map(({ id }) => id));
        if (page.next_cursor === undefined) break;
        cursor = `&cursor=${page.next_cursor}`;
      }
      assert.deepEqual(seen, runs);
      const [root = '', ...others] = runs.toReversed();
      for (const other of others) await makeChildOf(engine, other, root);
      const tree = JSON.parse(await get(`/v1/runs/${root}/tree`)) as { children: unknown[]; more: boolean };
      assert.deepEqual([tree.children.length < 5, tree.more], [true, true]);
    });

    const headers = () => ({ authorization: `Bearer ${engine.platform.apiKey}` });

    async function get(path: string): Promise<string> {
      const answer = await fetch(url + path, { headers: headers() });
      assert.equal(answer.status, 200);
      return answer.text();
    }

    /** A reader that never reads. */
    function openStream(run: string): { answered: () => boolean; close: () => void } {
      let isAnswered = false;
      const asked = request(`${url}/v1/runs/${run}/stream`, { headers: headers() }, (response) => {
        isAnswered = true;
        response.pause();
      });
      asked.on('error', () => undefined);
      asked.end();
      return { answered: () => isAnswered, close: () => asked.destroy() };
    }

    async function readStream(run: string): Promise<{ bytes: number; last: string; references: number }> {
      const answer = await fetch(`${url}/v1/runs/${run}/stream`, { headers: headers() });
      assert.ok(answer.body);
      let bytes = 0;
      let last = '';
      let references = 0;
      for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
        bytes += chunk.length;
        references += chunk.split('"output_ref":"/v1/tool-calls/').length - 1;
        last = (last + chunk).slice(-1000);
      }
      return { bytes, last, references };
    }
  });
}

/** A run whose model has asked for `count` calls at once and then answers. */
async function startCalls(engine: Engine, count: number, inline = false): Promise<string> {
  const agent = await engine.agent({}, [{ name: 'fetch', ...(inline && { execution: { inline: true } }) }]);
  engine.say((asked, n) =>
    n === 0
      ? use(...Array.from({ length: count }, (_, i) => ({ name: offered(asked, 'fetch'), input: { i } })))
      : text('done'),
  );
  engine.toolsAnswer(() => undefined);
  const { run } = await engine.start(agent, 'go');
  return run;
}
