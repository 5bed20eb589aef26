/** Acts of maintenance: when each is due, and which process does it. */
import type { Database } from './database.ts';

/**
 * What there is where an act of every second or every five has something to do, perhaps more: a look at an index each.
 * Acts without an entry always may have. `now()`, since no index is searched by a time that changes during a statement.
 */
const HAS_WORK: Readonly<Record<string, string>> = {
  'expire-approvals': `exists (select from approvals where status = 'pending' and expires_at <= now())`,
  'end-waits': 'exists (select from waits where closed_at is null and until <= now())',
  'end-tasks': `exists (select from tasks where deadline <= now()
    and status in ('pending', 'assigned', 'in_progress', 'awaiting_handoff'))`,
  'lapse-agents': `exists (select from agents where last_heartbeat_at is not null and status in ('active', 'idle'))
    or exists (select from agents where status = 'offline')`,
  'carry-handoffs': 'exists (select from handoffs where completed_at is null)',
  'wake-parked': 'exists (select from parked_runs)',
  'title-threads': 'exists (select from due_titles where due_at <= now())',
  'send-webhooks': `exists (select from webhook_deliveries where status = 'pending' and next_at <= now())`,
  'sweep-outbox': 'exists (select from outbox where not_before is null or not_before <= now())',
  'seal-audit': 'exists (select from audit_log where seq is null)',
  'embed-skills': 'exists (select from skills where tried_at is null)',
  'settle-budgets': 'exists (select from reservations where not rolled_up)',
  'roll-up-usage': `exists (select from runs where not rolled_up and status in ('completed', 'failed', 'cancelled'))`,
  'finish-erasures': 'exists (select from erasures where due_at <= now())',
};

const CLAIM_DUE = `with due as (
    update maintenance_acts m set due_at = clock_timestamp() + ($1::jsonb->>m.act)::int * interval '1 ms'
      where m.act in (select act from maintenance_acts
        where due_at <= clock_timestamp() and $1::jsonb ? act for update skip locked)
      returning m.act)
  select act, case act
    ${Object.entries(HAS_WORK)
      .map(([act, condition]) => `when '${act}' then ${condition}`)
      .join('\n    ')}
    else true end as is_busy from due`;

export interface ClaimedAct<A extends string> {
  act: A;
  /** Whether it may have something to do. */
  is_busy: boolean;
}

/** Claims the acts that are due, and sets their next time; `everyMs`: the acts known to this build. One round trip. */
export async function claimDueActs<A extends string>(
  db: Database,
  everyMs: Record<A, number>,
): Promise<ClaimedAct<A>[]> {
  return db.asMaintenance((tx) => tx.query<ClaimedAct<A>>(CLAIM_DUE, [JSON.stringify(everyMs)]));
}

/** Makes claimed acts that were not sent due again at once. */
export async function giveBackActs(db: Database, acts: readonly string[]): Promise<void> {
  await db.asMaintenance((tx) =>
    tx.query('update maintenance_acts set due_at = clock_timestamp() where act = any($1::text[])', [acts]),
  );
}

/** Claims an act early, unless it was claimed within `recentMs`, so that only one of many starting processes does it. */
export async function claimEarly(
  db: Database,
  { act, everyMs, recentMs }: { act: string; everyMs: number; recentMs: number },
): Promise<boolean> {
  const claimed = await db.asMaintenance((tx) =>
    tx.query(
      `insert into maintenance_acts as m (act, due_at) values ($1, clock_timestamp() + $2 * interval '1 ms')
         on conflict (act) do update set due_at = excluded.due_at where m.due_at < excluded.due_at - $3 * interval '1 ms'
         returning m.act`,
      [act, everyMs, recentMs],
    ),
  );
  return claimed.length > 0;
}

/** Inserts acts not known to the database yet; they are due at once. */
export async function addActs(db: Database, acts: readonly string[]): Promise<void> {
  await db.asMaintenance((tx) =>
    tx.query(
      `insert into maintenance_acts select act, clock_timestamp() from unnest($1::text[]) act on conflict do nothing`,
      [acts],
    ),
  );
}

/** How many seconds the first of these acts is overdue, by database time; 0 if none is. */
export async function readOverdueSeconds(db: Database, acts: readonly string[]): Promise<number> {
  const [row] = await db.asMaintenance((tx) =>
    tx.query<{ seconds: number }>(
      `select coalesce(extract(epoch from greatest(max(clock_timestamp() - due_at), interval '0')), 0)::float8 as seconds
         from maintenance_acts where act = any($1::text[])`,
      [acts],
    ),
  );
  return row?.seconds ?? 0;
}
