/** The protection of a tenant's tables, the same for every migration that makes one. */

const TENANT = "nullif(current_setting('drover.tenant_id', true), '')::uuid";

/** Row level security, forced on the owner too: `drover_app` meets the tenant that is set, and nothing where none is. */
export function isolate(table: string, column = 'tenant_id'): string {
  return `
    alter table ${table} enable row level security;
    alter table ${table} force row level security;
    create policy tenant_isolation on ${table} to drover_app using (${column} = ${TENANT}) with check (${column} = ${TENANT});`;
}

/** The same, with what the service may do; a table that is only appended to has `select, insert`. */
export function tenantTable(table: string, rights = 'select, insert, update, delete'): string {
  return `${isolate(table)}
    grant ${rights} on ${table} to drover_app;`;
}
