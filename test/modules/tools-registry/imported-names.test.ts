import assert from 'node:assert/strict';
import { startTestApi, type TestApi } from '../../support/api.ts';
import type { LocalServer } from '../../support/echo-server.ts';
import { startListingServer } from '../../support/listing-server.ts';

interface Imported {
  id: string;
  name: string;
  transport: { tool: string };
}

describe('the names of imported tools', () => {
  let api: TestApi;
  let key: string;
  let server: LocalServer;
  /** The server's own names of its tools. */
  let listed: { name: string; inputSchema: { type: 'object' } }[];
  before(async () => {
    api = await startTestApi('embedded');
  });
  after(() => api.close());
  beforeEach(async () => {
    ({ key } = await api.newTenant());
    listed = [];
    server = await startListingServer(listed);
  });
  afterEach(() => server.close());

  const list = (...names: string[]) =>
    listed.splice(0, listed.length, ...names.map((name) => ({ name, inputSchema: { type: 'object' as const } })));
  const load = async (prefix?: string) => {
    const transport = { type: 'http', endpoint: server.url };
    const { status, json, text } = await api.call('POST', '/v1/tools/import', { key, body: { transport, prefix } });
    assert.equal(status, 201, text);
    return json.tools as Imported[];
  };
  /** The names by those of the server. */
  const namesOf = (tools: readonly Imported[]) =>
    Object.fromEntries(tools.map(({ name, transport }) => [transport.tool, name]));

  it('stay with their tools in whatever order the server lists them', async () => {
    list('a.b', 'a_b');
    const first = await load('sx_');
    assert.deepEqual(namesOf(first), { 'a.b': 'sx_a_b', a_b: 'sx_a_b_2' });
    list('a_b', 'a.b');
    const again = await load('sx_');
    assert.deepEqual(namesOf(again), namesOf(first));
    assert.deepEqual(new Set(again.map(({ id }) => id)), new Set(first.map(({ id }) => id)));
  });

  it('stay with their tools where another one that they were kept apart from is gone', async () => {
    list('a.b', 'a_b');
    await load('sx_');
    list('a_b', 'a b');
    assert.deepEqual(namesOf(await load('sx_')), { a_b: 'sx_a_b_2', 'a b': 'sx_a_b_3' });
  });

  it('are others under another prefix', async () => {
    list('a.b', 'a_b');
    await load('sx_');
    assert.deepEqual(namesOf(await load('sy_')), { 'a.b': 'sy_a_b', a_b: 'sy_a_b_2' });
    assert.deepEqual(namesOf(await load()), { 'a.b': 'a_b', a_b: 'a_b_2' });
    assert.deepEqual(namesOf(await load('sx_')), { 'a.b': 'sx_a_b', a_b: 'sx_a_b_2' });
  });
});
