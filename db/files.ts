/** Files, their contents, and what a tenant has stored of them. Contents are told by their digest: each is there once a tenant. */
import type { Trust } from '../core/origin.ts';
import type { Database, Tx } from './database.ts';
import { fetchRows, selectFrom } from './query-builder.ts';

export type FileOrigin = 'user' | 'tool' | 'provider';

export interface FileRow {
  id: string;
  tenant_id: string;
  workspace_id: string;
  thread_id: string | null;
  run_id: string | null;
  content_id: string;
  sha256: string;
  size: number;
  filename: string;
  mime_type: string;
  origin: FileOrigin;
  trust: Trust;
  /** Whether its bytes are UTF-8; null where nobody has looked. */
  is_utf8: boolean | null;
  /** Of a PDF; null where nobody can say. */
  pages: number | null;
  created_at: Date;
}

const FILE = `id, tenant_id, workspace_id, thread_id, run_id, content_id, sha256, size, filename, mime_type, origin, trust,
  is_utf8, pages, created_at`;

interface FileLimits {
  /** Bytes of one file, and of all contents of the tenant. */
  fileBytes: number;
  tenantBytes: number;
}

/** What the tenant's settings say in place of the usual limits. */
export async function readFileLimits(tx: Tx, usual: FileLimits): Promise<FileLimits> {
  const [row] = await tx.query<{ file_bytes: number | null; total_bytes: number | null }>(
    `select (settings->'files'->>'file_bytes')::bigint as file_bytes, (settings->'files'->>'total_bytes')::bigint as total_bytes
     from tenants`,
  );
  return {
    fileBytes: row?.file_bytes ?? usual.fileBytes,
    tenantBytes: row?.total_bytes ?? usual.tenantBytes,
  };
}

/** Names a content that is about to be written. */
export async function insertContent(tx: Tx, content: { id: string; tenantId: string }): Promise<void> {
  await tx.query(`insert into file_contents (id, tenant_id, state) values ($1, $2, 'writing')`, [
    content.id,
    content.tenantId,
  ]);
}

interface WrittenContent {
  id: string;
  tenantId: string;
  sha256: string;
  size: number;
}

/**
 * Takes a content that is written whole; where the tenant has the same already, that one is used and this one is garbage.
 * Answers the content to refer to, `full` if it does not fit the tenant's bytes any more, `swept` if it was given up meanwhile.
 */
export async function keepContent(
  tx: Tx,
  { id, tenantId, sha256, size }: WrittenContent,
  tenantBytes: number,
): Promise<{ id: string } | 'full' | 'swept'> {
  // Those who add or remove contents of a tenant do it one after the other: the sum holds, and none goes while it is taken.
  await tx.query('insert into file_usage (tenant_id) values ($1) on conflict do nothing', [tenantId]);
  const [usage] = await tx.query<{ bytes: number }>('select bytes from file_usage where tenant_id = $1 for update', [
    tenantId,
  ]);
  const [same] = await tx.query<{ id: string }>(
    `select id from file_contents where tenant_id = $1 and sha256 = $2 and state = 'stored'`,
    [tenantId, sha256],
  );
  if (same) {
    await discardContent(tx, id);
    return same;
  }
  if ((usage?.bytes ?? 0) + size > tenantBytes) return 'full';
  const kept = await tx.query(
    `update file_contents set state = 'stored', sha256 = $2, size = $3, changed_at = now()
       where id = $1 and state = 'writing' returning id`,
    [id, sha256, size],
  );
  if (kept.length === 0) return 'swept';
  await tx.query('update file_usage set bytes = bytes + $2 where tenant_id = $1', [tenantId, size]);
  return { id };
}

/** Gives up a content that was being written. */
export async function discardContent(tx: Tx, id: string): Promise<void> {
  await tx.query(`update file_contents set state = 'garbage', changed_at = now() where id = $1 and state = 'writing'`, [
    id,
  ]);
}

/** Contents that are garbage, and those that were begun too long ago to be still written: at most `limit`. */
export async function listGarbage(
  db: Database,
  { writingHours, limit }: { writingHours: number; limit: number },
): Promise<{ tenant_id: string; id: string }[]> {
  return db.asMaintenance((tx) =>
    tx.query(
      `select tenant_id, id from file_contents
         where state = 'garbage' or state = 'writing' and changed_at < now() - $1 * interval '1 hour'
         order by changed_at limit $2`,
      [writingHours, limit],
    ),
  );
}

/** The garbage of the transaction's tenant. */
export async function listOwnGarbage(tx: Tx, limit: number): Promise<{ id: string }[]> {
  return tx.query(`select id from file_contents where state = 'garbage' order by changed_at limit $1`, [limit]);
}

/** Whether a content is garbage for good: nobody takes it up any more. */
export async function claimGarbage(tx: Tx, id: string): Promise<boolean> {
  const rows = await tx.query(
    `update file_contents set state = 'garbage' where id = $1 and state <> 'stored' returning id`,
    [id],
  );
  return rows.length > 0;
}

/** Forgets garbage that the store has no more. */
export async function forgetContent(tx: Tx, id: string): Promise<void> {
  await tx.query(`delete from file_contents where id = $1 and state = 'garbage'`, [id]);
}

