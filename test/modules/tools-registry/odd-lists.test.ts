/** Servers whose lists of tools hold what cannot be stored, or are none. */
import assert from 'node:assert/strict';
import { newId } from '../../../lib/new-id.ts';
import { startTestApi, type TestApi } from '../../support/api.ts';
import { startServer } from '../../support/echo-server.ts';
import { startListingServer } from '../../support/listing-server.ts';
import { newName } from '../../support/new-name.ts';
import { waitUntil } from '../../support/wait-until.ts';

const HALF = '\ud83d';
const ODD = `odd ${HALF}\0`;
const CLEAN = 'odd \ufffd\ufffd';

describe('A server whose list of tools has a NUL or half of a surrogate pair', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api.close());

  const toolNamed = (name: string, more: object = {}) => ({ name, inputSchema: { type: 'object' }, ...more });

  it('is imported with a sign in its place, but for tools whose own name has it', async () => {
    const inputSchema = { type: 'object', properties: { [ODD]: { type: 'string', description: ODD } } };
    const server = await startListingServer([
      toolNamed('described', { description: ODD, inputSchema, outputSchema: inputSchema }),
      toolNamed('titled', { title: ODD }),
      toolNamed('annotated', { annotations: { title: ODD } }),
      toolNamed(ODD),
      toolNamed('faulty', { inputSchema: { type: ODD } }),
    ]);
    const transport = { type: 'http', endpoint: server.url };
    const headers = { 'idempotency-key': newId() };
    const { status, json, text } = await api.call('POST', '/v1/tools/import', { body: { transport }, headers });
    assert.equal(status, 201, text);
    const names = json.tools.map(({ name }: { name: string }) => name);
    assert.deepEqual(names, ['described', 'titled', 'annotated']);
    const [described, titled, annotated] = json.tools;
    assert.equal(described.description, CLEAN);
    assert.deepEqual(Object.keys(described.input_schema.properties), [CLEAN]);
    assert.deepEqual([titled.display_name, annotated.display_name], [CLEAN, CLEAN]);
    const [named, faulty] = json.skipped;
    assert.equal(named.name, CLEAN);
    assert.match(named.reason, /cannot be stored/);
    assert.match(faulty.reason, /input schema cannot be used/);
    await server.close();
  });

  it('is imported from the card of a remote agent, but not where its tenant has it', async () => {
    const cards = await startServer(({ path }, response) => {
      const spoken = { url: `${cards.url}/a2a`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' };
      const supportedInterfaces = [path.startsWith('/tenant') ? { ...spoken, tenant: ODD } : spoken];
      const skills = [{ name: ODD, description: ODD }];
      response.end(
        JSON.stringify({ name: `${newName('agent')} ${ODD}`, description: ODD, skills, supportedInterfaces }),
      );
    });
    const imported = async (path: string) => {
      const body = { transport: { type: 'a2a', endpoint: `${cards.url}${path}` } };
      const { status, json, text } = await api.call('POST', '/v1/tools/import', { body });
      assert.equal(status, 201, text);
      return json;
    };
    const { tools, skipped } = await imported('/card');
    assert.deepEqual([tools.length, skipped], [1, []]);
    assert.equal(tools[0].description, `${CLEAN}\n\n- ${CLEAN}: ${CLEAN}`);
    const other = await imported('/tenant');
    assert.deepEqual([other.tools, other.skipped.length], [[], 1]);
    await cards.close();
  });

  describe('and says that it has changed', () => {
    const pay = toolNamed('pay', { description: 'Pays.' });
    const search = toolNamed('search', { description: 'Searches.' });

    /** A server with two tools, and what is known of them here. */
    const changing = async () => {
      const listed: unknown[] = [pay, search];
      const server = await startListingServer(listed);
      const transport = { type: 'http', endpoint: server.url };
      const { json, text } = await api.call('POST', '/v1/tools/import', {
        body: { transport, prefix: `${newId().slice(-8)}_` },
      });
      const [paying, searching] = json.tools as { id: string }[];
      assert.ok(paying && searching, text);
      const read = async ({ id }: { id: string }) => (await api.call('GET', `/v1/tools/${id}`)).json;
      const change = async (...now: unknown[]) => {
        listed.splice(0, listed.length, ...now);
        const { json: called } = await api.call('POST', `/v1/tools/${paying.id}/execute`, { body: { input: {} } });
        assert.equal(called.status, 'success', JSON.stringify(called));
      };
      const lists = () => server.seen.filter(({ body }) => body.includes('tools/list')).length;
      return { server, change, lists, pay: () => read(paying), search: () => read(searching) };
    };

    it('has each changed tool suspended, also beside one with such a text', async () => {
      const { server, change, ...now } = await changing();
      await change({ ...pay, description: 'Pays me.' }, { ...search, description: ODD });
      await waitUntil('pay is suspended', async () => (await now.pay()).suspended);
      const { suspended, proposed } = await now.search();
      assert.deepEqual([suspended, proposed.changes.description.to], [true, CLEAN]);
      await server.close();
    });

    it('has all its tools suspended where its list is none, and none where no list comes', async () => {
      const { server, change, lists, ...now } = await changing();
      const before = lists();
      await change();
      await waitUntil('it is asked in vain', () => lists() > before);
      await change(pay, search, toolNamed('new'));
      await waitUntil('it is asked again', () => lists() > before + 1);
      assert.deepEqual([(await now.pay()).suspended, (await now.search()).suspended], [false, false]);
      await change(pay, null);
      for (const of of [now.pay, now.search]) {
        await waitUntil('the tool is suspended', async () => (await of()).suspended);
        assert.deepEqual((await of()).proposed, { reason: 'unreadable', changes: {} });
      }
      await server.close();
    });
  });
});
