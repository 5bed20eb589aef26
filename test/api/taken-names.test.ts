/** An agent that comes under another one's name guards calls as that one did, or somebody who may approve has made it so. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { startTestApi, type TestApi } from '../support/api.ts';
import { newName } from '../support/new-name.ts';

type Body = Record<string, unknown>;

const GUARDED = {
  autonomy_level: 0,
  execution_config: { four_eyes: true },
  guardrail_config: { tool_rails: { allowed_tools: ['calculator'] } },
};
const FREED = {
  autonomy_level: { from: 0, to: 2 },
  four_eyes: { from: true, to: false },
  allowed_tools: { from: ['calculator'], to: 'all' },
};

describe('a key that may write agents, but not approve', () => {
  let api: TestApi;
  let writer: string;
  let approver: string;
  before(async () => {
    api = await startTestApi();
    const keyWith = async (scopes: string[]): Promise<string> =>
      (await api.call('POST', '/v1/api-keys', { body: { name: 'k', scopes } })).json.key;
    writer = await keyWith(['agents:write']);
    approver = await keyWith(['agents:write', 'approvals:write']);
  });
  after(() => api.close());

  const make = async (fields: Body = {}): Promise<{ id: string; name: string; external_id: string }> => {
    const body = { name: newName(), external_id: randomUUID(), ...fields };
    const { status, json, text } = await api.call('POST', '/v1/agents', { body });
    assert.equal(status, 201, text);
    return { ...body, id: json.id };
  };
  const change = (id: string, key: string, body: Body) => api.call('PATCH', `/v1/agents/${id}`, { key, body });
  const assertRefused = async (answer: ReturnType<typeof change>, fields: string) => {
    const { status, json, text } = await answer;
    assert.deepEqual([status, json.scope], [403, 'approvals:write'], text);
    assert.match(json.detail, new RegExp(`\\(${fields}\\)`));
  };
  const lastDetails = async (target: string) =>
    (await api.call('GET', `/v1/audit?target=${target}`)).json.audit[0].details;

  it('takes no external id from an agent that guards calls more than a new one; who may approve may', async () => {
    const { id, name, external_id } = await make(GUARDED);
    const lost = 'external_id, autonomy_level, four_eyes, allowed_tools';
    await assertRefused(change(id, writer, { external_id: null }), lost);
    await assertRefused(change(id, writer, { external_id: randomUUID() }), lost);
    const body = { name: newName(), external_id };
    assert.equal((await api.call('POST', '/v1/agents', { key: writer, body })).status, 409, 'it is still taken');
    assert.equal((await change(id, approver, { external_id: null })).status, 200);
    assert.deepEqual(await lastDetails(id), { external_id: null, previous_external_id: external_id, loosened: FREED });
    assert.equal((await api.call('POST', '/v1/agents', { key: writer, body })).status, 201);
    assert.equal((await api.call('GET', `/v1/agents/${id}`)).json.name, name);
  });

  it('takes none from it once it is deprecated either', async () => {
    const { id } = await make(GUARDED);
    assert.equal((await api.call('DELETE', `/v1/agents/${id}`, { key: writer })).status, 204);
    await assertRefused(change(id, writer, { external_id: null }), 'external_id, .*');
  });

  it('gives none to an agent that guards calls less than a new one', async () => {
    const loose = await make({ autonomy_level: 3, external_id: undefined });
    const external_id = randomUUID();
    await assertRefused(change(loose.id, writer, { external_id }), 'external_id, autonomy_level');
    assert.equal((await change(loose.id, approver, { external_id })).status, 200);
    const details = { external_id, previous_external_id: null, loosened: { autonomy_level: { from: 2, to: 3 } } };
    assert.deepEqual(await lastDetails(loose.id), details);
  });

  it('moves the external id of an agent that guards calls as a new one does, and sets that of one that guards more', async () => {
    const plain = await make();
    assert.equal((await change(plain.id, writer, { external_id: null })).status, 200);
    assert.equal((await lastDetails(plain.id)).loosened, undefined);
    const guarded = await make({ ...GUARDED, external_id: undefined });
    assert.equal((await change(guarded.id, writer, { external_id: plain.external_id })).status, 200);
    assert.equal((await change(guarded.id, writer, { external_id: plain.external_id })).status, 200, 'the same again');
  });

  it('renames no agent that guards calls more than a new one, since runs begin by names too', async () => {
    const { id, name, external_id } = await make(GUARDED);
    const lost = 'name, autonomy_level, four_eyes, allowed_tools';
    await assertRefused(change(id, writer, { name: newName() }), lost);
    const put = { ...GUARDED, name: newName() };
    await assertRefused(api.call('PUT', `/v1/agents/ext:${external_id}`, { key: writer, body: put }), lost);
    assert.equal((await change(id, writer, { name, description: 'The same name.' })).status, 200);
    assert.equal((await change(id, approver, { name: newName() })).status, 200);
    assert.deepEqual((await lastDetails(id)).loosened, FREED);
    const body = { name };
    assert.equal((await api.call('POST', '/v1/agents', { key: writer, body })).status, 201);
  });

  it('registers no agent, and renames none, to the name of a deprecated one that guarded calls more', async () => {
    const { id, name } = await make(GUARDED);
    assert.equal((await api.call('DELETE', `/v1/agents/${id}`, { key: writer })).status, 204);
    const other = await make();
    const lost = 'name, autonomy_level, four_eyes, allowed_tools';
    const register = (key: string, fields: Body) => api.call('POST', '/v1/agents', { key, body: { name, ...fields } });
    await assertRefused(register(writer, {}), lost);
    await assertRefused(change(other.id, writer, { name }), lost);
    const again = await register(writer, GUARDED);
    assert.equal(again.status, 201, again.text);
    assert.equal((await api.call('DELETE', `/v1/agents/${again.json.id}`, { key: writer })).status, 204);
    const made = await register(approver, {});
    assert.equal(made.status, 201, made.text);
    assert.deepEqual((await lastDetails(made.json.id)).loosened, FREED);
    await api.call('DELETE', `/v1/agents/${made.json.id}`);
    assert.equal((await register(writer, {})).status, 201, 'the last one of the name counts');
  });

  it('registers none to a name whose last agent guarded calls more, although another of the name was made later', async () => {
    const older = await make(GUARDED);
    const { id, name } = await make();
    assert.equal((await api.call('DELETE', `/v1/agents/${id}`)).status, 204);
    assert.equal((await change(older.id, approver, { name })).status, 200);
    assert.equal((await api.call('DELETE', `/v1/agents/${older.id}`)).status, 204);
    const register = api.call('POST', '/v1/agents', { key: writer, body: { name } });
    await assertRefused(register, 'name, autonomy_level, four_eyes, allowed_tools');
  });
});
