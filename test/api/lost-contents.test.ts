import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { DEFAULT_TENANT_ID } from '../../modules/tenants/bootstrap.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { PLACES, type Place } from '../support/file-places.ts';
import { unstoredContents } from '../support/queries/files.ts';

for (const [name, open] of Object.entries(PLACES)) {
  describe(`Contents that were lost on ${name}`, () => {
    let place: Place;
    let api: TestApi;
    before(async () => {
      place = await open();
      api = await startTestApi(undefined, { env: { DROVER_FILES_URL: place.url } });
    });
    after(async () => {
      await api.close();
      await place.close();
    });

    const upload = async (content: Buffer): Promise<string> => {
      const form = new FormData();
      form.append('file', new Blob([new Uint8Array(content)]), 'a.bin');
      const headers = { authorization: `Bearer ${api.key}` };
      const answer = await fetch(`${api.url}/v1/files`, { method: 'POST', headers, body: form });
      assert.equal(answer.status, 201);
      return ((await answer.json()) as { id: string }).id;
    };
    const download = async (id: string) => {
      const headers = { authorization: `Bearer ${api.key}` };
      const answer = await fetch(`${api.url}/v1/files/${id}/content`, { headers });
      return { status: answer.status, body: Buffer.from(await answer.arrayBuffer()) };
    };

    it('are there again once they are uploaded again, for all files that had them', async () => {
      const bytes = randomBytes(3000);
      const first = await upload(bytes);
      const [stored] = await place.list();
      await api.context.fileStore?.delete(stored ?? '');
      assert.equal((await download(first)).status, 404);
      const second = await upload(bytes);
      for (const id of [first, second]) assert.ok((await download(id)).body.equals(bytes));
      assert.equal((await place.list()).length, 1);
      // What was lost goes with the rest of the garbage, and the room that is taken stays the same.
      assert.equal((await unstoredContents({ context: api.context, tenantId: DEFAULT_TENANT_ID })).length, 1);
      await upload(bytes);
      assert.equal((await place.list()).length, 1);
    });
  });
}
