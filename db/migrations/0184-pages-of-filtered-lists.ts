/** The audit log is listed by the database's clock, with each of its filters; deliveries of a webhook by their status, too. */
import type { Migration } from './migration.ts';

export const pagesOfFilteredLists: Migration = {
  name: '0184-pages-of-filtered-lists',
  up: async (knex) => {
    await knex.raw(`
      create index audit_log_newest on audit_log (tenant_id, created_at desc, id desc);
      create index audit_log_newest_of_action on audit_log (tenant_id, action, created_at desc, id desc);
      create index audit_log_newest_of_actor on audit_log (tenant_id, actor_id, created_at desc, id desc);
      create index audit_log_newest_of_target on audit_log (tenant_id, target_id, created_at desc, id desc);
      drop index audit_log_page;
      drop index audit_log_action;
      drop index audit_log_actor;
      create index webhook_deliveries_by_status on webhook_deliveries (webhook_id, status, created_at desc, id desc);
    `);
  },
};
