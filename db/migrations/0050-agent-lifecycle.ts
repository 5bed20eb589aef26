/** Heartbeats of agents, and which of them have lapsed. */
import type { Migration } from './migration.ts';

export const agentLifecycle: Migration = {
  name: '0050-agent-lifecycle',
  up: async (knex) => {
    await knex.raw(`
      -- Since it lapsed, one after the other.
      alter table agents add column heartbeats integer not null default 0;
      alter table agents add column offline_since timestamptz;
      create index agents_beating on agents (last_heartbeat_at) where last_heartbeat_at is not null and status in ('active', 'idle');
      create index agents_offline on agents (offline_since) where status = 'offline';
      create index agents_by_status on agents (tenant_id, status);
    `);
  },
};
