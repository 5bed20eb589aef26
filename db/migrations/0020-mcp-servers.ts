/** Where the tools of a tenant have MCP servers: what a suspension stops as one. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

export const mcpServers: Migration = {
  name: '0020-mcp-servers',
  up: async (knex) => {
    await knex.raw(`
      create table mcp_servers (
        id uuid primary key,
        tenant_id uuid not null references tenants,
        -- SHA-256 over the address
        digest text not null,
        -- a transport's type, and its endpoint or its program: neither credentials nor the tool
        address jsonb not null,
        suspended_at timestamptz,
        created_at timestamptz not null default now(),
        unique (tenant_id, digest)
      );
      ${tenantTable('mcp_servers')}
    `);
  },
};
