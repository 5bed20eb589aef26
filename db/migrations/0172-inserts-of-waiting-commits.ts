/**
 * A commit of a process of before that waits while `0171-log-of-commits` makes a view of the table goes on with the statement
 * that it was made for, an insert into `run_events`: the view takes it for the table. Of use only while processes of 0.1.0 may run
 * beside the migrated schema.
 */
import type { Knex } from 'knex';
import type { Migration } from './migration.ts';

export const insertsOfWaitingCommits: Migration = {
  name: '0172-inserts-of-waiting-commits',
  up: takeInserts,
};

/** Does nothing where it is done: a new installation has it from the transaction that makes the view. */
export async function takeInserts(knex: Knex): Promise<void> {
  await knex.raw(`
    create or replace function insert_run_event() returns trigger language plpgsql as $$
    begin
      insert into run_log (tenant_id, workspace_id, run_id, seq, turn_id, step, type, schema_version, actor, payload, occurred_at)
        values (new.tenant_id, new.workspace_id, new.run_id, new.seq, new.turn_id, new.step, new.type, new.schema_version, new.actor,
          new.payload, new.occurred_at);
      return new;
    end $$;
    create or replace trigger insert_run_event instead of insert on run_events for each row execute function insert_run_event();
    grant insert on run_events to drover_app;
  `);
}
