/** What clients keep with turns has a table of its own: no log says it, and the rows of turns are made anew from logs. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

export const extrasBesideTurns: Migration = {
  name: '0131-extras-beside-turns',
  up: async (knex) => {
    await knex.raw(`
      create table turn_extras (
        turn_id uuid primary key,
        tenant_id uuid not null,
        run_id uuid not null,
        extras jsonb not null
      );
      ${tenantTable('turn_extras')}
      create index turn_extras_run on turn_extras (run_id);

      -- Row level security is forced on the owner, too, and would show it no row.
      alter table turns no force row level security;
      alter table turn_extras no force row level security;
      insert into turn_extras (turn_id, tenant_id, run_id, extras) select id, tenant_id, run_id, extras from turns where extras <> '{}';
      alter table turns force row level security;
      alter table turn_extras force row level security;
      alter table turns drop column extras;
    `);
  },
};
