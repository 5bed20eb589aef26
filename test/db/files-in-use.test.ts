import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { eraseRows } from '../../db/erasure.ts';
import { noteUses } from '../../db/files.ts';
import { eraseEvent } from '../../core/erasure.ts';
import { newId } from '../../lib/new-id.ts';
import { keepFile, writeContent } from '../../modules/files/store-file.ts';
import { DEFAULT_TENANT_ID, DEFAULT_WORKSPACE_ID } from '../../modules/tenants/bootstrap.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { sessionsWaitingIn } from '../support/queries/postgres.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('A file of a run that is erased', () => {
  let api: ScriptedService;
  let folder: string;
  before(async function () {
    if (DOMAIN_MODE === 'embedded') return this.skip();
    folder = await mkdtemp(join(tmpdir(), 'drover-test-files-'));
    api = await startScriptedService({ env: { DROVER_FILES_URL: `file:${folder}` } });
  });
  after(async () => {
    await api?.close();
    if (folder) await rm(folder, { recursive: true });
  });

  it('stays where another run is just taking it up', async () => {
    const { db } = api.context;
    const content = await writeContent(api.context, DEFAULT_TENANT_ID, {
      source: Readable.from([Buffer.from('a text')]),
      signal: new AbortController().signal,
    });
    const { id: file } = await db.withTenant(DEFAULT_TENANT_ID, (tx) =>
      keepFile(tx, content, {
        filename: 'a.txt',
        mimeType: 'text/plain',
        origin: 'user',
        trust: 'trusted',
        workspaceId: DEFAULT_WORKSPACE_ID,
      }),
    );
    const message = { message: 'say done', attachments: [{ file_id: file }] };
    const agent = await api.newAgent();
    const { run_id: first } = (await api.call('POST', `/v1/agents/${agent}/runs`, { body: { input: message } })).json;
    await waitUntil('it is done', async () => (await api.call('GET', `/v1/runs/${first}`)).json.status === 'completed');
    let erased: Promise<unknown> | undefined;
    const taken = await db.withTenant(DEFAULT_TENANT_ID, async (tx) => {
      const ids = await noteUses(tx, { tenantId: DEFAULT_TENANT_ID, runId: newId(), fileIds: [file] });
      erased = db.withTenant(DEFAULT_TENANT_ID, (other) => eraseRows(other, first, eraseEvent));
      await waitUntil(
        'the erasure waits',
        async () => (await sessionsWaitingIn(db, 'erase_files_of_run')).length === 1,
      );
      return ids;
    });
    await erased;
    assert.deepEqual(taken, [file]);
    assert.equal((await api.call('GET', `/v1/files/${file}`)).status, 200);
  });
});
