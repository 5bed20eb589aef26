/** What a checkpoint shows of a conversation may be sent back to a replay, whatever is in it. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { startFakeAnthropic, type AnthropicReply, type AnthropicRequest } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { onFilesystem, type Place } from '../support/file-places.ts';
import { ODD_SERVER } from '../support/odd-server.ts';
import { PIXEL } from '../support/pixel.ts';
import { startWorkers, type Workers } from '../../workers/start-workers.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { waitUntil } from '../support/wait-until.ts';

interface Block extends Record<string, unknown> {
  type: string;
  content?: unknown;
}

interface Said {
  role: string;
  content: Block[];
}

const TOOLS = ['image', 'screenshot', 'large', 'fail', 'crowd', 'text'];

const calls = (name: string, input: object = {}): AnthropicReply => ({
  content: [{ type: 'tool_use', id: `toolu_${randomUUID().replaceAll('-', '')}`, name, input }],
  stop_reason: 'tool_use',
});

/** What the model answers to the words by which a kind of turn is asked. */
const ANSWERS: Record<string, () => AnthropicReply> = {
  'a large image': () => calls('image', { bytes: 60_000 }),
  'a small image': () => calls('image', { bytes: 10 }),
  'an image that is none': () => calls('image'),
  'all that a result may have': () => calls('screenshot'),
  'a long result': () => calls('large', { bytes: 100_000 }),
  'a result that is JSON': () => calls('crowd', { values: 3 }),
  'a failure': () => calls('fail'),
  'a tool that there is not': () => calls('no such tool!'),
  'a call without a name': () => calls(''),
  'no answer': () => ({ content: [] }),
  thoughts: () => ({
    content: [
      { type: 'thinking', thinking: 'hm', signature: 'signed' },
      { type: 'redacted_thinking', data: 'secret' },
      { type: 'text', text: 'thought' },
    ],
  }),
  findings: () => ({
    content: [
      { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'q' } },
      {
        type: 'web_search_tool_result',
        tool_use_id: 'srvtoolu_1',
        content: [{ type: 'web_search_result', url: 'https://a.example', title: 'A', encrypted_content: 'e' }],
      },
      { type: 'text', text: 'found', citations: [{ type: 'web_search_result_location', url: 'https://a.example' }] },
    ],
  }),
};
const KINDS = ['files', ...Object.keys(ANSWERS)];

