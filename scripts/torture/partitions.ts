/** Stresses the partitioned tables during a torture: a dump holds its locks, and time crosses a boundary. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Probe } from './probe.ts';

const PARTITIONED = ['run_log', 'messages', 'checkpoints'];

/**
 * Splits the current partitions, so that runs with ids from before and after `atMs` (wall clock) are in different ones.
 * Must be called before there are runs.
 */
export async function drawBoundary({ database }: Probe, atMs: number): Promise<void> {
  const boundary = uuidAt(atMs);
  await database.asOwner(async (client) => {
    for (const parent of PARTITIONED) {
      const { rows } = await client.query<{ part: string; low: string; high: string }>(
        `select c.relname as part, b[1] as low, b[2] as high from pg_inherits i join pg_class c on c.oid = i.inhrelid,
           regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \\(''(.*?)''\\) TO \\(''(.*?)''\\)') b
         where i.inhparent = $1::regclass and $2::uuid >= b[1]::uuid and $2::uuid < b[2]::uuid`,
        [parent, boundary],
      );
      const [now] = rows;
      if (!now) throw new Error(`${parent} has no partition of the present`);
      const before = `for values from ('${now.low}') to ('${boundary}')`;
      const after = `for values from ('${boundary}') to ('${now.high}')`;
      await client.query(`begin;
        alter table ${parent} detach partition ${now.part};
        alter table ${parent} attach partition ${now.part} ${before};
        create table ${parent}_after partition of ${parent} ${after};
        commit`);
    }
  });
}

/** Holds the locks of `pg_dump` for `forMs`, while maintenance finds a partition missing. */
export async function dump({ database }: Probe, forMs: number): Promise<string> {
  await database.asOwner(async (client) => {
    await client.query(`do $$ begin
      execute format('drop table %s', (select inhrelid::regclass from pg_inherits where inhparent = 'run_log'::regclass
        and inhrelid::regclass::text like '%from%' order by inhrelid::regclass::text collate "C" desc limit 1)); end $$`);
    await client.query(`update maintenance_acts set due_at = now() where act = 'make-partitions'`);
    await client.query('begin isolation level repeatable read');
    const { rows } = await client.query<{ name: string }>(
      `select format('%I', relname) as name from pg_class where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace`,
    );
    await client.query(`lock table ${rows.map(({ name }) => name).join(', ')} in access share mode`);
    await delay(forMs);
    await client.query('rollback');
  });
  return `for ${forMs} ms`;
}

/** The smallest UUIDv7 of that time. */
function uuidAt(atMs: number): string {
  const hex = Math.floor(atMs).toString(16).padStart(12, '0').padEnd(32, '0');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
