/** Files and their contents, as tests read and change them. */
import { rows, type Tenant } from './access.ts';

/** Contents that are being written, or are to be deleted. */
export function unstoredContents(tenant: Tenant): Promise<{ id: string; state: string }[]> {
  return rows(tenant, `select id, state from file_contents where state <> 'stored'`);
}

/** As if somebody had begun to write contents so many hours ago. */
export async function addUnwrittenContent(tenant: Tenant, id: string, hours: number): Promise<void> {
  await rows(
    tenant,
    `insert into file_contents (id, tenant_id, state, changed_at) values ($1, $2, 'writing', now() - $3 * interval '1 hour')`,
    id,
    tenant.tenantId,
    hours,
  );
}

/** As if a run had made one file and used them all, two hours ago. */
export async function useFiles(tenant: Tenant, run: string, of: { made: string; used: string[] }): Promise<void> {
  await rows(tenant, 'update files set run_id = $1 where id = $2', run, of.made);
  await rows(
    tenant,
    `insert into file_uses (tenant_id, run_id, file_id, created_at)
       select tenant_id, $1, id, now() - interval '2 hours' from files where id = any($2)`,
    run,
    of.used,
  );
}

/** Contents that no file has, and files and uses of runs that there are not. */
export function strayFiles(tenant: Tenant): Promise<object[]> {
  return rows(
    tenant,
    `select 'content' as what from file_contents where state <> 'stored'
       union all select 'file' from files where run_id not in (select id from runs)
       union all select 'use' from file_uses where run_id not in (select id from runs)`,
  );
}

/** As if it had been stored before anybody looked whether its text is UTF-8. */
export async function forgetUtf8(tenant: Tenant, file: string): Promise<void> {
  await rows(tenant, 'update files set is_utf8 = null where id = $1', file);
}