describe('the state of a checkpoint that is sent back', function () {
  let store: Place;
  let claude: FakeServer;
  let api: TestApi;
  let workers: Workers;
  let agent: string;
  const requests: AnthropicRequest[] = [];

  before(async () => {
    store = await onFilesystem();
    claude = await startFakeAnthropic((request) => {
      requests.push(request);
      const last = request.messages.at(-1)?.content as Block[];
      const isAnswered = last.some(({ type }) => type === 'tool_result');
      const answer = isAnswered ? undefined : ANSWERS[String(last.at(-1)?.['text'])];
      return answer?.() ?? { content: [{ type: 'text', text: 'seen' }] };
    });
    api = await startTestApi(undefined, {
      env: {
        DROVER_FILES_URL: store.url,
        ANTHROPIC_API_KEY: 'test',
        ANTHROPIC_BASE_URL: claude.url,
        OPENAI_API_KEY: 'test',
      },
    });
    workers = await startWorkers(api.context);
    for (const name of TOOLS) {
      const transport = { type: 'mcp_stdio', ...ODD_SERVER, tool: name };
      await post('/v1/tools', { name, description: 'x', risk_level: 'READ_ONLY', transport });
    }
    agent = await newAgent();
  });
  after(async () => {
    await workers.stop(5000);
    await api.close();
    await claude.close();
    await store.close();
  });

  const post = async (path: string, body: unknown, key?: string) => {
    const { json, status, text } = await api.call('POST', path, { body, ...(key !== undefined && { key }) });
    assert.ok(status < 300, `${path}: ${text}`);
    return json;
  };
  const get = async (path: string) => (await api.call('GET', path)).json;
  const newAgent = async (more: object = {}) => {
    const llm_config = { default_model: 'anthropic/claude-sonnet-5' };
    const execution_config = { checkpoint_frequency: 'every_turn' };
    const body = { name: randomUUID(), llm_config, tools: TOOLS, autonomy_level: 3, execution_config, ...more };
    return (await post('/v1/agents', body)).id as string;
  };
  const upload = async (bytes: Buffer, filename: string, { key = api.key, trust = '' } = {}) => {
    const form = new FormData();
    if (trust) form.set('trust', trust);
    form.set('file', new Blob([new Uint8Array(bytes)]), filename);
    const stored = await fetch(`${api.url}/v1/files`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: form,
    });
    assert.equal(stored.status, 201, await stored.clone().text());
    return ((await stored.json()) as { id: string }).id;
  };
  const open = async (of = agent) => (await post(`/v1/agents/${of}/runs`, {})).run_id as string;
  const say = (run: string, message: string, attachments?: unknown[]) =>
    post(`/v1/runs/${run}/turns`, { input: { message, ...(attachments && { attachments }) } });
  const ends = (run: string) =>
    waitUntil('its turn ends', async () => {
      const { status, waiting_for } = await get(`/v1/runs/${run}`);
      return ['completed', 'failed', 'cancelled'].includes(status) || waiting_for?.type === 'turn';
    });
  const lastCheckpoint = async (run: string): Promise<{ id: string; state: { messages: Said[] } }> => {
    const { id } = (await get(`/v1/runs/${run}/checkpoints`)).checkpoints[0];
    return { id, state: (await get(`/v1/runs/${run}/checkpoints/${id}`)).state };
  };
  const replay = async (run: string, checkpoint_id: string, modified_state: object) => {
    const body = { checkpoint_id, modified_state, config: { keep_open: true } };
    const { new_run_id } = await post(`/v1/runs/${run}/replay`, body);
    await ends(new_run_id);
    return new_run_id as string;
  };
  const refused = async (run: string, messages: unknown[], { key = api.key, config = {} } = {}) => {
    const body = { checkpoint_id: 'start', modified_state: { messages }, config };
    const { status, json } = await api.call('POST', `/v1/runs/${run}/replay`, { body, key });
    return [status, json.errors?.[0]?.path, json.errors?.[0]?.message];
  };
  const lastAsked = () => structuredClone(requests.at(-1)?.messages) as Said[];
  const picture = Buffer.from(PIXEL.split(',')[1] ?? '', 'base64');
  const filesNow = async () => [
    { file_id: await upload(picture, 'a.png') },
    { file_id: await upload(Buffer.from('%PDF-1.4\n1 0 obj <</Type /Page>> endobj'), 'a.pdf') },
    { file_id: await upload(Buffer.from('keep calm'), 'notes.md', { trust: 'trusted' }) },
    { type: 'image', source: { type: 'url', url: 'https://a.example/a.png' } },
    { type: 'text', text: 'as it is' },
  ];

  /** Plays turns of these kinds, and what replays with the same messages, shared or stored anew, send to the model then. */
  async function assertTakenBack(kinds: readonly string[]) {
    const run = await open();
    await say(run, 'hello');
    for (const kind of kinds) await say(run, kind, kind === 'files' ? await filesNow() : undefined);
    const { id, state } = await lastCheckpoint(run);
    await say(run, 'and now?');
    const was = lastAsked();
    await replay(run, id, state);
    assert.deepEqual(lastAsked(), was, 'shared');
    const [first, ...others] = state.messages;
    assert.ok(first);
    const edited = { role: 'user', content: [{ type: 'text', text: 'good day' }] };
    const fork = await replay(run, id, { ...state, messages: [edited, ...others] });
    assert.deepEqual(lastAsked(), [{ ...was[0], content: edited.content }, ...was.slice(1)], 'stored anew');
    // What the fork shows of itself may be sent back, too.
    const again = await lastCheckpoint(fork);
    await replay(fork, again.id, again.state);
  }

  it('is taken whatever blocks it has, and the model is sent the same', async function () {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.constantFrom(...KINDS), { minLength: 1, maxLength: 3 }), assertTakenBack),
      { examples: [[KINDS]], numRuns: 4 },
    );
  });

  it('may have another question about a picture, which the model is sent with it', async () => {
    const run = await open();
    await say(run, 'What is this?', [{ file_id: await upload(picture, 'a.png') }]);
    const { id, state } = await lastCheckpoint(run);
    const was = lastAsked();
    const file = state.messages[0]?.content[0];
    const messages = [{ role: 'user', content: [file, { type: 'text', text: 'Which colour?' }] }];
    for (const from of ['start', id]) {
      const fork = await replay(run, from, { messages });
      const [message] = lastAsked();
      assert.deepEqual(message?.content[0], was[0]?.content[0]);
      assert.equal(message?.content[1]?.['text'], 'Which colour?');
      const [turn] = (await get(`/v1/runs/${fork}/turns`)).turns;
      assert.deepEqual(
        [turn.input.message, turn.input.attachments],
        ['Which colour?', [{ ...file, trust: 'untrusted' }]],
      );
    }
  });

  it('may have files of the workspace anew, by their ids alone, and no others', async () => {
    const run = await open();
    await say(run, 'hello');
    const [notes, zip] = [await upload(Buffer.from('keep calm'), 'n.md'), await upload(Buffer.from('PK'), 'a.zip')];
    const asked = (...ids: string[]) => [
      {
        role: 'user',
        content: [...ids.map((file_id) => ({ type: 'file', file_id, size: 1 })), { type: 'text', text: 'read' }],
      },
    ];
    const fork = await replay(run, 'start', { messages: asked(notes) });
    assert.equal(lastAsked()[0]?.content[0]?.['text'], 'File "n.md" (text/markdown):\nkeep calm');
    const block = (await lastCheckpoint(fork)).state.messages[0]?.content[0];
    const whole = { type: 'file', file_id: notes, media_type: 'text/markdown', filename: 'n.md', size: 9 };
    assert.deepEqual(block, whole, 'it is described as it is');
    const at = (place: number) => `body.modified_state.messages.0.content.${place}`;
    assert.deepEqual(await refused(run, asked(notes, randomUUID())), [422, at(1), 'names no file']);
    const { key } = await api.newTenant();
    const theirs = await upload(Buffer.from('theirs'), 't.txt', { key });
    assert.deepEqual(await refused(run, asked(theirs)), [422, at(0), 'names no file']);
    assert.match(String((await refused(run, asked(zip)))[2]), /^is of the type application\/octet-stream/);
    const image = await upload(picture, 'a.png');
    const config = { model_override: 'openai/gpt-3.5-turbo' };
    assert.match(
      String((await refused(run, asked(image), { config }))[2]),
      /image\/png, which this model does not take/,
    );
    const big = [];
    for (let n = 0; n < 6; n += 1) {
      const bytes = Buffer.concat([picture, Buffer.alloc(3_700_000, n)]);
      big.push(await upload(bytes, `${n}.png`));
    }
    assert.match(String((await refused(run, asked(...big)))[2]), /^is too much: the files of a message may have/);
    const use = { type: 'tool_use', id: 'toolu_1', name: 'text', input: {} };
    const result = { type: 'tool_result', tool_use_id: 'toolu_1', content: [{ type: 'file', file_id: theirs }] };
    const nested = [...asked(notes), { role: 'assistant', content: [use] }, { role: 'user', content: [result] }];
    const inResult = 'body.modified_state.messages.2.content.0.content.0';
    assert.deepEqual(await refused(run, nested), [422, inResult, 'names no file']);
  });

  it("has no block of a provider's that is none of the run's", async () => {
    const [run, other] = [await open(), await open()];
    await say(run, 'hello');
    await say(other, 'findings');
    const { messages } = (await lastCheckpoint(other)).state;
    const why = "is a provider's, and none of this run's";
    assert.deepEqual(await refused(run, messages), [400, 'body.modified_state.messages.1.content.0', why]);
    const container = { type: 'container_upload', file_id: 'file_of_others' };
    const made = [messages[0], { role: 'assistant', content: [container] }];
    assert.deepEqual(await refused(other, made), [400, 'body.modified_state.messages.1.content.0', why]);
  });

  it('names a file in words that is deleted, as the conversation itself does', async () => {
    const run = await open();
    const id = await upload(picture, 'a.png');
    await say(run, 'What is this?', [{ file_id: id }]);
    const { id: checkpoint, state } = await lastCheckpoint(run);
    assert.equal((await api.call('DELETE', `/v1/files/${id}`)).status, 204);
    const file = state.messages[0]?.content[0];
    await replay(run, checkpoint, { messages: [{ role: 'user', content: [file, { type: 'text', text: 'And?' }] }] });
    assert.equal(lastAsked()[0]?.content[0]?.['text'], '[file a.png (image/png) left out: it was deleted]');
  });

  it('keeps a file that another run had while the fork is there, and no longer', async () => {
    const [run, other] = [await open(), await open()];
    const id = await upload(picture, 'a.png');
    await say(other, 'What is this?', [{ file_id: id }]);
    await say(run, 'hello');
    const content = [
      { type: 'file', file_id: id },
      { type: 'text', text: 'And?' },
    ];
    const fork = await replay(run, 'start', { messages: [{ role: 'user', content }] });
    const status = async () => (await api.call('GET', `/v1/files/${id}`)).status;
    assert.equal((await api.call('DELETE', `/v1/runs/${other}`)).status, 202);
    assert.equal(await status(), 200);
    await say(fork, 'still there?');
    assert.equal(lastAsked()[0]?.content[0]?.type, 'image');
    assert.equal((await api.call('DELETE', `/v1/runs/${fork}`)).status, 202);
    assert.equal(await status(), 404);
  });

  it('keeps what made its messages untrusted', async () => {
    const name = `send_${randomUUID().slice(0, 8)}`;
    const transport = { type: 'mcp_stdio', ...ODD_SERVER, tool: 'text' };
    await post('/v1/tools', { name, description: 'x', risk_level: 'WRITE_LOW_RISK', transport });
    const of = await newAgent({ tools: [name] });
    const words = `use ${name}`;
    ANSWERS[words] = () => calls(name);
    const statusWith = async (content: unknown[], run: string) => {
      const body = { checkpoint_id: 'start', modified_state: { messages: [{ role: 'user', content }] } };
      const { new_run_id: fork } = await post(`/v1/runs/${run}/replay`, body);
      await waitUntil('it rests', async () => {
        const { status, waiting_for } = await get(`/v1/runs/${fork}`);
        return status === 'awaiting_human' && ['turn', 'approval'].includes(waiting_for?.type);
      });
      return (await get(`/v1/runs/${fork}`)).waiting_for.type;
    };
    const run = await open(of);
    const [foreign, own] = [
      await upload(Buffer.from('send it'), 'a.md'),
      await upload(Buffer.from('mine'), 'b.md', { trust: 'trusted' }),
    ];
    await say(run, 'hello', [{ file_id: foreign }, { file_id: own }]);
    const { messages } = (await lastCheckpoint(run)).state;
    const [untrusted, trusted] = messages[0]?.content ?? [];
    const say2 = { type: 'text', text: words };
    assert.equal(await statusWith([say2], run), 'turn');
    assert.equal(await statusWith([trusted, say2], run), 'turn');
    assert.equal(await statusWith([untrusted, say2], run), 'approval');
    assert.equal(await statusWith([{ type: 'file', file_id: foreign }, say2], run), 'approval');
  });
});
