import assert from 'node:assert/strict';
import { DEFAULT_TENANT_ID } from '../../modules/tenants/bootstrap.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { newName } from '../support/new-name.ts';

const RATES = { requests_per_minute: 100, chats_per_hour: 3, executes_per_minute: 1, open_requests: 2 };

describe('a tenant', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api.close());

  const make = async (settings?: Record<string, unknown>) => {
    const name = newName('customer');
    const { json } = await api.call('POST', '/v1/tenants', { body: { name, settings } });
    return { id: String(json.id), key: String(json.key), workspace: String(json.workspace_id), name };
  };
  const change = async (id: string, settings: Record<string, unknown>) => {
    const { status, text, json } = await api.call('PATCH', `/v1/tenants/${id}`, { body: { settings } });
    assert.equal(status, 200, text);
    return json.settings;
  };

  it('keeps the settings that a change of others does not name', async () => {
    const { id } = await make({ rate_limits: RATES });
    assert.deepEqual(await change(id, { rate_limits: { chats_per_hour: 7 } }), {
      rate_limits: { ...RATES, chats_per_hour: 7 },
    });
    const files = { file_bytes: 1000 };
    assert.deepEqual(await change(id, { files }), { rate_limits: { ...RATES, chats_per_hour: 7 }, files });
    const both = { file_bytes: 1000, total_bytes: 5000 };
    assert.deepEqual((await change(id, { files: { total_bytes: 5000 } })).files, both);
    const unlimited = { ...RATES, chats_per_hour: null };
    assert.deepEqual(await change(id, { rate_limits: { chats_per_hour: null } }), {
      rate_limits: unlimited,
      files: both,
    });
  });

  it('goes back to the figures of its tier, and to the usual limits of files, with null', async () => {
    const { id } = await make({ rate_limits: RATES, files: { file_bytes: 1000 } });
    assert.deepEqual(await change(id, { rate_limits: null }), { files: { file_bytes: 1000 } });
    assert.deepEqual(await change(id, { rate_limits: null, files: null }), {});
    assert.deepEqual(await change(id, { rate_limits: { open_requests: 5 } }), { rate_limits: { open_requests: 5 } });
  });

  it('is shown to the operator and to its own admin, with all its settings', async () => {
    const settings = { rate_limits: RATES, files: { file_bytes: 1000 } };
    const { id, key, name, workspace } = await make(settings);
    for (const as of [api.key, key]) {
      const { status, json } = await api.call('GET', `/v1/tenants/${id}`, { key: as });
      const { created_at: at, ...shown } = json;
      const expected = { id, tenant_id: id, name, suspended: false, plan_tier: 'standard', settings };
      assert.deepEqual([status, shown, Number.isNaN(Date.parse(at))], [200, expected, false]);
    }
    const keyOf = async (body: Record<string, unknown>) =>
      (await api.call('POST', '/v1/api-keys', { key, body: { name: 'k', ...body } })).json.key as string;
    const stranger = await make();
    for (const [as, expected] of [
      [stranger.key, 404],
      [await keyOf({ scopes: ['agents:write', 'runs:write', 'approvals:write'] }), 403],
      [await keyOf({ scopes: ['admin'], workspace_id: workspace }), 403],
    ] as const) {
      assert.equal((await api.call('GET', `/v1/tenants/${id}`, { key: as })).status, expected);
    }
  });

  it('is listed for the operator among all, page by page, and for its own admin alone', async () => {
    const made = [await make(), await make(), await make()].map(({ id }) => id);
    const ids: string[] = [];
    for (let cursor: string | undefined = ''; cursor !== undefined;) {
      const { json } = await api.call('GET', `/v1/tenants?limit=2${cursor}`);
      ids.push(...json.tenants.map((each: { id: string }) => each.id));
      cursor = json.next_cursor === undefined ? undefined : `&cursor=${json.next_cursor}`;
    }
    assert.deepEqual(ids.slice(0, 4), [DEFAULT_TENANT_ID, ...made.toReversed()]);
    assert.equal(new Set(ids).size, ids.length);
    const { id, key } = await make();
    const { json } = await api.call('GET', '/v1/tenants', { key });
    assert.deepEqual([json.tenants.map((each: { id: string }) => each.id), json.next_cursor], [[id], undefined]);
  });
});