interface NewFileRow {
  id: string;
  tenantId: string;
  workspaceId: string;
  threadId?: string | undefined;
  runId?: string | undefined;
  contentId: string;
  sha256: string;
  size: number;
  filename: string;
  mimeType: string;
  origin: FileOrigin;
  trust: Trust;
  isUtf8: boolean;
  pages?: number | undefined;
}

export async function insertFile(tx: Tx, file: NewFileRow): Promise<FileRow> {
  const [row] = await tx.query<FileRow>(
    `insert into files (id, tenant_id, workspace_id, thread_id, run_id, content_id, sha256, size, filename, mime_type, origin,
       trust, is_utf8, pages) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) returning ${FILE}`,
    [
      file.id,
      file.tenantId,
      file.workspaceId,
      file.threadId ?? null,
      file.runId ?? null,
      file.contentId,
      file.sha256,
      file.size,
      file.filename,
      file.mimeType,
      file.origin,
      file.trust,
      file.isUtf8,
      file.pages ?? null,
    ],
  );
  if (!row) throw new Error('An inserted file did not come back.');
  return row;
}

/** A file, of this workspace where one is given. */
export async function findFile(tx: Tx, id: string, workspaceId?: string): Promise<FileRow | undefined> {
  const [row] = await fetchRows<FileRow>(
    tx,
    selectFrom(FILE, 'files', [
      ['id', '=', id],
      ['workspace_id', '=', workspaceId],
    ]),
  );
  return row;
}

/** Those of these files that there are, of this workspace where one is given; in no order. */
export async function findFiles(tx: Tx, ids: readonly string[], workspaceId?: string): Promise<FileRow[]> {
  return tx.query<FileRow>(
    `select ${FILE} from files where id = any($1::uuid[]) and ($2::uuid is null or workspace_id = $2)`,
    [[...ids], workspaceId ?? null],
  );
}

/** Whether a file is that of a thread; one that is no thread's is that of each on which it came into a run. */
export async function isFileOfThread(tx: Tx, { id, threadId }: { id: string; threadId: string }): Promise<boolean> {
  const rows = await tx.query(
    `select 1 from files f where f.id = $1 and (f.thread_id = $2 or f.thread_id is null and exists (
       select 1 from file_uses u join runs r on r.id = u.run_id where u.file_id = f.id and r.thread_id = $2))`,
    [id, threadId],
  );
  return rows.length > 0;
}

export interface FilePage {
  workspaceId: string;
  threadId?: string | undefined;
  runId?: string | undefined;
  before?: string | undefined;
  limit: number;
}

/** A page of files, newest first. */
export async function listFiles(tx: Tx, page: FilePage): Promise<FileRow[]> {
  const query = selectFrom(FILE, 'files', [
    ['workspace_id', '=', page.workspaceId],
    ['thread_id', '=', page.threadId],
    ['run_id', '=', page.runId],
    ['id', '<', page.before],
  ]);
  return fetchRows<FileRow>(tx, query.orderBy('id', 'desc').limit(page.limit));
}

/** Deletes files; a content that no other file has becomes garbage. Answers how many there were. */
export async function deleteFiles(tx: Tx, ids: readonly string[]): Promise<number> {
  const [row] = await tx.query<{ gone: number }>('select delete_files($1::uuid[]) as gone', [[...ids]]);
  return row?.gone ?? 0;
}

/** Whose run it is, held so that it is not erased meanwhile; undefined where it is erased. */
export async function readRunOwner(
  tx: Tx,
  runId: string,
): Promise<{ workspace_id: string; thread_id: string } | undefined> {
  const [row] = await tx.query<{ workspace_id: string; thread_id: string }>(
    'select workspace_id, thread_id from runs where id = $1 and erased_at is null for share',
    [runId],
  );
  return row;
}

/** Notes that files have come into a run; answers those that there are, which are held: one that is being deleted is gone. */
export async function noteUses(
  tx: Tx,
  { tenantId, runId, fileIds }: { tenantId: string; runId: string; fileIds: readonly string[] },
): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `with held as (select id from files where id = any($3::uuid[]) order by id for key share),
       noted as (insert into file_uses (tenant_id, run_id, file_id) select $1, $2, id from held on conflict do nothing)
     select id from held`,
    [tenantId, runId, [...new Set(fileIds)]],
  );
  return rows.map(({ id }) => id);
}

/** Forgets the uses of a run that was not made after all. */
export async function dropUses(tx: Tx, runId: string): Promise<void> {
  await tx.query('delete from file_uses where run_id = $1', [runId]);
}

/** Files and uses of runs that were never made: whoever meant to make them has died. At most `limit`. */
export async function listFilesWithoutRun(
  db: Database,
  limit: number,
): Promise<{ tenant_id: string; run_id: string }[]> {
  return db.asMaintenance((tx) =>
    tx.query(
      `select distinct u.tenant_id, u.run_id from file_uses u
         where u.created_at between now() - interval '2 days' and now() - interval '1 hour'
           and not exists (select from runs r where r.id = u.run_id) limit $1`,
      [limit],
    ),
  );
}

/** Deletes what was made for a run that was never made; files that there were before stay. */
export async function deleteFilesWithoutRun(tx: Tx, runId: string): Promise<void> {
  await tx.query('select delete_files(array(select id from files where run_id = $1))', [runId]);
  await dropUses(tx, runId);
}

/** Erases the files that were stored for a thread. */
export async function eraseFilesOfThread(tx: Tx, threadId: string): Promise<void> {
  await tx.query('select erase_files_of_thread($1)', [threadId]);
}
