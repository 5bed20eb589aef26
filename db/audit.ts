/** The audit log: rows are added, read and sealed, but never changed. */
import { auditHash, type AuditAction, type AuditActor, type ChainPlace, type SealedContent } from '../core/audit.ts';
import type { Database, Tx } from './database.ts';
import { fetchRows, newestFirst, selectFrom } from './query-builder.ts';

interface NewAuditRow {
  id: string;
  tenantId: string;
  workspaceId?: string | undefined;
  action: AuditAction;
  actorType: AuditActor;
  actorId?: string | undefined;
  targetType: string;
  targetId?: string | undefined;
  digest?: string | undefined;
  details?: Record<string, unknown> | undefined;
  ip?: string | undefined;
  forwardedFor?: string | undefined;
  requestId?: string | undefined;
}

/** Adds a row, within the transaction of the recorded act. */
export async function insertAuditRow(tx: Tx, row: NewAuditRow): Promise<void> {
  await tx.query(
    `insert into audit_log (id, tenant_id, workspace_id, action, actor_type, actor_id, target_type, target_id, digest,
       details, ip, forwarded_for, request_id)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::jsonb, $11, $12, $13)`,
    [
      row.id,
      row.tenantId,
      row.workspaceId ?? null,
      row.action,
      row.actorType,
      row.actorId ?? null,
      row.targetType,
      row.targetId ?? null,
      row.digest ?? null,
      JSON.stringify(row.details ?? {}),
      row.ip ?? null,
      row.forwardedFor ?? null,
      row.requestId ?? null,
    ],
  );
}

/** A row as read; `seq` and `hash` are null until it is sealed. */
export interface AuditRow extends Omit<SealedContent, 'seq'> {
  seq: number | null;
  hash: string | null;
}

const COLUMNS = `id, tenant_id, seq, workspace_id, action, actor_type, actor_id, target_type, target_id, digest, details, ip,
  forwarded_for, request_id, to_char(created_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as created_at, hash`;

interface AuditFilter {
  /** Limits the rows to what a workspace-bound key may see. */
  workspaceId?: string | undefined;
  action?: string | undefined;
  actorId?: string | undefined;
  actorType?: string | undefined;
  targetId?: string | undefined;
  createdAfter?: string | undefined;
  createdBefore?: string | undefined;
  before?: string | undefined;
  limit: number;
}

/** A page of rows, newest first by the database's clock; `before` is the last one of the previous page. */
export async function listAuditRows(tx: Tx, filter: AuditFilter): Promise<AuditRow[]> {
  const query = selectFrom(COLUMNS, 'audit_log a', [
    ['workspace_id', '=', filter.workspaceId],
    ['action', '=', filter.action],
    ['actor_id', '=', filter.actorId],
    ['actor_type', '=', filter.actorType],
    ['target_id', '=', filter.targetId],
    ['a.created_at', '>=', filter.createdAfter],
    ['a.created_at', '<', filter.createdBefore],
  ]);
  const page = newestFirst(query, { table: 'audit_log', alias: 'a', before: filter.before });
  return fetchRows<AuditRow>(tx, page.limit(filter.limit));
}

type SealedAuditRow = SealedContent & { hash: string };
export type SealedLink = Pick<SealedAuditRow, 'seq' | 'id' | 'hash'>;

/** Sealed rows after a position of the tenant's chain, in order. */
export async function listSealedRows(tx: Tx, page: { after: number; limit: number }): Promise<SealedAuditRow[]> {
  return tx.query<SealedAuditRow>(`select ${COLUMNS} from audit_log where seq > $1 order by seq limit $2`, [
    page.after,
    page.limit,
  ]);
}

/** The row at a position of the tenant's chain, without its content. */
export async function findSealedLink(tx: Tx, seq: number): Promise<SealedLink | undefined> {
  const [row] = await tx.query<SealedLink>('select seq, id, hash from audit_log where seq = $1', [seq]);
  return row;
}

/** The end of the tenant's chain when it was last extended. */
export async function findAuditHead(tx: Tx): Promise<ChainPlace | undefined> {
  const [row] = await tx.query<ChainPlace>('select seq, hash from audit_heads');
  return row;
}

/** The number of the tenant's unsealed rows, and the time of the oldest. */
export async function countUnsealedRows(tx: Tx): Promise<{ count: number; oldest: Date | null }> {
  const [row] = await tx.query<{ count: number; oldest: Date | null }>(
    'select count(*)::int as count, min(created_at) as oldest from audit_log where seq is null',
  );
  return row ?? { count: 0, oldest: null };
}

/** Tenants with unsealed rows, longest waiting first. */
export async function listUnsealedTenants(db: Database, limit: number): Promise<string[]> {
  const rows = await db.asMaintenance((tx) =>
    tx.query<{ tenant_id: string }>(
      'select tenant_id from audit_log where seq is null group by tenant_id order by min(created_at) limit $1',
      [limit],
    ),
  );
  return rows.map((row) => row.tenant_id);
}

/** Adds a tenant's unsealed rows to its chain; returns the new end, and how many rows were added. */
export async function sealAuditRows(
  db: Database,
  tenantId: string,
  limit: number,
): Promise<{ sealed: number; head: ChainPlace | undefined }> {
  return db.asMaintenance(async (tx) => {
    await tx.query(`insert into audit_heads (tenant_id, seq, hash) values ($1, 0, '') on conflict do nothing`, [
      tenantId,
    ]);
    // The row of the chain's head is the lock: of two sealers one skips, and the next round does the rest.
    const [head] = await tx.query<ChainPlace>(
      'select seq, hash from audit_heads where tenant_id = $1 for update skip locked',
      [tenantId],
    );
    if (!head) return { sealed: 0, head: undefined };
    const rows = await tx.query<SealedContent>(
      `select ${COLUMNS} from audit_log where tenant_id = $1 and seq is null order by created_at, id limit $2`,
      [tenantId, limit],
    );
    if (rows.length === 0) return { sealed: 0, head };
    const places = chainOnto(head, rows);
    const last = places.at(-1) ?? head;
    await tx.query(
      `update audit_log a set seq = s.seq, hash = s.hash
       from unnest($2::uuid[], $3::bigint[], $4::text[]) as s (id, seq, hash) where a.tenant_id = $1 and a.id = s.id`,
      [tenantId, rows.map(({ id }) => id), places.map(({ seq }) => seq), places.map(({ hash }) => hash)],
    );
    await tx.query('update audit_heads set seq = $2, hash = $3 where tenant_id = $1', [tenantId, last.seq, last.hash]);
    return { sealed: rows.length, head: last };
  });
}

function chainOnto(head: ChainPlace, rows: readonly SealedContent[]): ChainPlace[] {
  const places: ChainPlace[] = [];
  let { seq, hash } = head;
  for (const row of rows) {
    seq += 1;
    hash = auditHash(hash, withoutHash({ ...row, seq }));
    places.push({ seq, hash });
  }
  return places;
}

function withoutHash(row: SealedContent & { hash?: unknown }): SealedContent {
  const { hash: _hash, ...content } = row;
  return content;
}
