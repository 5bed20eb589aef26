/** What models are sent follows from the events alone, whatever the strategy, the limits and the conversation: its laws, on the whole engine. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import fc from 'fast-check';
import { STRATEGIES } from '../../../core/compaction.ts';
import type { Attachment } from '../../../core/content.ts';
import { newId } from '../../../lib/new-id.ts';
import { loadRun } from '../../../db/claim-run.ts';
import { lockRun } from '../../../db/runs.ts';
import { filesTakenBy } from '../../../llm/files-taken.ts';
import { fillFiles } from '../../../modules/files/model-content.ts';
import { keepFile, writeContent } from '../../../modules/files/store-file.ts';
import { addMemory, toMemoryRow } from '../../../modules/memory/add-memory.ts';
import { completeRun } from '../../../modules/runs/end-run.ts';
import { queueMessageIn } from '../../../modules/runs/message-queue.ts';
import { postTurn } from '../../../modules/runs/post-turn.ts';
import { openEngine, text, use, type Engine } from '../../support/engine.ts';
import { replayRecorded } from '../../support/recorded-replay.ts';
import {
  assertWithinLaws,
  bytesOf,
  bytesSent,
  explain,
  snapshotsOf,
  turnStarts,
  type ExplainedCall,
} from '../../support/explained-context.ts';
import { conversationRequests, isOwnRequest, type AnthropicReply } from '../../support/fake-anthropic.ts';
import { checkpointsOfRun } from '../../support/queries/logs.ts';
import { sized } from '../../support/size.ts';

const MODEL = 'anthropic/claude-haiku-4-5';

/** About so many tokens. */
const long = (tokens: number) => 'lorem ipsum '.repeat(Math.ceil(tokens / 3));

/** A step: what the model says with its calls, the tokens of their results, and of what the user says meanwhile; without calls the answer is empty. */
const step = fc.record({
  said: fc.integer({ min: 0, max: 60 }),
  results: fc.array(fc.integer({ min: 1, max: 400 }), { maxLength: 3 }),
  steered: fc.oneof(
    { weight: 5, arbitrary: fc.constant(0) },
    { weight: 1, arbitrary: fc.integer({ min: 1, max: 200 }) },
  ),
});

/** A turn, and who drives it: whoever drove the one before, a process that knows nothing, or such a one in a run of its own. */
const turn = fc.record({
  asked: fc.integer({ min: 1, max: 300 }),
  attached: fc.array(fc.constantFrom('text', 'image', 'file'), { maxLength: 2 }),
  steps: fc.array(step, { maxLength: 2 }),
  answer: fc.integer({ min: 1, max: 200 }),
  by: fc.constantFrom('the same', 'another', 'a new run'),
});

const conversation = fc.record({
  strategy: fc.constantFrom(...STRATEGIES),
  limit: fc.oneof(fc.integer({ min: 500, max: 1500 }), fc.integer({ min: 1500, max: 6000 })),
  instructions: fc.string({ minLength: 1, maxLength: 60 }).filter((words) => words.trim() !== ''),
  /** Of the summary, or none is to be had. */
  summary: fc.option(fc.integer({ min: 1, max: 200 }), { nil: undefined }),
  /** What the provider counts for 100 estimated tokens. */
  percent: fc.constantFrom(80, 130, 200),
  /** What the agent remembers. */
  memories: fc.array(fc.constantFrom('Lorem is no ipsum.', 'Ipsum comes after lorem.'), { maxLength: 2 }),
  turns: fc.array(turn, { minLength: 3, maxLength: 7 }),
  /** Where it is replayed from: a share of all places. */
  replayed: fc.double({ min: 0, max: 1, noNaN: true }),
});

type Conversation = typeof conversation extends fc.Arbitrary<infer T> ? T : never;
type Turn = Conversation['turns'][number];

