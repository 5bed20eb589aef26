/** What is kept of an upload under its Idempotency-Key once the file is gone. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { startTestApi, type TestApi } from '../support/api.ts';
import { onFilesystem, type Place } from '../support/file-places.ts';
import { keptAnswers } from '../support/queries/tenants.ts';

describe('an upload with an Idempotency-Key', () => {
  let place: Place;
  let api: TestApi;
  let agent: string;

  before(async () => {
    place = await onFilesystem();
    api = await startTestApi(undefined, { env: { DROVER_FILES_URL: place.url } });
    agent = (await api.call('POST', '/v1/agents', { body: { name: randomUUID() } })).json.id;
  });
  after(async () => {
    await api?.close();
    await place?.close();
  });

  const begin = async (input?: object) =>
    (await api.call('POST', `/v1/agents/${agent}/runs`, { body: { ...(input && { input }) } })).json;

  it('is answered with ids alone once its file is deleted', async () => {
    await isForgotten({}, ({ id }) => api.call('DELETE', `/v1/files/${id}`));
  });

  it('is answered with ids alone once its thread is erased', async () => {
    const { thread_id: thread } = await begin();
    await isForgotten({ thread }, () => api.call('DELETE', `/v1/threads/${thread}`));
  });

  it('is answered with ids alone once the last run that the file has come into is erased', async () => {
    await isForgotten({}, async ({ id }) => {
      const input = { message: 'Read this', attachments: [{ type: 'file', file_id: id }] };
      const [one, two] = [await begin(input), await begin(input)];
      await api.call('DELETE', `/v1/runs/${one.run_id}`);
      assert.equal((await api.call('GET', `/v1/files/${id}`)).status, 200);
      return api.call('DELETE', `/v1/runs/${two.run_id}`);
    });
  });

  /** Its answer is as it was until the file goes, and tells then nothing that was in the request. */
  async function isForgotten(
    { thread }: { thread?: string },
    goes: (file: { id: string }) => Promise<{ status: number }>,
  ): Promise<void> {
    const name = `Ada ${randomUUID()}.pdf`;
    const part = (what: string) => `--b\r\ncontent-disposition: form-data; ${what}\r\n\r\n`;
    const field = thread === undefined ? '' : `${part('name="thread_id"')}${thread}\r\n`;
    const raw = Buffer.concat([
      Buffer.from(`${field}${part(`name="file"; filename="${name}"`)}`),
      Buffer.from(randomUUID()),
      Buffer.from('\r\n--b--\r\n'),
    ]);
    const headers = { 'content-type': 'multipart/form-data; boundary=b', 'idempotency-key': randomUUID() };
    const upload = () => api.call('POST', '/v1/files', { raw, headers });
    const first = await upload();
    assert.deepEqual([first.status, first.json.filename], [201, name], first.text);
    assert.deepEqual((await upload()).json, first.json);

    assert.ok([202, 204].includes((await goes(first.json)).status));
    assert.equal((await api.call('GET', `/v1/files/${first.json.id}`)).status, 404);
    const again = await upload();
    assert.deepEqual([again.status, again.headers.get('idempotent-replayed')], [201, 'true'], again.text);
    assert.deepEqual(again.json, { ...first.json, filename: '', mime_type: '', sha256: '' });
    assert.ok(!JSON.stringify(await keptAnswers(api.context.db)).includes(name));
  }
});
