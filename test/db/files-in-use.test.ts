import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { eraseRows } from '../../db/erasure.ts';
import {
  claimGarbage,
  deleteFiles,
  findContent,
  listFiles,
  noteUses,
  readRunOwner,
  replaceContent,
} from '../../db/files.ts';
import type { Tx } from '../../db/database.ts';
import { eraseEvent } from '../../core/erasure.ts';
import { newId } from '../../lib/new-id.ts';
import { keepFile, writeContent, type StoredContent } from '../../modules/files/store-file.ts';
import { DEFAULT_TENANT_ID, DEFAULT_WORKSPACE_ID } from '../../modules/tenants/bootstrap.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { sideBySide } from '../support/side-by-side.ts';
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

  const written = (text: string) =>
    writeContent(api.context, DEFAULT_TENANT_ID, {
      source: Readable.from([Buffer.from(text)]),
      signal: new AbortController().signal,
    });
  const keep = (tx: Tx, content: StoredContent, runId?: string) =>
    keepFile(tx, content, {
      filename: 'a.txt',
      mimeType: 'text/plain',
      origin: 'user',
      trust: 'trusted',
      workspaceId: DEFAULT_WORKSPACE_ID,
      runId,
    });
  const completed = async (input: object) => {
    const agent = await api.newAgent();
    const { run_id: run } = (await api.call('POST', `/v1/agents/${agent}/runs`, { body: { input } })).json;
    await waitUntil('it is done', async () => (await api.call('GET', `/v1/runs/${run}`)).json.status === 'completed');
    return run;
  };
  const inTenant = <T>(work: (tx: Tx) => Promise<T>) => api.context.db.withTenant(DEFAULT_TENANT_ID, work);

  it('goes with it where it is just being stored, and none comes later', async () => {
    const run = await completed({ message: 'say done' });
    const content = await written('made by a tool');
    const [owner] = await sideBySide(
      { context: api.context, tenantId: DEFAULT_TENANT_ID },
      {
        first: (tx) => readRunOwner(tx, run),
        second: () => inTenant((tx) => eraseRows(tx, run, eraseEvent)),
        statement: 'update runs set metadata',
        last: (tx) => keep(tx, content, run),
      },
    );
    assert.ok(owner);
    const page = { workspaceId: DEFAULT_WORKSPACE_ID, runId: run, limit: 10 };
    assert.deepEqual(await inTenant((tx) => listFiles(tx, page)), []);
  });

  it('leaves its content to another file that is just taking that up', async () => {
    const content = await written('twice');
    const { id } = await inTenant((tx) => keep(tx, content));
    const same = await written('twice');
    const [file] = await sideBySide(
      { context: api.context, tenantId: DEFAULT_TENANT_ID },
      {
        first: (tx) => keep(tx, same),
        second: () => inTenant((tx) => deleteFiles(tx, [id])),
        statement: 'delete_files',
      },
    );
    assert.equal(await inTenant((tx) => findContent(tx, content.sha256)), file.content_id);
  });

  it('keeps the content it has lost where the one uploaded anew is just being swept', async () => {
    const lost = await written('lost');
    await inTenant((tx) => keep(tx, lost));
    const anew = await written('lost');
    const [swept] = await sideBySide(
      { context: api.context, tenantId: DEFAULT_TENANT_ID },
      {
        first: (tx) => claimGarbage(tx, anew.id),
        second: () => inTenant((tx) => replaceContent(tx, lost.id, anew)),
        statement: 'file_contents',
      },
    );
    assert.ok(swept);
    assert.equal(await inTenant((tx) => findContent(tx, lost.sha256)), lost.id);
  });

  it('gives up the content that has just replaced one that was lost, if it goes at the same moment', async () => {
    const lost = await written('lost and gone');
    const { id } = await inTenant((tx) => keep(tx, lost));
    const anew = await written('lost and gone');
    await sideBySide(
      { context: api.context, tenantId: DEFAULT_TENANT_ID },
      {
        first: (tx) => replaceContent(tx, lost.id, anew),
        second: () => inTenant((tx) => deleteFiles(tx, [id])),
        statement: 'delete_files',
      },
    );
    assert.equal(await inTenant((tx) => findContent(tx, anew.sha256)), undefined);
  });

  it('stays where another run is just taking it up', async () => {
    const content = await written('a text');
    const { id: file } = await inTenant((tx) => keep(tx, content));
    const first = await completed({ message: 'say done', attachments: [{ file_id: file }] });
    const [taken] = await sideBySide(
      { context: api.context, tenantId: DEFAULT_TENANT_ID },
      {
        first: (tx) => noteUses(tx, { tenantId: DEFAULT_TENANT_ID, runId: newId(), fileIds: [file] }),
        second: () => inTenant((tx) => eraseRows(tx, first, eraseEvent)),
        statement: 'erase_files_of_run',
      },
    );
    assert.deepEqual(taken, [file]);
    assert.equal((await api.call('GET', `/v1/files/${file}`)).status, 200);
  });
});
