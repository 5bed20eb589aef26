import assert from 'node:assert/strict';
import { insertMemories } from '../../db/memory-entries.ts';
import { toMemoryRow } from '../../modules/memory/add-memory.ts';
import { DEFAULT_TENANT_ID } from '../../modules/tenants/bootstrap.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { newRememberingAgent } from '../support/remembering-agent.ts';

describe('What is held against something new', () => {
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
  const add = async (content: string, more: object = {}): Promise<string> =>
    (await post(`/v1/agents/${agent}/memory`, { content, memory_type: 'SEMANTIC', ...more })).id;
  const addMany = (contents: string[]) =>
    api.context.db.withTenant(DEFAULT_TENANT_ID, (tx) => {
      const from = { tenantId: DEFAULT_TENANT_ID, agentId: agent, origin: 'user' as const };
      const rows = contents.map((content) => toMemoryRow({ content, memory_type: 'SEMANTIC' }, from));
      return insertMemories(tx, rows);
    });
  const states = (ids: string[]): Promise<string[]> =>
    Promise.all(ids.map(async (id) => (await api.call('GET', `/v1/agents/${agent}/memory/${id}`)).json.status));
  const code = (number: number) => `The locker code of the user is ${number}.`;

  it('is what its user has said, however many others have said something similar since', async () => {
    const of = (user: string) => ({ metadata: { user_id: user } });
    const older = await add(code(4000), of('ada'));
    const others = [];
    for (let n = 0; n < 6; n++) others.push(await add(code(1000 + n), of(`u${n}`)));
    const newer = await add(code(5500), of('ada'));
    assert.deepEqual(await states([older, newer]), ['disputed', 'disputed']);
    assert.deepEqual([...new Set(await states(others))], ['active']);
  });

  it('is what still holds, however much that is over says the same', async () => {
    const older = await add(code(4000), { valid_from: '2020-01-01T00:00:00Z' });
    for (let n = 0; n < 6; n++) await add(code(1000 + n), { valid_to: '2019-01-01T00:00:00Z' });
    assert.deepEqual(await states([older, await add(code(5500))]), ['disputed', 'disputed']);
  });

  it('is what has most of its words, however many newer entries have some of them', async () => {
    const budget = (project: string, euros: number) => `The budget of project ${project} is ${euros} euros.`;
    const older = await add(budget('Kestrel', 4000));
    await addMany(Array.from({ length: 205 }, (_, n) => budget(`P${n}`, n)));
    assert.deepEqual(await states([older, await add(budget('Kestrel', 5500))]), ['disputed', 'disputed']);
  });

  it('in a space is what it may be joined with, however many fragments of others say the same', async () => {
    const { id: space } = await post('/v1/memory/spaces', { name: 'codes', conflict_check: 'rules' });
    const write = (content: string, more: object = {}) =>
      post('/v1/memory/write', { space_id: space, content, ...more });
    const older = await write(code(4000), { agent_id: 'ada' });
    const hidden = [{ visibility: 'private' }, { denied_agents: ['bob'] }, { expires_at: '2999-01-01T00:00:00Z' }];
    for (let n = 0; n < 9; n++) await write(code(1000 + n), { agent_id: 'eve', ...hidden[n % 3] });
    const newer = await write(code(5500), { agent_id: 'bob' });
    assert.deepEqual([newer.id, newer.requires_resolution], [older.id, true]);
  });
});