describe('What a model is sent of a conversation', function () {
  this.timeout(sized({ usual: 180_000, nightly: 1_800_000 }));
  let engine: Engine;
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'drover-test-context-'));
    engine = await openEngine(undefined, { DROVER_FILES_URL: `file:${folder}` });
  });
  after(async () => {
    await engine.close();
    await rm(folder, { recursive: true, force: true });
  });

  it('follows from the events alone, whole pairs and turns within its budget, also in a recorded replay', async () => {
    const seen = { compacted: 0, cut: 0, steered: 0, remembered: 0, replayed: 0, overflowed: 0 };
    const property = fc.asyncProperty(conversation, async (drawn) => {
      const runs = await talk(drawn);
      const requests = conversationRequests(engine.model).map(({ body }) => body);
      const logs = await Promise.all(runs.map((run) => engine.log(run)));
      const calls: ExplainedCall[] = [];
      const starts = new Set(logs.flatMap(turnStarts));
      for (const [at, run] of runs.entries()) {
        const explained = explain(logs[at] ?? [], await rowsOf(run), drawn.limit);
        const shown = explained.map(({ messages }) => bytesOf(messages));
        assert.deepEqual(await snapshotsOf(engine, run), shown, 'the run log shows what its events say');
        calls.push(...explained);
      }
      assert.equal(calls.length, requests.length);
      for (const [at, call] of calls.entries()) {
        assert.equal(bytesSent(requests[at] ?? { messages: [] }), bytesOf(await filled(call)), `request ${at}`);
        assertWithinLaws(call, starts);
        assert.deepEqual(requests[at]?.['system'], requests[0]?.['system'], 'instructions are kept');
      }
      const told = ((requests[0]?.['system'] ?? []) as { text: string }[]).map((block) => block.text).join('');
      assert.ok(requests.length === 0 || told.includes(drawn.instructions.trim()), told);
      for (const { type } of logs.flat()) {
        if (type === 'memory.retrieved') seen.remembered += 1;
        if (type === 'context.compacted') seen.compacted += 1;
        if (type === 'context.transformed') seen.cut += 1;
        if (type === 'message.dequeued') seen.steered += 1;
        if (type === 'turn.failed') seen.overflowed += 1;
      }
      const shown = new Set(calls.map(({ messages }) => bytesOf(messages)));
      const laws = { shown, starts, limit: drawn.limit };
      const drawnRun = runs[Math.floor(drawn.replayed * (runs.length - 1))] ?? '';
      seen.replayed += await replay(drawnRun, drawn.replayed, laws);
      // What a run began with of those before it.
      if (runs.length > 1) seen.replayed += await replay(runs.at(-1) ?? '', 0, laws);
    });
    await fc.assert(property, { numRuns: sized({ usual: 24, nightly: 120 }), endOnFailure: true });
    for (const [what, times] of Object.entries(seen)) assert.ok(times > 0, `nothing was ${what}`);
  });

  /** Has the conversation, in as many runs as it takes. */
  async function talk({ strategy, limit, instructions, summary, percent, memories, turns }: Conversation) {
    const answers: (() => Promise<AnthropicReply>)[] = [];
    engine.say(async (request) => {
      if (isOwnRequest(request)) {
        return summary === undefined
          ? text('none')
          : use({ name: 'submit_summary', input: { summary: long(summary) } });
      }
      const usage = { input_tokens: Math.ceil((JSON.stringify(request).length / 400) * percent), output_tokens: 20 };
      return { ...(await (answers.shift() ?? goOn)()), usage };
    });
    const agent = await engine.agent({
      name: newId(),
      system_prompt: instructions,
      llm_config: { default_model: MODEL },
      memory_config: { short_term: { max_tokens: limit, strategy }, long_term: { enabled: true } },
      tools: ['json_query'],
    });
    for (const content of memories) await remember(agent, content);
    const runs: string[] = [];
    let thread: string | undefined;
    for (const each of turns) {
      const last = runs.at(-1);
      if (each.by !== 'the same') await engine.everyoneDies();
      const input = { message: long(each.asked), attachments: await attachments(each) };
      let run = last ?? '';
      if (last !== undefined && each.by === 'a new run')
        await completeRun(engine.context, { tenantId: engine.tenantId, runId: last });
      if (last === undefined || each.by === 'a new run') {
        ({ run, thread } = await engine.start(agent, '', { input, threadId: thread, config: { keep_open: true } }));
        runs.push(run);
      } else {
        const idempotency = { tenantId: engine.tenantId, route: 'test', body: null };
        await postTurn(engine.context, { tenantId: engine.tenantId, agentId: agent, runId: run, input, idempotency });
      }
      answers.push(...answersOf(each, run));
      await engine.finish(run);
      const failed = (await engine.log(run)).findLast(
        ({ type }) => type === 'turn.failed' || type === 'turn.completed',
      );
      const code = failed?.type === 'turn.failed' ? failed.payload.error.code : undefined;
      assert.ok(answers.length === 0 || code === 'context_overflow', 'each turn that fits is had to its end');
      answers.splice(0);
    }
    return runs;
  }

  const remember = (agentId: string, content: string) => {
    const { tenantId } = engine;
    const row = toMemoryRow({ content, memory_type: 'SEMANTIC' }, { tenantId, agentId, origin: 'user' });
    return engine.context.db.withTenant(tenantId, (tx) => addMemory(tx, row));
  };

  const goOn = async () => text('and so on');

  const answersOf = ({ steps, answer }: Turn, run: string) => [
    ...steps.map(({ said, results, steered }) => async () => {
      if (steered > 0) await steer(run, long(steered));
      const calls = results.map((tokens) => queryOf(tokens));
      return {
        content: [
          ...(said > 0 && calls.length > 0 ? (text(long(said)).content ?? []) : []),
          ...(use(...calls).content ?? []),
        ],
      };
    }),
    async () => text(long(answer)),
  ];

  /** A call whose result has about so many tokens. */
  const queryOf = (tokens: number) => ({
    name: 'json_query',
    input: { data: null, query: `$join([1..${tokens}].$string(), ' ')` },
  });

  const steer = (run: string, message: string) =>
    engine.context.db.withTenant(engine.tenantId, async (tx) => {
      await lockRun(tx, run);
      const queued = { message_id: newId(), mode: 'steer' as const, input: { message } };
      await queueMessageIn(tx, { tenantId: engine.tenantId, runId: run, message: queued });
    });

  const attachments = ({ attached, asked }: Turn): Promise<Attachment[]> =>
    Promise.all(
      attached.map(async (type): Promise<Attachment> => {
        if (type === 'text') return { type, text: long(asked) };
        if (type === 'image') return { type, source: { type: 'url', url: 'https://a.example/b.png' } };
        const { tenantId, context, platform } = engine;
        const source = Readable.from([Buffer.from(long(asked))]);
        const content = await writeContent(context, tenantId, { source, signal: new AbortController().signal });
        const about = { filename: 'a.txt', mimeType: 'text/plain', origin: 'user' as const, trust: 'trusted' as const };
        const file = await context.db.withTenant(tenantId, (tx) =>
          keepFile(tx, content, { ...about, workspaceId: platform.workspaceId }),
        );
        return { type: 'file', file_id: file.id, media_type: file.mime_type, filename: file.filename, size: file.size };
      }),
    );

  const rowsOf = async (run: string) => {
    const loaded = await loadRun(engine.context.db, { tenant_id: engine.tenantId, run_id: run });
    assert.ok(loaded.ok);
    return loaded.messages;
  };

  const filled = ({ messages }: ExplainedCall) => {
    const taken = filesTakenBy(engine.context.models.resolve(MODEL));
    return fillFiles(engine.context, { tenantId: engine.tenantId, taken }, messages);
  };

  /**
   * Replays a run from its record, from one of its places: its own events say the same bytes of each call, and no model is asked.
   * What the user said in the middle of a turn is not said again: from there on the model is asked, with what the events say.
   */
  async function replay(
    run: string,
    share: number,
    { shown, starts, limit }: { shown: ReadonlySet<string>; starts: ReadonlySet<number>; limit: number },
  ): Promise<number> {
    const places = ['start', ...(await checkpointsOfRun(engine, run)).map(({ id }) => id)];
    const before = conversationRequests(engine.model).length;
    const replayed = await replayRecorded(engine, run, {
      checkpointId: places[Math.floor(share * (places.length - 1))] ?? '',
    });
    await engine.finish(replayed);
    const log = await engine.log(replayed);
    const asked = conversationRequests(engine.model).slice(before);
    const isSteered = (await engine.log(run)).some(({ type }) => type === 'message.dequeued');
    for (const call of explain(log, await rowsOf(replayed), limit)) {
      assertWithinLaws(call, starts);
      if (call.isRecorded) assert.ok(shown.has(bytesOf(call.messages)), 'sent before');
      else assert.equal(bytesSent(asked.shift()?.body ?? { messages: [] }), bytesOf(await filled(call)));
      assert.ok(call.isRecorded || isSteered, 'no model is asked what the record says');
    }
    assert.equal(asked.length, 0);
    return isSteered ? 0 : log.filter(({ type }) => type === 'model.responded').length;
  }
});
