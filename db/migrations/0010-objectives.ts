/** Requests that have become runs, by the id that their sender gave them: for as long as there is the run. */
import type { Migration } from './index.ts';

export const objectives: Migration = {
  name: '0010-objectives',
  up: async (knex) => {
    const own = "tenant_id = nullif(current_setting('drover.tenant_id', true), '')::uuid";
    await knex.raw(`
      create table objectives (
        tenant_id uuid not null,
        request_id text not null,
        body_digest text not null,
        run_id uuid,
        created_at timestamptz not null default now(),
        primary key (tenant_id, request_id)
      );
      alter table objectives enable row level security;
      alter table objectives force row level security;
      create policy tenant_isolation on objectives to drover_app using (${own}) with check (${own});
      grant select, insert, update, delete on objectives to drover_app;
    `);
  },
};
