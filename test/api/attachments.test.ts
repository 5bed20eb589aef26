import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { methods } from '@agentclientprotocol/sdk';
import { DEFAULT_TENANT_ID } from '../../modules/tenants/bootstrap.ts';
import { maintain } from '../../modules/platform/maintain.ts';
import { fillFiles } from '../../modules/files/model-content.ts';
import { FileStoreError, type FileStore } from '../../lib/file-store.ts';
import { startWorkers, type Workers } from '../../workers/start-workers.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { startFakeAnthropic, type AnthropicRequest } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { ODD_SERVER } from '../support/odd-server.ts';
import { startFakeOpenAI } from '../support/fake-openai.ts';
import { openAcp } from '../support/wire/acp.ts';
import { forgetUtf8, strayFiles, useFiles } from '../support/queries/files.ts';
import { contentsWith } from '../support/queries/logs.ts';

const PNG = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex');
const PDF = Buffer.from('%PDF-1.7 a document');
const MARKED = PNG.toString('base64');

describe('attachments', function () {
  let folder: string;
  let claude: FakeServer;
  let gpt: FakeServer;
  let api: TestApi;
  let workers: Workers;
  /** What the models were sent, newest last. */
  const asked: AnthropicRequest[] = [];

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'drover-attachments-'));
    claude = await startFakeAnthropic((request) => {
      asked.push(request);
      const use = { type: 'tool_use', id: 'toolu_1', name: 'image', input: { bytes: 60_000 } };
      if (request.tools?.length === 1 && request.messages.length === 1)
        return { content: [use], stop_reason: 'tool_use' };
      return { content: [{ type: 'text', text: 'seen' }] };
    });
    gpt = await startFakeOpenAI((request) => {
      asked.push(request as AnthropicRequest);
      return { text: 'seen' };
    });
    api = await startTestApi(undefined, {
      env: {
        DROVER_FILES_URL: `file:${folder}`,
        ANTHROPIC_API_KEY: 'test',
        ANTHROPIC_BASE_URL: claude.url,
        OPENAI_API_KEY: 'test',
        OPENAI_BASE_URL: `${gpt.url}/v1`,
      },
    });
    workers = await startWorkers(api.context);
  });
  after(async () => {
    await workers.stop(5000);
    await api.close();
    await claude.close();
    await gpt.close();
    await rm(folder, { recursive: true, force: true });
  });

  const post = async (path: string, body: unknown) => {
    const answer = await api.call('POST', path, { body });
    return answer;
  };
  const upload = async (content: Buffer, filename: string) => {
    const head = `--b\r\ncontent-disposition: form-data; name="file"; filename="${filename}"\r\ncontent-type: application/octet-stream\r\n\r\n`;
    const raw = Buffer.concat([Buffer.from(head), content, Buffer.from('\r\n--b--\r\n')]);
    const headers = { 'content-type': 'multipart/form-data; boundary=b' };
    const { json, text, status } = await api.call('POST', '/v1/files', { raw, headers });
    assert.equal(status, 201, text);
    return json.id as string;
  };
  const agentWith = async (model: string) => {
    const { json } = await post('/v1/agents', { name: randomUUID(), llm_config: { default_model: model } });
    return json.id as string;
  };
  /** A run that stays open, and what comes of its first turn. */
  const ask = async (agent: string, attachments: unknown[], message = 'What is this?') => {
    const { json: run } = await post(`/v1/agents/${agent}/runs`, {});
    const turn = await post(`/v1/runs/${run.run_id}/turns`, { input: { message, attachments } });
    return { run: run.run_id as string, thread: run.thread_id as string, turn };
  };
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: MARKED } };
  const lastSaid = () => asked.at(-1)?.messages.findLast(({ role }) => role === 'user')?.content;

  /** What came with each message of a thread, as the log has it. */
  const attachedOn = async (thread: string) => {
    const { json } = await api.call('GET', `/v1/runs?thread_id=${thread}`);
    const { turns } = (await api.call('GET', `/v1/runs/${json.runs[0].run_id}/turns`)).json;
    return turns.map(({ input }: { input: { attachments?: object[] } }) => input.attachments);
  };
  const asFile = { type: 'file', media_type: 'image/png', filename: 'file', size: PNG.length, trust: 'untrusted' };
  async function assertFiles(thread: string, filename = 'file') {
    const [first, second, ...more] = await attachedOn(thread);
    assert.deepEqual(more, []);
    for (const [attachment, ...others] of [first, second]) {
      const { file_id, ...rest } = attachment;
      assert.deepEqual([rest, others], [{ ...asFile, filename }, []]);
      const { json } = await api.call('GET', `/v1/files/${file_id}`);
      assert.deepEqual([json.size, json.thread_id], [PNG.length, thread]);
    }
    const sent = lastSaid() as { type: string; source?: object }[];
    assert.deepEqual(sent.find(({ type }) => type === 'image')?.source, image.source, 'the model is sent the image');
  }

  it('that cannot be read now make the run wait: the store is away, before or while it gives one', async () => {
    const id = await upload(Buffer.from('some text'), 'a.txt');
    const { fileStore, db, fileCache } = api.context;
    assert.ok(fileStore);
    const block = { type: 'file' as const, file_id: id, filename: 'a.txt', media_type: 'text/plain', size: 9 };
    const taken = { imageBytes: 0, pdfBytes: 0 };
    const reads: FileStore['read'][] = [
      () => Promise.reject(new FileStoreError('read', Object.assign(new Error('x'), { code: 'ECONNREFUSED' }))),
      async () => new Readable({ read: (size) => void size, construct: (end) => end(new Error('reset')) }),
    ];
    for (const read of reads) {
      const context = { db, fileCache, fileStore: { ...fileStore, read } };
      const filling = fillFiles(context, { tenantId: DEFAULT_TENANT_ID, taken }, [{ role: 'user', content: [block] }]);
      await assert.rejects(filling, { code: 'unavailable' });
    }
  });

  it('of a message of the AI SDK become files of their names, in the first and in later turns', async () => {
    const agent = await agentWith('anthropic/claude-sonnet-5');
    const id = randomUUID();
    const say = (text: string) => {
      const url = `data:image/png;base64,${MARKED}`;
      const file = { type: 'file', mediaType: 'image/png', filename: 'receipt.png', url };
      const messages = [{ id: randomUUID(), role: 'user', parts: [file, { type: 'text', text }] }];
      return post(`/v1/agents/${agent}/ui-stream`, { id, messages });
    };
    assert.equal((await say('What is this?')).status, 200);
    assert.equal((await say('And this?')).status, 200);
    const { json } = await api.call('GET', `/v1/runs?agent_id=${agent}`);
    await assertFiles(json.runs[0].thread_id, 'receipt.png');
  });

  it('of a message of the AI SDK may be PDFs, where the model takes them', async () => {
    const url = `data:application/pdf;base64,${PDF.toString('base64')}`;
    const say = async (model: string) => {
      const agent = await agentWith(model);
      const file = { type: 'file', mediaType: 'application/pdf', filename: 'contract.pdf', url };
      const messages = [{ id: 'm', role: 'user', parts: [file, { type: 'text', text: 'What is this?' }] }];
      return post(`/v1/agents/${agent}/ui-stream`, { id: randomUUID(), messages });
    };
    const taken = await say('anthropic/claude-sonnet-5');
    assert.equal(taken.status, 200, taken.text);
    const source = { type: 'base64', media_type: 'application/pdf', data: PDF.toString('base64') };
    const sent = lastSaid() as { type: string; source?: object; title?: string }[];
    const { title, source: shown } = sent.find(({ type }) => type === 'document') ?? {};
    assert.deepEqual([title, shown], ['contract.pdf', source]);
    const refused = await say('openai/gpt-3.5-turbo');
    assert.deepEqual([refused.status, /which this model does not take/.test(refused.json.detail)], [422, true]);
    assert.equal(refused.json.errors[0].path, 'body.messages.0.parts.0');
  });

  it('of a message of the AI SDK that cannot be are named by their place in what the client has sent', async () => {
    const agent = await agentWith('anthropic/claude-sonnet-5');
    const id = randomUUID();
    const dataUrl = (mediaType: string, bytes: Buffer) => ({
      type: 'file',
      mediaType,
      url: `data:${mediaType};base64,${bytes.toString('base64')}`,
    });
    const text = { type: 'text', text: 'What is this?' };
    const good = dataUrl('image/png', Buffer.from(MARKED, 'base64'));
    const refusedAt = async (parts: object[], before: object[] = []) => {
      const messages = [...before, { id: randomUUID(), role: 'user', parts }];
      const { status, json } = await post(`/v1/agents/${agent}/ui-stream`, { id, messages });
      return [status, json.errors?.[0]?.path];
    };
    const earlier = [{ id: 'a', role: 'user', parts: [text] }];
    const notPng = dataUrl('image/png', Buffer.from('no image'));
    const latin = dataUrl('text/plain', Buffer.from('caf\xe9', 'latin1'));
    const zip = dataUrl('application/zip', Buffer.from('PK'));
    assert.deepEqual(await refusedAt([text, good, notPng], earlier), [422, 'body.messages.1.parts.2']);
    assert.deepEqual(await refusedAt([text, latin]), [422, 'body.messages.0.parts.1']);
    assert.deepEqual(await refusedAt([zip, text]), [422, 'body.messages.0.parts.0']);
    assert.deepEqual(await refusedAt([{ type: 'text' }, text]), [422, 'body.messages.0.parts.0']);
    assert.deepEqual(await refusedAt([text, ...Array.from({ length: 51 }, () => good)]), [
      422,
      'body.messages.0.parts',
    ]);
    const { json } = await api.call('GET', `/v1/runs?agent_id=${agent}`);
    assert.deepEqual(json.runs, [], 'nothing was begun');
  });

  it('of a prompt over ACP become files, in the first and in later turns', async () => {
    const agent = await agentWith('anthropic/claude-sonnet-5');
    const client = await openAcp({ url: api.url, key: api.key, agent, onUpdate: () => undefined });
    const { session } = methods.agent;
    const { sessionId } = await client.agent.request<{ sessionId: string }>(session.new, { cwd: '/', mcpServers: [] });
    for (const text of ['What is this?', 'And this?']) {
      const shown = { type: 'image', mimeType: 'image/png', data: MARKED };
      await client.agent.request(session.prompt, { sessionId, prompt: [{ type: 'text', text }, shown] });
    }
    await assertFiles(sessionId);
    const blob = PDF.toString('base64');
    const resource = { uri: 'file:///home/ada/contract.pdf', mimeType: 'application/pdf', blob };
    const prompt = [
      { type: 'text', text: 'And that?' },
      { type: 'resource', resource },
    ];
    await client.agent.request(session.prompt, { sessionId, prompt });
    const sent = lastSaid() as { type: string; source?: { data: string }; title?: string }[];
    const { title, source } = sent.find(({ type }) => type === 'document') ?? {};
    assert.deepEqual([title, source?.data], ['contract.pdf', blob]);
    const zip = [prompt[0], { type: 'resource', resource: { ...resource, mimeType: 'application/zip' } }];
    await assert.rejects(client.agent.request(session.prompt, { sessionId, prompt: zip }), /must be text or a PDF/);
    const notPng = [prompt[0], { type: 'image', mimeType: 'image/png', data: Buffer.from('no').toString('base64') }];
    await assert.rejects(
      client.agent.request(session.prompt, { sessionId, prompt: notPng }),
      /^RequestError: prompt\.1 is of/,
    );
    client.leave();
  });

  it('reach Claude as images, documents and text, and the log as ids', async () => {
    const agent = await agentWith('anthropic/claude-sonnet-5');
    const notes = await upload(Buffer.from('keep calm'), 'notes.md');
    const pdf = {
      type: 'document',
      source: { type: 'base64', media_type: 'application/pdf', data: PDF.toString('base64') },
      filename: 'a.pdf',
    };
    const { run, turn } = await ask(agent, [image, pdf, { file_id: notes }, { type: 'text', text: 'as it is' }]);
    assert.deepEqual([turn.status, turn.json.output.message], [200, 'seen'], turn.text);
    const cached = { cache_control: { type: 'ephemeral' } };
    assert.deepEqual(lastSaid(), [
      { type: 'image', source: image.source },
      { type: 'document', source: pdf.source, title: 'a.pdf' },
      { type: 'text', text: 'File "notes.md" (text/markdown):\nkeep calm' },
      { type: 'text', text: 'as it is' },
      { type: 'text', text: 'What is this?', ...cached },
    ]);
    const { json, text } = await api.call('GET', `/v1/runs/${run}/turns/${turn.json.turn_id}`);
    const [first, second, third, fourth] = json.input.attachments;
    assert.deepEqual(
      [first, second, third].map(({ type, media_type, filename, size }) => [type, media_type, filename, size]),
      [
        ['file', 'image/png', 'file', PNG.length],
        ['file', 'application/pdf', 'a.pdf', PDF.length],
        ['file', 'text/markdown', 'notes.md', 9],
      ],
    );
    assert.deepEqual([third.file_id, fourth], [notes, { type: 'text', text: 'as it is' }]);
    const events = await api.call('GET', `/v1/runs/${run}/events`);
    const stored = await contentsWith({ ...api, tenantId: DEFAULT_TENANT_ID }, MARKED);
    assert.deepEqual([text.includes(MARKED), events.text.includes(MARKED), stored], [false, false, []]);
    const made = (await api.call('GET', `/v1/files?run_id=${run}`)).json.files;
    assert.deepEqual(new Set(made.map(({ id }: { id: string }) => id)), new Set([first.file_id, second.file_id]));
  });

  it('reach GPT in its form', async () => {
    const agent = await agentWith('openai/gpt-5.4');
    const pdf = await upload(PDF, 'a.pdf');
    const { turn } = await ask(agent, [image, { type: 'file', file_id: pdf }]);
    assert.equal(turn.json.output.message, 'seen', turn.text);
    assert.deepEqual(lastSaid(), [
      { type: 'image_url', image_url: { url: `data:image/png;base64,${MARKED}` } },
      {
        type: 'file',
        file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${PDF.toString('base64')}` },
      },
      { type: 'text', text: 'What is this?' },
    ]);
  });

  it('may begin a run on a new thread, once for one Idempotency-Key', async () => {
    const agent = await agentWith('anthropic/claude-sonnet-5');
    const headers = { 'idempotency-key': randomUUID() };
    const body = { input: { message: 'x', attachments: [image] }, config: { keep_open: true } };
    const create = () => api.call('POST', `/v1/agents/${agent}/runs`, { headers, body });
    const one = await create();
    const two = await create();
    assert.deepEqual([one.status, two.status, two.json], [202, 202, one.json], one.text);
    const { files } = (await api.call('GET', `/v1/files?thread_id=${one.json.thread_id}`)).json;
    assert.deepEqual(
      files.map((file: { run_id: string; origin: string }) => [file.run_id, file.origin]),
      [[one.json.run_id, 'user']],
    );
    assert.deepEqual(await strays(api), []);
  });

  it('are refused where the model would not take them, and then leave nothing', async () => {
    const agent = await agentWith('openai/gpt-3.5-turbo');
    const zip = await upload(Buffer.from('PK'), 'a.zip');
    const long = await upload(Buffer.alloc(1024 * 1024 + 1, 'x'), 'long.txt');
    const refused = async (given: unknown) => {
      const { turn } = await ask(agent, [given]);
      return `${turn.status} ${turn.json.detail}`;
    };
    const at = '422 body.input.attachments.0';
    const forms = '{type: "text", text}, {type: "image", source}, {type: "file", source, filename} or {file_id}';
    assert.equal(await refused({ url: 'https://example.com' }), `400 body.input.attachments.0 must be ${forms}`);
    assert.equal(await refused(image), `${at} is of the type image/png, which this model does not take.`);
    assert.match(
      await refused({ file_id: zip }),
      new RegExp(`^${at} is of the type application/octet-stream: models take`),
    );
    assert.match(
      await refused({ file_id: long }),
      new RegExp(`^${at} has 1048577 bytes, and this model takes at most 1048576`),
    );
    // "é" in Latin-1; a character of UTF-8 that is cut off; one that the end of a chunk cuts in two is whole.
    for (const bytes of [Buffer.from('caf\xe9 au lait', 'latin1'), Buffer.from('café').subarray(0, 4)]) {
      const message = 'is of the type text/plain, and its text is not UTF-8';
      assert.equal(await refused({ file_id: await upload(bytes, 'a.txt') }), `${at} ${message}.`);
      const source = { type: 'base64', media_type: 'text/plain', data: bytes.toString('base64') };
      const { turn } = await ask(agent, [{ type: 'file', filename: 'b.txt', source }]);
      assert.equal(turn.status, 422, turn.text);
      const path = 'body.input.attachments.0';
      assert.deepEqual(turn.json.errors, [{ path, message }]);
    }
    const source = { type: 'base64', media_type: 'application/sql', data: Buffer.from('select 1').toString('base64') };
    for (const given of [{ type: 'file', source }, { file_id: await upload(Buffer.from('print(1)'), 'sum.py') }]) {
      const { turn } = await ask(agent, [given]);
      assert.equal(turn.json.output?.message, 'seen', turn.text);
    }
    const accents = await upload(Buffer.from(`x${'é'.repeat(200_000)}`), 'c.txt');
    const { turn: taken } = await ask(agent, [{ file_id: accents }]);
    assert.equal(taken.json.output.message, 'seen', taken.text);
    assert.equal(await refused({ file_id: randomUUID() }), `${at} names no file.`);
    const { key } = await api.newTenant();
    const other = await api.call('GET', `/v1/files/${zip}`, { key });
    assert.equal(other.status, 404);
    assert.match(await refused({ type: 'image', source: { ...image.source, data: '%' } }), /^400 /);
    assert.deepEqual(await strays(api), []);
  });

  it('that were stored before anybody looked whether they are UTF-8 are named in words where they are not', async () => {
    const agent = await agentWith('anthropic/claude-sonnet-5');
    const letters = [
      await upload(Buffer.from('caf\xe9', 'latin1'), 'a.txt'),
      await upload(Buffer.from('café'), 'b.txt'),
    ];
    for (const id of letters) await forgetUtf8({ context: api.context, tenantId: DEFAULT_TENANT_ID }, id);
    await ask(
      agent,
      letters.map((id) => ({ file_id: id })),
    );
    const said = (lastSaid() as unknown as { text: string }[]).map(({ text }) => text);
    assert.deepEqual(said.slice(0, 2), [
      `[file a.txt (text/plain, 4 bytes) left out: its text is not UTF-8. Its id is ${letters[0]}.]`,
      'File "b.txt" (text/plain):\ncafé',
    ]);
  });

  it('are named in words once they are deleted', async () => {
    const agent = await agentWith('anthropic/claude-sonnet-5');
    const id = await upload(PNG, 'a.png');
    const { run } = await ask(agent, [{ file_id: id }]);
    assert.equal((await api.call('DELETE', `/v1/files/${id}`)).status, 204);
    await post(`/v1/runs/${run}/turns`, { input: { message: 'And now?' } });
    const [first] = (asked.at(-1)?.messages[0]?.content ?? []) as unknown[];
    assert.deepEqual(first, { type: 'text', text: '[file a.png (image/png) left out: it was deleted]' });
  });

  it('are named in words with the reason, where newer ones take the room of a request', async () => {
    const agent = await agentWith('anthropic/claude-sonnet-5');
    const large = (n: number) => upload(Buffer.concat([PNG, Buffer.alloc(3_700_000, n)]), `${n}.png`);
    const ids = [];
    for (let n = 1; n <= 6; n += 1) ids.push(await large(n));
    const filesOf = (some: string[]) => some.map((file_id) => ({ file_id }));
    const { run } = await ask(agent, filesOf(ids.slice(0, 3)));
    const attachments = filesOf(ids.slice(3));
    await post(`/v1/runs/${run}/turns`, { input: { message: 'And these?', attachments } });
    const [older, , newer] = asked.at(-1)?.messages ?? [];
    const shown = [older, newer].flatMap((message) => message?.content as { type: string; text?: string }[]);
    assert.deepEqual(
      shown.map(({ type, text }) => text ?? type),
      [
        '[file 1.png (image/png) left out: a request has 20971520 bytes of files at most, the newest first]',
        'image',
        'image',
        'What is this?',
        'image',
        'image',
        'image',
        'And these?',
      ],
    );
  });

  it('need a place for files, images too: nothing that is written holds a content', async function () {
    const homeless = await startTestApi(undefined, { env: { ANTHROPIC_API_KEY: 'test', DROVER_FILES_URL: '' } });
    try {
      // Embedded mode has its data directory.
      if (homeless.context.fileStore) return this.skip();
      const llm_config = { default_model: 'anthropic/claude-sonnet-5' };
      const { json: agent } = await homeless.call('POST', '/v1/agents', { body: { name: 'a', llm_config } });
      const body = { input: { message: 'What is this?', attachments: [image] } };
      const begun = await homeless.call('POST', `/v1/agents/${agent.id}/runs`, { body });
      assert.deepEqual([begun.status, begun.json.code], [503, 'files-not-configured'], begun.text);
      const { json: run } = await homeless.call('POST', `/v1/agents/${agent.id}/runs`, { body: {} });
      const turn = await homeless.call('POST', `/v1/runs/${run.run_id}/turns`, { body });
      assert.deepEqual([turn.status, turn.json.code], [503, 'files-not-configured'], turn.text);
    } finally {
      await homeless.close();
    }
  });

  it('that are deleted in that moment are there or unknown, and nothing else', async () => {
    const agent = await agentWith('offline');
    const seen = new Set<number>();
    for (let round = 0; round < 20; round += 1) {
      const file_id = await upload(Buffer.from(`round ${round}`), 'a.txt');
      const input = { message: 'x', attachments: [{ file_id }] };
      const [one, other, gone] = await Promise.all([
        post(`/v1/agents/${agent}/runs`, { input }),
        post(`/v1/agents/${agent}/runs`, { input }),
        api.call('DELETE', `/v1/files/${file_id}`),
      ]);
      assert.equal(gone.status, 204);
      for (const { status, text, json } of [one, other]) {
        assert.ok(status === 202 || json.detail === 'body.input.attachments.0 names no file.', text);
        seen.add(status);
      }
    }
    assert.deepEqual(
      [...seen].filter((status) => status !== 202 && status !== 422),
      [],
    );
  });

  it('that are large PDFs of few pages, as scans are, have room with what was said before them', async () => {
    const agent = await agentWith('anthropic/claude-haiku-4-5');
    const scanned = `2 0 obj <</Type /Page>> endobj 3 0 obj <</Length 3000000>> stream\n${'x'.repeat(3_000_000)}\nendstream`;
    const scan = await upload(Buffer.from(`%PDF-1.4\n${scanned}\n${scanned}`), 'scan.pdf');
    const { run, thread, turn } = await ask(agent, [], 'I shall show you a scan.');
    assert.equal(turn.json.output.message, 'seen', turn.text);
    for (const attachments of [[{ file_id: scan }], []]) {
      const { json, text } = await post(`/v1/runs/${run}/turns`, { input: { message: 'What is in it?', attachments } });
      assert.equal(json.output.message, 'seen', text);
    }
    const said = asked.at(-1)?.messages.map(({ content }) => (content as { type: string }[]).map(({ type }) => type));
    assert.deepEqual(said, [['text'], ['text'], ['document', 'text'], ['text'], ['text']]);
    const attached = (await attachedOn(thread))[1];
    assert.deepEqual([attached[0].pages, attached[0].filename], [2, 'scan.pdf']);
  });

  it('are made of large images in the results of tools, which models see all the same', async () => {
    const transport = { type: 'mcp_stdio', ...ODD_SERVER };
    const tool = await post('/v1/tools', { name: 'image', description: 'x', risk_level: 'READ_ONLY', transport });
    assert.equal(tool.status, 201, tool.text);
    const llm_config = { default_model: 'anthropic/claude-sonnet-5' };
    const { json: agent } = await post('/v1/agents', { name: randomUUID(), llm_config, tools: ['image'] });
    const { run, turn } = await ask(agent.id, [], 'Show me.');
    assert.equal(turn.json.output.message, 'seen', turn.text);
    const [stored] = (await api.call('GET', `/v1/files?run_id=${run}`)).json.files;
    assert.deepEqual(
      [stored.origin, stored.trust, stored.size, stored.mime_type],
      ['tool', 'untrusted', 60_008, 'image/png'],
    );
    const content = Buffer.concat([PNG.subarray(0, 8), Buffer.alloc(60_000)]);
    const [result] = lastSaid() as unknown as { content: { type: string; source?: object; text?: string }[] }[];
    assert.deepEqual(result?.content, [
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: content.toString('base64') } },
      { type: 'text', text: `[kept as file ${stored.id}: file, image/png]` },
    ]);
    const { json: events } = await api.call('GET', `/v1/runs/${run}/events?types=file.stored`);
    const [call] = turn.json.output.tool_calls;
    assert.deepEqual(
      events.events.map(({ payload }: { payload: unknown }) => payload),
      [{ file_id: stored.id, tool_call_id: call.id, mime_type: 'image/png', size: 60_008 }],
    );
    const { json: output } = await api.call('GET', `/v1/tool-calls/${call.id}/output`);
    const [kept] = output.output.content;
    assert.deepEqual([kept.file_id, kept.size, 'data' in kept], [stored.id, 60_008, false]);
    await post(`/v1/runs/${run}/turns`, { input: { message: 'And now?' } });
    const generated = async () => {
      const { json } = await api.call('GET', `/v1/agents/${agent.id}/conversations`);
      return json.conversations.map((each: { generated_files: object[] }) => each.generated_files);
    };
    const [later, [{ timestamp, ...file }]] = await generated();
    assert.ok(Date.parse(timestamp) > 0, timestamp);
    assert.deepEqual(
      [later, file],
      [
        [],
        {
          file_id: stored.id,
          filename: 'file',
          storage_path: `/v1/files/${stored.id}/content`,
          size: 60_008,
          mime_type: 'image/png',
          step: 1,
        },
      ],
    );
    assert.equal((await api.call('GET', file.storage_path)).status, 200);
    await api.call('DELETE', `/v1/runs/${run}`);
    assert.equal((await api.call('GET', `/v1/files/${stored.id}`)).status, 404);
    assert.deepEqual(await generated(), [[], []]);
  });

  it('go with the last run that they have come into', async () => {
    const agent = await agentWith('anthropic/claude-sonnet-5');
    const shared = await upload(PDF, 'shared.pdf');
    const one = await ask(agent, [image, { file_id: shared }]);
    const two = await ask(agent, [{ file_id: shared }]);
    const [own] = (await api.call('GET', `/v1/files?run_id=${one.run}`)).json.files;
    const status = async (id: string) => (await api.call('GET', `/v1/files/${id}`)).status;
    assert.equal((await api.call('DELETE', `/v1/threads/${one.thread}`)).status, 202);
    assert.deepEqual([await status(own.id), await status(shared)], [404, 200]);
    assert.equal((await api.call('DELETE', `/v1/runs/${two.run}`)).status, 202);
    assert.equal(await status(shared), 404);
  });

  it('of a run that was never made are swept, but for files that were there before', async () => {
    const before = await upload(PNG, 'before.png');
    const [run, made] = [randomUUID(), await upload(PDF, 'made.pdf')];
    await useFiles({ ...api, tenantId: DEFAULT_TENANT_ID }, run, { made, used: [before, made] });
    await maintain(api.context, 'sweep-files');
    assert.equal((await api.call('GET', `/v1/files/${before}`)).status, 200);
    assert.equal((await api.call('GET', `/v1/files/${made}`)).status, 404);
    assert.deepEqual(await strays(api), []);
  });
});

/** Contents that no file has, and files and uses of runs that there are not. */
function strays({ context }: TestApi): Promise<object[]> {
  return strayFiles({ context, tenantId: DEFAULT_TENANT_ID });
}
