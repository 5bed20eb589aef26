import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { lockMemoryOf } from '../../db/memory-lock.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { waitUntil } from '../support/wait-until.ts';

/** Where one connection is all there is, no transaction is beside another one. */
describe('A question of what an agent remembers, while that is being changed', function () {
  let api: TestApi;
  let tenant: string;
  let agent: string;

  before(async function () {
    api = await startTestApi('full');
    tenant = (await api.call('GET', '/v1/tenant')).json.id;
  });
  after(() => api.close());
  beforeEach(async () => {
    agent = (await api.call('POST', '/v1/agents', { body: { name: `agent ${randomUUID()}` } })).json.id;
  });

  const path = (rest = '') => `/v1/agents/${agent}/memory${rest}`;
  const ask = async (query: string) => (await api.call('POST', path('/query'), { body: { query } })).json.entries;
  /** What is done while somebody else changes the agent's memory. */
  const whileChanged = <T>(work: () => Promise<T>): Promise<T> =>
    api.context.db.withTenant(tenant, async (tx) => {
      await lockMemoryOf(tx, agent);
      return work();
    });

  it('is answered at once, and counts as a use when the change is over', async () => {
    const body = { content: 'The ferry leaves at nine.', memory_type: 'SEMANTIC' };
    const { id } = (await api.call('POST', path(), { body })).json;
    const uses = async () => (await api.call('GET', path(`/${id}`))).json.access_count;
    const found = await whileChanged(async () => [await ask('When does the ferry leave?'), await ask('ferry')]);
    assert.deepEqual(
      found.map(([hit]) => hit?.id),
      [id, id],
    );
    await waitUntil('both uses are counted', async () => (await uses()) === 2);
    await ask('ferry');
    assert.equal(await uses(), 3);
  });
});
