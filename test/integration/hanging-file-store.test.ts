/** A bucket whose server takes everything and answers nothing, or half of it, as after a partition. */
import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { maintain } from '../../modules/platform/maintain.ts';
import { DEFAULT_TENANT_ID } from '../../modules/tenants/bootstrap.ts';
import { openServiceProxy, type ServiceProxy } from '../../scripts/kit/service-proxy.ts';
import { startTestApi, type Answer, type TestApi } from '../support/api.ts';
import { PLACES, type Place } from '../support/file-places.ts';
import { unstoredContents } from '../support/queries/files.ts';

const NEVER_MS = 3_600_000;
const BYTES = 100;

describe('a bucket that does not answer', function () {
  // Far more than the store is given, and less than the retries of the SDK took.
  this.timeout(55_000);

  let place: Place;
  let proxy: ServiceProxy;
  let api: TestApi;

  before(async () => {
    const open = PLACES['an S3 server'];
    assert.ok(open);
    place = await open();
    const url = new URL(place.url);
    proxy = await openServiceProxy(url.searchParams.get('endpoint') ?? '');
    url.searchParams.set('endpoint', proxy.url);
    api = await startTestApi(undefined, { env: { DROVER_FILES_URL: url.href } });
  });
  after(async () => {
    await api?.close();
    await proxy?.close();
    await place?.close();
  });

  it('is told as away soon, holds nothing up that deletes, and is swept once it answers', async () => {
    const agent = (await api.call('POST', '/v1/agents', { body: { name: randomUUID() } })).json.id;
    const newThread = async () => (await api.call('POST', `/v1/agents/${agent}/runs`, { body: {} })).json.thread_id;
    const [thread, bare] = [await newThread(), await newThread()];
    const [kept, deleted] = [await upload(api), await upload(api)];
    const ofThread = await upload(api, { thread });
    assert.equal(ofThread.json.thread_id, thread, ofThread.text);
    assert.equal((await place.list()).length, 3);

    proxy.setLatency(NEVER_MS);
    const inline = { filename: 'n.txt', source: { type: 'base64', media_type: 'text/plain', data: 'aGk=' } };
    const input = { message: 'Read this', attachments: [{ type: 'file', ...inline }] };
    const answers = await Promise.all([
      api.call('GET', `/v1/files/${kept.json.id}/content`),
      upload(api, { bytes: 500_000 }),
      api.call('POST', `/v1/agents/${agent}/runs`, { body: { input } }),
      api.call('DELETE', `/v1/files/${deleted.json.id}`),
      api.call('DELETE', `/v1/threads/${thread}`),
      api.call('DELETE', `/v1/threads/${bare}`),
    ]);
    const told = answers.map(({ status, json }) => [status, json?.code]);
    const away = [503, 'unavailable'];
    assert.deepEqual(told.slice(0, 3), [away, away, away]);
    assert.deepEqual(
      answers.slice(3).map(({ status }) => status),
      [204, 202, 202],
    );

    proxy.setLatency(0);
    await maintain(api.context, 'sweep-files');
    assert.deepEqual(await unstoredContents({ context: api.context, tenantId: DEFAULT_TENANT_ID }), []);
    assert.equal((await place.list()).length, 1);
    assert.equal((await api.call('GET', `/v1/files/${kept.json.id}/content`)).status, 200);
  });
});

describe('a bucket that stops in the middle of a content', function () {
  // Far more than the store is given, and less than the minute that a client has which takes nothing.
  this.timeout(40_000);

  let server: Server;
  let api: TestApi;
  before(async () => {
    server = createServer((request, response) => {
      if (request.method === 'GET') response.writeHead(200, { 'content-length': BYTES }).write('the first half');
      else request.resume().once('end', () => response.end());
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const files = `s3://KEY:SECRET@drover-test?endpoint=${encodeURIComponent(`http://127.0.0.1:${port}`)}`;
    api = await startTestApi(undefined, { env: { DROVER_FILES_URL: files } });
  });
  after(async () => {
    await api?.close();
    server?.closeAllConnections();
    server?.close();
  });

  it('breaks off its download, which never looks whole', async () => {
    const { json } = await upload(api, { bytes: BYTES });
    const headers = { authorization: `Bearer ${api.key}` };
    const answer = await fetch(`${api.url}/v1/files/${json.id}/content`, { headers });
    assert.deepEqual([answer.status, answer.headers.get('content-length')], [200, String(BYTES)]);
    await assert.rejects(answer.text());
    const line = api.log.find(({ msg }) => msg === 'an answer broke off');
    assert.match(JSON.stringify(line), /The file store could not read: TimeoutError/);
  });
});

function upload(api: TestApi, { bytes = BYTES, thread }: { bytes?: number; thread?: string } = {}): Promise<Answer> {
  const part = (what: string) => `--b\r\ncontent-disposition: form-data; ${what}\r\n\r\n`;
  const field = thread === undefined ? '' : `${part('name="thread_id"')}${thread}\r\n`;
  const head = `${field}${part('name="file"; filename="a.bin"')}`;
  const raw = Buffer.concat([Buffer.from(head), randomBytes(bytes), Buffer.from('\r\n--b--\r\n')]);
  return api.call('POST', '/v1/files', { raw, headers: { 'content-type': 'multipart/form-data; boundary=b' } });
}
