import assert from 'node:assert/strict';
import { DEFAULT_TENANT_ID } from '../../../modules/tenants/bootstrap.ts';
import type { TestApi } from '../../support/api.ts';
import { startEmbeddingServer, type EmbeddingServer } from '../../support/embedding-server.ts';
import { newName } from '../../support/new-name.ts';
import { modelsOfFragments } from '../../support/queries/memory.ts';
import { startTestService } from '../../support/service.ts';
import { waitUntil } from '../../support/wait-until.ts';

const MODEL = 'openai/small';

describe('A text that the embedding model refuses', () => {
  let api: TestApi;
  let server: EmbeddingServer;
  before(async () => {
    server = await startEmbeddingServer();
    server.refuse('POISON');
    api = await startTestService({ env: { DROVER_EMBEDDING_MODEL: MODEL, ...server.env } });
  });
  after(async () => {
    await api.close();
    await server.close();
  });

  const sent = (text: string) => server.asked.filter((each) => each === text).length;

  it('has no vector and is found by its words, while others of its agent have theirs', async () => {
    const { id: agent } = (await api.call('POST', '/v1/agents', { body: { name: newName() } })).json;
    const path = `/v1/agents/${agent}/memory`;
    const add = async (content: string): Promise<string> =>
      (await api.call('POST', path, { body: { content, memory_type: 'SEMANTIC' } })).json.id;
    const modelOf = async (id: string) => (await api.call('GET', `${path}/${id}`)).json.embedding_model;
    const refused = await add('POISON is what the model does not take.');
    for (const content of ['Ada drinks espresso.', 'Bob drinks tea.']) {
      const id = await add(content);
      await waitUntil('the entry has its vector', async () => (await modelOf(id)) === MODEL);
    }
    assert.equal(await modelOf(refused), null);
    const times = sent('POISON is what the model does not take.');
    const last = await add('Cleo drinks water.');
    await waitUntil('the last entry has its vector', async () => (await modelOf(last)) === MODEL);
    assert.equal(sent('POISON is what the model does not take.'), times, 'it is not sent again');
    const { json } = await api.call('POST', `${path}/query`, { body: { query: 'What does the model not take?' } });
    assert.deepEqual([json.entries[0].id, json.entries[0].embedding_generated], [refused, false]);
  });

  it('keeps no other fragment of its space from its vector, nor a search from the vector of its question', async () => {
    const { id: space } = (await api.call('POST', '/v1/memory/spaces', { body: {} })).json;
    const write = async (content: unknown) => {
      const { status, text } = await api.call('POST', '/v1/memory/write', { body: { space_id: space, content } });
      assert.equal(status, 201, text);
    };
    await write({ type: 'structured', data: {} });
    await write('POISON is not taken.');
    await write('Ada drinks espresso.');
    const { json } = await api.call('GET', `/v1/memory/search?space_id=${space}&query=espresso`);
    assert.equal(json.fragments[0].content.data, 'Ada drinks espresso.');
    const models = () => modelsOfFragments({ context: api.context, tenantId: DEFAULT_TENANT_ID }, space);
    await waitUntil('nothing is left to embed', async () => (await models()).every((model) => model !== null));
    assert.deepEqual((await models()).map(String).toSorted(), [`none:${MODEL}`, `none:${MODEL}`, MODEL]);
    assert.equal(sent(''), 0);
    assert.deepEqual(
      api.log.filter(({ msg }) => String(msg).includes('a question has no vector')),
      [],
    );
  });
});
