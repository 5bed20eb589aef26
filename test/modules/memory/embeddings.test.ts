import assert from 'node:assert/strict';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { LIMITS } from '../../../core/limits.ts';
import { DEFAULT_TENANT_ID } from '../../../modules/tenants/bootstrap.ts';
import { createEmbeddings } from '../../../llm/embeddings.ts';
import { addMemory, toMemoryRow } from '../../../modules/memory/add-memory.ts';
import { noteEmbeddingSettings } from '../../../db/memory-models.ts';
import { listUnembeddedFragments } from '../../../db/memory-fragments.ts';
import { freshFragments, storeVectors } from '../../../modules/memory/embed-fragments.ts';
import { embedMemories } from '../../../modules/memory/embed-memories.ts';
import { createSpace } from '../../../modules/memory/spaces.ts';
import { writeToSpace } from '../../../modules/memory/write-fragment.ts';
import type { TestApi } from '../../support/api.ts';
import { openEngine, type Engine } from '../../support/engine.ts';
import { modelsOfFragments } from '../../support/queries/memory.ts';
import { forNobody, unpaid } from '../../support/unpaid-embeddings.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { startTestService } from '../../support/service.ts';
import { newName } from '../../support/new-name.ts';

describe('embeddings of memories', () => {
  let api: TestApi;
  let agent: string;

  before(async () => {
    api = await startTestService({ env: { DROVER_EMBEDDING_MODEL: 'offline' } });
    agent = (await api.call('POST', '/v1/agents', { body: { name: newName() } })).json.id;
  });
  after(() => api.close());

  it('follow an entry, which then is found by its meaning', async () => {
    const body = { content: 'I love espresso.', memory_type: 'SEMANTIC' };
    const { json: added } = await api.call('POST', `/v1/agents/${agent}/memory`, { body });
    assert.equal(added.embedding_generated, false);
    await api.call('POST', `/v1/agents/${agent}/memory`, {
      body: { content: 'The server runs Debian.', memory_type: 'SEMANTIC' },
    });
    await waitUntil('the entry has its vector', async () => {
      const { json } = await api.call('GET', `/v1/agents/${agent}/memory/${added.id}`);
      return json.embedding_generated;
    });
    const { json } = await api.call('POST', `/v1/agents/${agent}/memory/query`, {
      body: { query: 'Which hot drinks does the person like?' },
    });
    assert.equal(json.entries[0].content, 'I love espresso.');
    assert.ok(json.entries[0].why.vector > 0);
    const again = await api.call('POST', `/v1/agents/${agent}/memory`, { body });
    assert.equal(again.json.embedding_generated, true, 'the same text has its vector at once');
  });

  it('follow the fragments of a space, however many there are and before anybody has searched it', async () => {
    const { id: space } = (await api.call('POST', '/v1/memory/spaces', { body: {} })).json;
    const write = (content: string) => api.call('POST', '/v1/memory/write', { body: { space_id: space, content } });
    for (let n = 0; n < LIMITS.embeddedTogether + 3; n++) await write(`The invoice ${n} was paid.`);
    await write('I love espresso.');
    await waitUntil('all fragments have their vectors', async () =>
      (await modelsOfFragments({ context: api.context, tenantId: DEFAULT_TENANT_ID }, space)).every(
        (model) => model === 'offline',
      ),
    );
    const query = encodeURIComponent('Which hot drinks does the person like?');
    const { json } = await api.call('GET', `/v1/memory/search?space_id=${space}&min_relevance=0.1&query=${query}`);
    assert.equal(json.fragments[0].content.data, 'I love espresso.');
  });
});

