/** Erasures that were asked for and are not done yet, so that maintenance finishes what a process has left. */
import type { Database, Tx } from './database.ts';

export interface ErasureRow {
  kind: 'run' | 'thread';
  /** Of the run or the thread. */
  id: string;
  tenant_id: string;
  dependents: boolean;
  /** Who asked for it, as the audit log names them; empty where that is not known. */
  asked_by: object;
}

type ErasureKey = Pick<ErasureRow, 'kind' | 'id'>;

/** From one sign of life of those who are at it until somebody else goes on. */
const NEXT_DUE = `clock_timestamp() + interval '1 minute'`;

/** Adds one; where it is there already, the first who asked stays, and dependents go if either wants that. */
export async function insertErasure(tx: Tx, row: ErasureRow): Promise<void> {
  await tx.query(
    `insert into erasures as e (kind, id, tenant_id, dependents, asked_by) values ($1, $2, $3, $4, $5)
       on conflict (kind, id) do update set dependents = e.dependents or excluded.dependents, due_at = excluded.due_at`,
    [row.kind, row.id, row.tenant_id, row.dependents, JSON.stringify(row.asked_by)],
  );
}

/** Says that somebody is at it. */
export async function touchErasure(tx: Tx, { kind, id }: ErasureKey): Promise<void> {
  await tx.query(`update erasures set due_at = ${NEXT_DUE} where kind = $1 and id = $2`, [kind, id]);
}

/** Leaves the rest of it to the next round. */
export async function giveBackErasure(tx: Tx, { kind, id }: ErasureKey): Promise<void> {
  await tx.query('update erasures set due_at = clock_timestamp() where kind = $1 and id = $2', [kind, id]);
}

/** Takes one that nobody has been at for a minute, of any tenant, longest waiting first. */
export async function takeDueErasure(db: Database): Promise<ErasureRow | undefined> {
  const [row] = await db.asMaintenance((tx) =>
    tx.query<ErasureRow>(
      `update erasures set due_at = ${NEXT_DUE}
         where (kind, id) = (select kind, id from erasures where due_at <= now() order by due_at limit 1 for update skip locked)
         returning kind, id, tenant_id, dependents, asked_by`,
    ),
  );
  return row;
}

/** Removes one that is done; returns who asked for it, or undefined if it was not there. */
export async function deleteErasure(tx: Tx, { kind, id }: ErasureKey): Promise<object | undefined> {
  const [row] = await tx.query<Pick<ErasureRow, 'asked_by'>>(
    'delete from erasures where kind = $1 and id = $2 returning asked_by',
    [kind, id],
  );
  return row?.asked_by;
}

/** Removes one that is refused since other runs stand on it, unless somebody has asked to erase those, too. */
export async function deleteRefusedErasure(tx: Tx, { kind, id }: ErasureKey): Promise<void> {
  await tx.query('delete from erasures where kind = $1 and id = $2 and not dependents', [kind, id]);
}

/** Whether any of these runs is to be erased by itself, or along with one above it. It is for certain once their threads are locked. */
export async function isAnyBeingErased(tx: Tx, runIds: readonly string[]): Promise<boolean> {
  const rows = await tx.query(
    `with recursive above as (
       select id, parent_run_id from runs where id = any($1::uuid[]) union
       select r.id, r.parent_run_id from above a join runs r on r.id = a.parent_run_id)
     select from above a join erasures e on e.kind = 'run' and e.id = a.id limit 1`,
    [runIds],
  );
  return rows.length > 0;
}

/** A run of a thread that is to be erased by itself, or along with one above it, and still has its content. */
export async function findBeingErasedOn(tx: Tx, threadId: string): Promise<string | undefined> {
  const [row] = await tx.query<{ id: string }>(
    `with recursive going as (
       select id from erasures where kind = 'run' union
       select r.id from going g join runs r on r.parent_run_id = g.id)
     select r.id from going g join runs r on r.id = g.id where r.thread_id = $1 and r.erased_at is null limit 1`,
    [threadId],
  );
  return row?.id;
}
