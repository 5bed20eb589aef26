/** What follows when a provider refuses a request for an image in it. */
import assert from 'node:assert/strict';
import type { Attachment } from '../../../core/content.ts';
import { loadRun } from '../../../db/claim-run.ts';
import { completeRun } from '../../../modules/runs/end-run.ts';
import { namesFile } from '../../../modules/runs/driver/refused-content.ts';
import { postTurn } from '../../../modules/runs/post-turn.ts';
import { wakeParkedRuns } from '../../../modules/runs/wake-parked.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { bytesOf, explain, snapshotsOf } from '../../support/explained-context.ts';
import type { AnthropicReply, AnthropicRequest } from '../../support/fake-anthropic.ts';
import { ODD_SERVER } from '../../support/odd-server.ts';
import { endParking, makeOutagesDue } from '../../support/queries/model-calls.ts';
import { replayRecorded } from '../../support/recorded-replay.ts';

const picture = (name: string): Attachment => ({
  type: 'image',
  source: { type: 'url', url: `https://a.example/${name}.png` },
});
const refusal = (message: string): AnthropicReply => ({
  error: { status: 400, type: 'invalid_request_error', message },
});
const WORDS = /left out: a model has refused a request for an image or a file/;

describe('An image for which a provider refuses the request', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine(undefined, { DROVER_STDIO_COMMANDS: ODD_SERVER.command });
  });
  after(() => engine.close());

  const sent = () => engine.model.requests.map(({ body }) => JSON.stringify((body as AnthropicRequest).messages));
  /** Refuses what has the broken image, for this reason. */
  const refuses = (what: RegExp, reason = 'messages.0.content.0.image: Could not process image') =>
    engine.say((request) => (what.test(JSON.stringify(request.messages)) ? refusal(reason) : text('noted')));
  const start = async (
    agent: string,
    message: string,
    { thread, with: names = [] as string[] } = {} as { thread?: string; with?: string[] },
  ) => {
    const input = { message, attachments: names.map(picture) };
    const started = await engine.start(agent, message, { input, threadId: thread, config: { keep_open: true } });
    await engine.finish(started.run);
    return started;
  };
  const post = async (agent: string, run: string, input: { message: string; attachments?: Attachment[] }) => {
    const { context, tenantId } = engine;
    const idempotency = { tenantId, route: 'test', body: null };
    await postTurn(context, { tenantId, agentId: agent, runId: run, input, idempotency });
    await engine.finish(run);
    return outcomeOf(run);
  };
  const outcomeOf = async (run: string) => {
    const end = (await engine.log(run)).findLast(({ type }) => type === 'turn.failed' || type === 'turn.completed');
    return end?.type === 'turn.failed' ? end.payload.error.code : end?.type;
  };

  it('fails its turn alone: later ones are sent words in its place, whoever drives them and in whichever run', async () => {
    const agent = await engine.agent();
    refuses(/broken/);
    const { run, thread } = await start(agent, 'look', { with: ['good'] });
    assert.equal(
      await post(agent, run, { message: 'and here', attachments: [picture('broken')] }),
      'model_invalid_request',
    );
    assert.equal(await post(agent, run, { message: 'what is 2 + 2?' }), 'turn.completed');
    const [, , warm = ''] = sent();
    assert.match(warm, WORDS);
    assert.match(warm, /good\.png/, 'a model has answered to this one');
    await engine.everyoneDies();
    assert.equal(await post(agent, run, { message: 'and 3 + 3?' }), 'turn.completed');
    const kept = (request: string) => (JSON.parse(request) as unknown[]).slice(0, 2);
    assert.deepEqual(kept(sent()[3] ?? '[]'), kept(warm));
    assert.match(sent()[3] ?? '', WORDS);
    await completeRun(engine.context, { tenantId: engine.tenantId, runId: run });
    const next = await start(agent, 'in the next run', { thread });
    assert.equal(await outcomeOf(next.run), 'turn.completed');
    assert.match(sent()[4] ?? '', WORDS);
    for (const each of [run, next.run]) {
      const loaded = await loadRun(engine.context.db, { tenant_id: engine.tenantId, run_id: each });
      assert.ok(loaded.ok);
      const shown = explain(await engine.log(each), loaded.messages, 1_000_000).map(({ messages }) =>
        bytesOf(messages),
      );
      const snapshots = await snapshotsOf(engine, each);
      assert.deepEqual(
        snapshots.filter((snapshot) => shown.includes(snapshot)),
        shown,
        'the run log shows what was sent',
      );
      assert.match(shown.at(-1) ?? '', WORDS);
    }
  });

  it('may come from a tool', async () => {
    const transport = { type: 'mcp_stdio' as const, ...ODD_SERVER, tool: 'screenshot' };
    const agent = await engine.agent({}, [{ name: 'screenshot', transport }]);
    engine.say((request, n) => {
      if (/image\/png/.test(JSON.stringify(request.messages)) && !WORDS.test(JSON.stringify(request.messages)))
        return refusal('Could not process image');
      return n === 0 ? use({ name: offered(request, 'screenshot') }) : text('noted');
    });
    const { run } = await start(agent, 'look');
    assert.equal(await outcomeOf(run), 'model_invalid_request');
    assert.equal(await post(agent, run, { message: 'what is 2 + 2?' }), 'turn.completed');
    assert.match(sent().at(-1) ?? '', WORDS);
  });

  it('is sent again where the provider has refused something else', async () => {
    const agent = await engine.agent();
    const reason =
      "`temperature` may only be 1 here. Please consult our documentation at 'https://a.example/docs/images'";
    engine.say([text('a good image'), refusal(reason), text('noted')]);
    const { run } = await start(agent, 'look', { with: ['good'] });
    assert.equal(await post(agent, run, { message: 'now?' }), 'model_invalid_request');
    assert.equal(await post(agent, run, { message: 'and now?' }), 'turn.completed');
    assert.match(sent()[2] ?? '', /good\.png/);
  });

  it('is told from other faults by how providers name it', () => {
    const of = [
      'Could not process image',
      'messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes',
      'messages.3.content.0.document.source: The PDF specified was not valid.',
      "You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg'].",
      'Invalid content type. image_url is only supported by certain models.',
      'No endpoints found that support image input',
      'Invalid MIME type. Only image types are supported. (invalid_image_format)',
      'Invalid file data: no base64 in file_data',
      'Unsupported media_type "image/tiff"',
      'The file could not be read.',
    ];
    const others = [
      'temperature: must not be set',
      '`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at https://a.example/files',
      "Unsupported parameter: 'max_tokens'. See the documentation.",
      'The change takes effect immediately.',
      'tools.0.custom.name: Invalid name for read_file tool: files',
      'tools.3.custom.input_schema: make_image: the image property is no schema',
    ];
    for (const message of of) assert.ok(namesFile(`${message} (status 400)`), message);
    for (const message of others) assert.ok(!namesFile(`${message} (status 400)`), message);
    assert.ok(!namesFile('Could not process image (status 503)'));
  });

  it('is sent again where a fallback model takes it', async () => {
    const llm_config = { default_model: 'claude-sonnet-5', fallback_model: 'claude-haiku-4-5' };
    const agent = await engine.agent({ llm_config });
    engine.say((request) => (request.model === 'claude-sonnet-5' ? refusal('Could not process image') : text('seen')));
    const { run } = await start(agent, 'look', { with: ['good'] });
    assert.equal(await post(agent, run, { message: 'and again?' }), 'turn.completed');
    for (const request of sent()) assert.match(request, /good\.png/);
  });

  it('is sent again where its run waits for a model that has not refused it', async () => {
    const llm_config = { default_model: 'claude-sonnet-5', fallback_model: 'claude-haiku-4-5', max_retries: 0 };
    const agent = await engine.agent({ llm_config });
    const away = { error: { status: 500, type: 'api_error', message: 'boom' } };
    engine.say((request) => (request.model === 'claude-sonnet-5' ? away : refusal('Could not process image')));
    const input = { message: 'look', attachments: [picture('good')] };
    const { run } = await engine.start(agent, 'look', { input });
    assert.equal(await engine.drive(run), 'dormant');
    const told = (await engine.log(run)).flatMap((event) => {
      if (event.type === 'model.failed') return [[event.payload.model, event.payload.refused_files]];
      return event.type === 'model.deferred' ? [['waits']] : [];
    });
    assert.deepEqual(told, [['claude-sonnet-5', undefined], ['claude-haiku-4-5', undefined], ['waits']]);
    engine.say(() => text('seen'));
    await makeOutagesDue(engine);
    await endParking(engine, run);
    assert.equal(await wakeParkedRuns(engine.context), 1);
    assert.equal(await engine.drive(run), 'dormant');
    assert.match(sent()[0] ?? '', /good\.png/);
    assert.equal(await outcomeOf(run), 'turn.completed');
  });

  it('may be one that another model had answered to', async () => {
    const agent = await engine.agent();
    engine.say(() => text('noted'));
    const { run } = await start(agent, 'look', { with: ['broken'] });
    refuses(/broken/);
    assert.equal(await post(agent, run, { message: 'again' }), 'model_invalid_request');
    assert.equal(await post(agent, run, { message: 'what is 2 + 2?' }), 'turn.completed');
  });

  it('is in words in a recorded replay of a later run, too, for which no model is asked', async () => {
    const agent = await engine.agent();
    refuses(/broken/);
    const { run: first, thread } = await start(agent, 'look', { with: ['broken'] });
    await completeRun(engine.context, { tenantId: engine.tenantId, runId: first });
    const { run } = await start(agent, 'what is 2 + 2?', { thread });
    assert.equal(await outcomeOf(run), 'turn.completed');
    engine.say(() => text('asked'));
    const replayed = await replayRecorded(engine, run);
    await engine.finish(replayed);
    const answers = (await engine.log(replayed)).flatMap((event) =>
      event.type === 'model.responded' ? [event.payload.recorded] : [],
    );
    assert.deepEqual([answers, engine.model.requests.length], [[true], 0]);
    assert.match((await snapshotsOf(engine, replayed)).at(-1) ?? '', WORDS);
  });
});