describe('embeddings of what changes', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine(undefined, { DROVER_EMBEDDING_MODEL: 'offline' });
  });
  after(() => engine.close());

  const inTenant = <T>(work: Parameters<typeof engine.context.db.withTenant<T>>[1]) =>
    engine.context.db.withTenant(engine.tenantId, work);

  it('are made of nothing that is not recalled', async () => {
    const agent = await engine.agent();
    const from = { tenantId: engine.tenantId, agentId: agent, origin: 'user' as const };
    const row = toMemoryRow({ content: 'Ada sails on Sundays.', memory_type: 'SEMANTIC' }, from);
    await inTenant((tx) => addMemory(tx, { ...row, status: 'archived' }));
    const owner = { tenantId: engine.tenantId, agentId: agent };
    assert.deepEqual(await embedMemories(engine.context, owner, new AbortController().signal), { embedded: 0 });
  });

  it('of a fragment go with its text, and are not stored for one that has another text by now', async () => {
    const { id: space } = await inTenant((tx) => createSpace(tx, engine.caller, { scope: 'team' }));
    const write = (data: string, more: object = {}) =>
      inTenant((tx) => writeToSpace(tx, engine.caller, { space_id: space, content: { type: 'text', data }, ...more }));
    const { fragment } = await write('Ada sails on Sundays.');
    const of = { tenantId: engine.tenantId, spaceIds: [space] };
    const rows = await freshFragments(engine.context, of, 'offline');
    await write('Ada sings on Mondays.', { fragment_id: fragment.id });
    const vectors = [Array.from({ length: 512 }, () => 0.1)];
    const store = (which: typeof rows) =>
      storeVectors(engine.context, engine.tenantId, { model: 'offline', rows: which, vectors });
    await store(rows);
    assert.deepEqual(await modelsOfFragments(engine, space), [null]);
    await store(await freshFragments(engine.context, of, 'offline'));
    assert.deepEqual(await modelsOfFragments(engine, space), ['offline']);
    await write('Ada sleeps on Tuesdays.', { fragment_id: fragment.id });
    assert.deepEqual(await modelsOfFragments(engine, space), [null]);
  });

  it('pass over those of a model that others use, however many there are', async () => {
    const { id: space } = await inTenant((tx) => createSpace(tx, engine.caller, { scope: 'team' }));
    const write = (data: string) =>
      inTenant((tx) => writeToSpace(tx, engine.caller, { space_id: space, content: { type: 'text', data } }));
    for (let n = 0; n <= LIMITS.embeddedTogether; n += 1) await write(`Fact ${n}.`);
    const rows = await inTenant((tx) =>
      listUnembeddedFragments(tx, { spaceIds: [space], model: 'offline', kept: [], limit: 1000 }),
    );
    const vectors = rows.map(() => Array.from({ length: 512 }, () => 0.1));
    const [last] = rows.slice(-1);
    assert.ok(last);
    const store = (model: string, which: typeof rows) =>
      storeVectors(engine.context, engine.tenantId, { model, rows: which, vectors });
    await store('openai/used', rows.slice(0, -1));
    await store('openai/zero', [last]);
    const { db } = engine.context;
    await noteEmbeddingSettings(db, { model: 'openai/used', has_key: true }, LIMITS.embeddingSettingsMs);
    const fresh = await freshFragments(engine.context, { tenantId: engine.tenantId, spaceIds: [space] }, 'offline');
    assert.deepEqual(
      fresh.map(({ id }) => id),
      [last.id],
    );
  });
});

describe('embeddings over HTTP', () => {
  let server: Server;
  let asked: { input: string[]; model: string; encoding_format: string }[];
  let respond: (texts: string[]) => { status: number; body: unknown };

  before(async () => {
    server = createServer((request, response) => {
      void (async () => {
        let text = '';
        for await (const chunk of request) text += String(chunk);
        const body = JSON.parse(text) as (typeof asked)[number];
        asked.push(body);
        const answer = respond(body.input);
        response.writeHead(answer.status, { 'content-type': 'application/json' }).end(JSON.stringify(answer.body));
      })();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  after(() => new Promise((resolve) => server.close(resolve)));
  beforeEach(() => {
    asked = [];
    const base64 = (text: string) => Buffer.from(new Float32Array([text.length, 0.5]).buffer).toString('base64');
    respond = (texts) => ({
      status: 200,
      body: { data: texts.map((text, index) => ({ index, embedding: base64(text) })).toReversed() },
    });
  });

  const embeddings = () =>
    createEmbeddings(
      {
        embeddingModel: 'openai/some-model',
        modelKeys: {
          openai: { apiKey: 'k', baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` },
        },
      },
      unpaid,
    );
  const options = { signal: new AbortController().signal, payer: forNobody };

  it('come in the order of the texts, in batches, and each text is asked for once', async () => {
    const { embed } = embeddings();
    const texts = Array.from({ length: 130 }, (_, index) => 'x'.repeat(index + 1));
    const vectors = await embed('openai/some-model', texts, options);
    assert.deepEqual(vectors[2], [3, 0.5]);
    assert.deepEqual(
      asked.map(({ input, model, encoding_format: format }) => [input.length, model, format]),
      [
        [128, 'some-model', 'base64'],
        [2, 'some-model', 'base64'],
      ],
    );
    assert.deepEqual(await embed('openai/some-model', ['xxx', 'y'], options), [
      [3, 0.5],
      [1, 0.5],
    ]);
    assert.deepEqual(asked.at(-1)?.input, ['y']);
  });

  it('fail where the provider refuses, leaves one out, or the caller has gone', async () => {
    const { embed } = embeddings();
    respond = () => ({ status: 429, body: {} });
    await assert.rejects(embed('openai/some-model', ['a'], options), /answered 429/);
    respond = () => ({ status: 200, body: { data: [] } });
    await assert.rejects(embed('openai/some-model', ['a'], options), /left a text out/);
    await assert.rejects(
      embed('openai/some-model', ['a'], { ...options, signal: AbortSignal.abort(new Error('gone')) }),
      /abort/i,
    );
    await assert.rejects(embed('other/model', ['a'], options), /no key/);
  });

  it('are those of the installation where an agent names a model without a key', () => {
    const { modelFor } = createEmbeddings({ embeddingModel: 'offline', modelKeys: {} }, unpaid);
    assert.deepEqual([modelFor(undefined), modelFor('text-embedding-3-small')], ['offline', 'offline']);
    assert.equal(embeddings().modelFor('text-embedding-3-small'), 'openai/text-embedding-3-small');
    assert.equal(createEmbeddings({ embeddingModel: 'off', modelKeys: {} }, unpaid).modelFor(undefined), undefined);
  });
});
