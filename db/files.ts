/** Files, their contents, and a tenant's usage. Contents are identified by digest, and stored once a tenant. */
import type { Trust } from '../core/origin.ts';
import type { Database, Tx } from './database.ts';
import { TAKEN_OVER } from './fork-beginning.ts';
import { fetchRows, selectFrom } from './query-builder.ts';
import { beginsWithFork, partsOf } from './thread-parts.ts';

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
  /** Whether it is UTF-8; null if not examined. */
  is_utf8: boolean | null;
  /** Pages of a PDF; null if unknown. */
  pages: number | null;
  created_at: Date;
}

const FILE = `id, tenant_id, workspace_id, thread_id, run_id, content_id, sha256, size, filename, mime_type, origin, trust,
  is_utf8, pages, created_at`;

interface FileLimits {
  /** Maximum bytes of a file, and of all contents of the tenant. */
  fileBytes: number;
  tenantBytes: number;
}

/** A tenant's limits: its settings, otherwise the usual ones. */
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

/** Registers a content before it is written. */
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
 * Stores a completely written content. If the tenant already has the same, uses that one and makes this one garbage. Returns
 * the content to refer to; `full` if it exceeds the tenant's limit; `swept` if it was given up meanwhile.
 */
export async function keepContent(
  tx: Tx,
  { id, tenantId, sha256, size }: WrittenContent,
  tenantBytes: number,
): Promise<{ id: string } | 'full' | 'swept'> {
  // Additions and removals of a tenant's contents are serialised: the sum stays right, and none is removed while it is taken.
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

/** The tenant's stored content with these bytes. */
export async function findContent(tx: Tx, sha256: string): Promise<string | undefined> {
  const [found] = await tx.query<{ id: string }>(
    `select id from file_contents where sha256 = $1 and state = 'stored'`,
    [sha256],
  );
  return found?.id;
}

/** Gives a content that was just written to the files of one with the same bytes, which the store has lost. */
export async function replaceContent(
  tx: Tx,
  lost: string,
  { id, tenantId, sha256, size }: WrittenContent,
): Promise<void> {
  await tx.query('select from file_usage where tenant_id = $1 for update', [tenantId]);
  // Held, as a sweep may be giving it up: what it takes would be lost next.
  const written = await tx.query(`select from file_contents where id = $1 and state = 'writing' for update`, [id]);
  if (written.length === 0) return;
  const gone = await tx.query(
    `update file_contents set state = 'garbage', changed_at = now() where id = $1 and state = 'stored' returning id`,
    [lost],
  );
  if (gone.length === 0) return;
  await tx.query(
    `update file_contents set state = 'stored', sha256 = $2, size = $3, changed_at = now() where id = $1`,
    [id, sha256, size],
  );
  await tx.query('update files set content_id = $2 where content_id = $1', [lost, id]);
}

/** Discards a content that was being written. */
export async function discardContent(tx: Tx, id: string): Promise<void> {
  await tx.query(`update file_contents set state = 'garbage', changed_at = now() where id = $1 and state = 'writing'`, [
    id,
  ]);
}

/** Up to `limit` contents that are garbage, or that were begun too long ago to be still being written. */
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

/** The garbage of the transaction's tenant, newest first. */
export async function listOwnGarbage(tx: Tx, limit: number): Promise<{ id: string }[]> {
  return tx.query(`select id from file_contents where state = 'garbage' order by changed_at desc limit $1`, [limit]);
}

/** Claims a content as garbage for good; false if it is in use again. */
export async function claimGarbage(tx: Tx, id: string): Promise<boolean> {
  const rows = await tx.query(
    `update file_contents set state = 'garbage' where id = $1 and state <> 'stored' returning id`,
    [id],
  );
  return rows.length > 0;
}

/** Deletes the row of garbage that the store has deleted. */
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

/** A file; only of this workspace, if given. */
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

/** These files, as far as they exist; only of this workspace, if given. Unordered. */
export async function findFiles(tx: Tx, ids: readonly string[], workspaceId?: string): Promise<FileRow[]> {
  return tx.query<FileRow>(
    `select ${FILE} from files where id = any($1::uuid[]) and ($2::uuid is null or workspace_id = $2)`,
    [[...ids], workspaceId ?? null],
  );
}

/** When what a part `p` of a thread's conversation shows ends. */
const ENDS = `lateral (select coalesce(t.completed_at, o.created_at) as at from runs o left join turns t on t.run_id = o.id and t.number < p.before
    where o.thread_id = p.thread_id and o.thread_place = p.place order by t.number desc limit 1) ends`;

const isInPart = (run: string, at: string) =>
  `(p.forks = 0 or ${at} <= ends.at and (${run} is null or exists (select from runs r where r.id = ${run} and r.thread_place <= p.place)))`;

const PARTS = `with recursive ${partsOf({ thread: '$1', key: 'null' })}`;

/**
 * Whether a file is that of a thread, or came to one that the thread was forked from before what a fork shows of it ends, or
 * with what the fork's first turn has taken over from there. One that is no thread's is that of each on which it came into a run.
 */
export async function isFileOfThread(tx: Tx, { id, threadId }: { id: string; threadId: string }): Promise<boolean> {
  const cameToPart = `from files f cross join parts p left join ${ENDS} on true
    where f.id = $2 and (f.thread_id = p.thread_id and ${isInPart('f.run_id', 'f.created_at')}
      or f.thread_id is null and exists (select from file_uses u join runs b on b.id = u.run_id
        where u.file_id = f.id and b.thread_id = p.thread_id and ${isInPart('u.run_id', 'u.created_at')})) limit 1`;
  const wasTaken = `, ${TAKEN_OVER} select 1 from taken join files f on f.id = taken.id
    where f.id = $2 and (f.thread_id is null or f.thread_id in (select thread_id from parts)) limit 1`;
  // The second is planned for all partitions of messages, and few files need it.
  for (const found of [`select 1 ${cameToPart}`, wasTaken]) {
    if ((await tx.query(`${PARTS} ${found}`, [threadId, id])).length > 0) return true;
  }
  return false;
}

export interface FilePage {
  workspaceId: string;
  threadId?: string | undefined;
  runId?: string | undefined;
  before?: string | undefined;
  limit: number;
}

/** A page of files, newest first. A thread has those of what it shows of others, too. */
export async function listFiles(tx: Tx, page: FilePage): Promise<FileRow[]> {
  if (page.threadId !== undefined && (await isThreadOfFork(tx, page.threadId)))
    return listFilesOfFork(tx, page, page.threadId);
  const query = selectFrom(FILE, 'files', [
    ['workspace_id', '=', page.workspaceId],
    ['thread_id', '=', page.threadId],
    ['run_id', '=', page.runId],
    ['id', '<', page.before],
  ]);
  return fetchRows<FileRow>(tx, query.orderBy('id', 'desc').limit(page.limit));
}

async function isThreadOfFork(tx: Tx, threadId: string): Promise<boolean> {
  const [row] = await tx.query<{ forked: boolean }>(`select ${beginsWithFork('$1::uuid')} as forked`, [threadId]);
  return row?.forked ?? false;
}

/** The same for the thread of a fork. */
export async function listFilesOfFork(tx: Tx, page: FilePage, threadId: string): Promise<FileRow[]> {
  const asked = 'f.workspace_id = $2 and ($3::uuid is null or f.run_id = $3) and ($4::uuid is null or f.id < $4)';
  return tx.query<FileRow>(
    `${PARTS}, ${TAKEN_OVER}
     select ${FILE} from files where id in (
         select came.id from parts p left join ${ENDS} on true
           cross join lateral (select f.id from files f where f.thread_id = p.thread_id and ${asked}
             and ${isInPart('f.run_id', 'f.created_at')} order by f.id desc limit $5) came
         union all
         select f.id from taken join files f on f.id = taken.id where f.thread_id in (select thread_id from parts) and ${asked})
       order by id desc limit $5`,
    [threadId, page.workspaceId, page.runId ?? null, page.before ?? null, page.limit],
  );
}

/** Deletes files; contents that no other file uses become garbage. Returns how many existed. */
export async function deleteFiles(tx: Tx, ids: readonly string[]): Promise<number> {
  const [row] = await tx.query<{ gone: number }>('select delete_files($1::uuid[]) as gone', [[...ids]]);
  return row?.gone ?? 0;
}

/** A run's owner; locks the run so that it is not erased meanwhile. Undefined if it is erased. */
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

/** Records files used by a run; returns those that exist, locked. Files being deleted count as gone. */
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

/** Deletes the uses of a run that was not created after all. */
export async function dropUses(tx: Tx, runId: string): Promise<void> {
  await tx.query('delete from file_uses where run_id = $1', [runId]);
}

/** Up to `limit` files and uses of runs that were never created, since the process that meant to has died. */
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

/** Deletes files made for a run that was never created; older files stay. */
export async function deleteFilesWithoutRun(tx: Tx, runId: string): Promise<void> {
  await tx.query('select delete_files(array(select id from files where run_id = $1))', [runId]);
  await dropUses(tx, runId);
}

/** Erases files stored for a thread. */
export async function eraseFilesOfThread(tx: Tx, threadId: string): Promise<void> {
  await tx.query('select erase_files_of_thread($1)', [threadId]);
}
