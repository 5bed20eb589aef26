import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { maintain } from '../../modules/platform/maintain.ts';
import { DEFAULT_TENANT_ID } from '../../modules/tenants/bootstrap.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { passTimeOf } from '../support/queries/memory.ts';

describe('Memories whose time is over', () => {
  let api: TestApi;
  let agent: string;

  before(async () => {
    api = await startTestApi();
  });
  after(() => api.close());
  beforeEach(async () => {
    const consolidation = { min_age_hours: 0, importance_threshold: 0.5 };
    const body = { name: `agent ${randomUUID()}`, memory_config: { consolidation } };
    agent = (await api.call('POST', '/v1/agents', { body })).json.id;
  });

  const path = (rest = '') => `/v1/agents/${agent}/memory${rest}`;
  const TOMORROW = new Date(Date.now() + 86_400_000).toISOString();
  const NEXT_YEAR = new Date(Date.now() + 365 * 86_400_000).toISOString();
  const add = async (content: string, more: Record<string, unknown> = {}) => {
    const answer = await api.call('POST', path(), { body: { content, memory_type: 'SEMANTIC', ...more } });
    assert.equal(answer.status, 201, answer.text);
    return answer.json.id as string;
  };
  const change = async (id: string, body: Record<string, unknown>) =>
    (await api.call('PATCH', path(`/${id}`), { body })).json.id as string;
  /** As if two days had gone by. */
  const twoDaysLater = async () => {
    await passTimeOf({ ...api, tenantId: DEFAULT_TENANT_ID }, agent, 48);
    await maintain(api.context, 'consolidate-memory');
  };
  const statusOf = async (id: string) => (await api.call('GET', path(`/${id}`))).status;
  const archived = async () =>
    (await api.call('GET', path('/archive'))).json.entries.map(({ content }: { content: string }) => content);

  it('are read by nobody from then on, before they are swept', async () => {
    const id = await add('Ada lives in Oslo.', { expires_at: TOMORROW });
    const other = await add('Ben lives in Rome.', { expires_at: NEXT_YEAR });
    const earlier = await add('Cleo lives in Lima.', { expires_at: TOMORROW });
    const kept = await change(earlier, { content: 'Cleo lives in Bonn.', expires_at: NEXT_YEAR });
    const listed = async () => (await api.call('GET', path())).json.entries.map((entry: { id: string }) => entry.id);
    const recalled = async () =>
      (await api.call('POST', path('/query'), { body: { query: 'Who lives in Oslo?' } })).json.entries.map(
        (entry: { id: string }) => entry.id,
      );
    assert.deepEqual([await statusOf(id), (await listed()).includes(id)], [200, true]);
    assert.equal((await recalled())[0], id);
    await passTimeOf({ ...api, tenantId: DEFAULT_TENANT_ID }, agent, 48);
    assert.deepEqual(await Promise.all([id, earlier, other, kept].map(statusOf)), [404, 404, 200, 200]);
    assert.deepEqual((await listed()).toSorted(), [other, kept].toSorted());
    assert.equal((await recalled()).includes(id), false);
    assert.equal((await api.call('GET', path(`/${kept}`))).json.history.length, 1);
    assert.equal((await api.call('GET', path(`/${id}/uses`))).status, 404);
    assert.equal((await api.call('PATCH', path(`/${id}`), { body: { importance: 1 } })).status, 404);
    assert.equal((await api.call('DELETE', path(`/${id}`))).status, 204, 'it is there to be deleted');
  });

  it('go from the archive, too', async () => {
    const short = { memory_type: 'SHORT_TERM', relevance_score: 0 };
    await add('The weather was grey.', { ...short, expires_at: TOMORROW });
    await add('The weather was blue.', { ...short, expires_at: NEXT_YEAR });
    await add('The weather was odd.', short);
    const { json } = await api.call('POST', path('/consolidate'), { body: {} });
    assert.equal(json.evicted, 3);
    assert.equal((await archived()).length, 3);
    await twoDaysLater();
    assert.deepEqual(await archived(), ['The weather was odd.', 'The weather was blue.']);
    const undo = await api.call('POST', path(`/consolidations/${json.consolidation_id}/revert`), {});
    assert.deepEqual([undo.status, undo.json.restored], [200, 2], 'the others can be brought back');
    await twoDaysLater();
    assert.deepEqual((await api.call('GET', path('?memory_type=SHORT_TERM'))).json.entries.length, 2);
  });

  it('go with what was before them, and not with what has come in their place', async () => {
    const gone = await add('Ada lives in Oslo.');
    const goneLater = await change(gone, { content: 'Ada lives in Bergen.', expires_at: TOMORROW });
    const replaced = await add('Ben lives in Rome.', { expires_at: TOMORROW });
    const kept = await change(replaced, { content: 'Ben lives in Lima.', expires_at: NEXT_YEAR });
    await twoDaysLater();
    assert.deepEqual(await Promise.all([gone, goneLater, replaced, kept].map(statusOf)), [404, 404, 404, 200]);
    const { json } = await api.call('GET', path(`/${kept}`));
    assert.deepEqual(
      json.history.map(({ content }: { content: string }) => content),
      ['Ben lives in Lima.'],
    );
  });

  it('keep their end when they are corrected, unless another one is named', async () => {
    const id = await add('Ada lives in Oslo.', { expires_at: TOMORROW });
    const next = await change(id, { content: 'Ada lives in Rome.' });
    assert.equal((await api.call('GET', path(`/${next}`))).json.expires_at, TOMORROW);
    const last = await change(next, { content: 'Ada lives in Nice.', expires_at: NEXT_YEAR });
    assert.equal((await api.call('GET', path(`/${last}`))).json.expires_at, NEXT_YEAR);
  });
});
