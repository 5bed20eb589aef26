/** A bucket whose server takes everything and answers nothing, as after a partition. */
import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { maintain } from '../../modules/platform/maintain.ts';
import { DEFAULT_TENANT_ID } from '../../modules/tenants/bootstrap.ts';
import { openServiceProxy, type ServiceProxy } from '../../scripts/kit/service-proxy.ts';
import { startTestApi, type Answer, type TestApi } from '../support/api.ts';
import { PLACES, type Place } from '../support/file-places.ts';
import { unstoredContents } from '../support/queries/files.ts';

const NEVER_MS = 3_600_000;

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
    const [kept, deleted] = [await upload(), await upload()];
    const ofThread = await upload({ thread });
    assert.equal(ofThread.json.thread_id, thread, ofThread.text);
    assert.equal((await place.list()).length, 3);

    proxy.setLatency(NEVER_MS);
    const inline = { filename: 'n.txt', source: { type: 'base64', media_type: 'text/plain', data: 'aGk=' } };
    const input = { message: 'Read this', attachments: [{ type: 'file', ...inline }] };
    const answers = await Promise.all([
      api.call('GET', `/v1/files/${kept.json.id}/content`),
      upload({ bytes: 500_000 }),
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

  function upload({ bytes = 100, thread }: { bytes?: number; thread?: string } = {}): Promise<Answer> {
    const part = (what: string) => `--b\r\ncontent-disposition: form-data; ${what}\r\n\r\n`;
    const field = thread === undefined ? '' : `${part('name="thread_id"')}${thread}\r\n`;
    const head = `${field}${part('name="file"; filename="a.bin"')}`;
    const raw = Buffer.concat([Buffer.from(head), randomBytes(bytes), Buffer.from('\r\n--b--\r\n')]);
    return api.call('POST', '/v1/files', { raw, headers: { 'content-type': 'multipart/form-data; boundary=b' } });
  }
});
