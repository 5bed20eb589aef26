import assert from 'node:assert/strict';
import { DEFAULT_TENANT_ID } from '../../modules/tenants/bootstrap.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { newRememberingAgent } from '../support/remembering-agent.ts';
import { indexBySpaces } from '../support/queries/memory.ts';

describe('Memory in scripts without spaces between words', () => {
  let api: TestApi;
  let agent: string;

  before(async () => {
    api = await startTestApi();
  });
  after(() => api.close());
  beforeEach(async () => {
    agent = await newRememberingAgent(api);
  });

  const post = async (path: string, body: unknown) => {
    const { json, status, text } = await api.call('POST', path, { body });
    assert.ok(status < 300, text);
    return json;
  };
  const add = async (content: string): Promise<string> =>
    (await post(`/v1/agents/${agent}/memory`, { content, memory_type: 'SEMANTIC' })).id;
  const recalled = async (query: string): Promise<string[]> => {
    const { entries } = await post(`/v1/agents/${agent}/memory/query`, { query });
    return entries.map(({ content }: { content: string }) => content);
  };
  const forgotten = async (query: string): Promise<number> =>
    (await post(`/v1/agents/${agent}/memory/forget`, { query, dry_run: true })).removed.entries;

  it('is found by words of a question', async () => {
    const texts = ['项目红隼的预算是4000欧元。', '彼女は東京に住んでいます。', '用户住在奥斯陆的公园附近。'];
    for (const content of texts) await add(content);
    assert.equal((await recalled('项目红隼的预算是多少？'))[0], texts[0]);
    assert.deepEqual(await recalled('東京のどこですか'), [texts[1]]);
    assert.deepEqual(await recalled('奥斯陆'), [texts[2]]);
    assert.deepEqual(await recalled('4000'), [texts[0]]);
    assert.deepEqual(await recalled('咖啡'), []);
  });

  it('is found in a space by words of a question', async () => {
    const { id: space_id } = await post('/v1/memory/spaces', { name: 'facts' });
    for (const content of ['项目红隼的预算是4000欧元。', '用户住在奥斯陆的公园附近。'])
      await post('/v1/memory/write', { space_id, content });
    const query = new URLSearchParams({ space_id, query: '红隼的预算', min_relevance: '0.3' });
    const { json } = await api.call('GET', `/v1/memory/search?${query.toString()}`);
    assert.deepEqual(
      json.fragments.map(({ content }: { content: { data: string } }) => content.data),
      ['项目红隼的预算是4000欧元。'],
    );
  });

  it('has contradictions: other numbers of one thing', async () => {
    const ids = [await add('项目红隼的预算是4000欧元。'), await add('项目红隼的预算是5500欧元。')];
    const other = await add('项目苍鹰的预算是7000欧元。');
    const statusOf = async (id: string) => (await api.call('GET', `/v1/agents/${agent}/memory/${id}`)).json.status;
    assert.deepEqual(await Promise.all([...ids, other].map(statusOf)), ['disputed', 'disputed', 'active']);
  });

  it('is forgotten by all parts of a query between spaces, each as it stands, beside words of other scripts', async () => {
    await add('Ada 的预算是 9000 欧元');
    await add('Ada的预算是八千欧元');
    await add('Ada prefers trains.');
    for (const [query, count] of [
      ['Ada 预算', 2],
      ['预算 欧元', 2],
      ['预算', 2],
      ['预算？', 2],
      ['欧元 9000', 1],
      ['the 预算', 2],
      ['Bob 预算', 0],
      ['预算 咖啡', 0],
      ['Ada', 3],
    ] as const)
      assert.equal(await forgotten(query), count, query);
    await indexBySpaces({ context: api.context, tenantId: DEFAULT_TENANT_ID }, agent);
    assert.equal(await forgotten('Ada'), 3, 'whatever process has written them');
  });
});
