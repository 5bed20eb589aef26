/** What the queue board reads: every turn by its state, without its content, and the workers of a queue. */
import type { Migration } from './migration.ts';

export const queueBoard: Migration = {
  name: '0021-queue-board',
  up: async (knex) => {
    await knex.raw(`
      create index turns_completed on turns (id desc) where status in ('complete', 'cancelled');
      create index turns_failed on turns (id desc) where status = 'failed';
      -- Runs that wait in the middle of a turn, apart by whether they wait for the time. No column of it changes while a run
      -- is driven.
      create index runs_dormant on runs ((coalesce(waiting_for->>'type' = 'timer', false)), id desc)
        where open_turn_id is not null and rests;

      create policy maintenance_queue_board on turns for select to drover_maintenance using (true);
      -- Neither what a turn was asked nor where its answer is.
      grant select (id, tenant_id, run_id, number, status, stop_reason, error, steps, created_at, completed_at)
        on turns to drover_maintenance;

      -- The processes with a worker for the queue: each holds a shared lock on its name, which ends with its connection.
      -- Only the owner of a session may read when it began and where it came from.
      create function queue_workers(queue text) returns table (pid integer, address text, connected_seconds integer)
      language sql stable security definer set search_path from current as $$
        select l.pid, host(a.client_addr), extract(epoch from clock_timestamp() - a.backend_start)::integer
          from pg_locks l left join pg_stat_activity a on a.pid = l.pid
          where l.locktype = 'advisory' and l.objsubid = 2 and l.granted
            and l.database = (select oid from pg_database where datname = current_database())
            and l.classid::bigint = hashtext('drover:worker')::bigint & 4294967295
            and l.objid::bigint = hashtext(queue)::bigint & 4294967295
          order by l.pid
      $$;
      revoke execute on function queue_workers(text) from public;
      grant execute on function queue_workers(text) to drover_maintenance;
    `);
  },
};
