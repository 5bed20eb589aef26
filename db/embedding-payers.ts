/** Who pays for embeddings, where only a run, an agent or a space is named. */
import type { RunRow } from './claim-run.ts';
import type { Tx } from './database.ts';

interface Named {
  workspaceId?: string | undefined;
  runId?: string | undefined;
  agentId?: string | undefined;
  spaceId?: string | undefined;
}

export interface PayerRow {
  /** If nothing that is named has one, the tenant's first. */
  workspace_id: string;
  run: Pick<RunRow, 'id' | 'root_run_id' | 'depth' | 'config'> | null;
}

/** The workspace that pays, and the run. One round trip. */
export async function findPayer(tx: Tx, named: Named): Promise<PayerRow | undefined> {
  const [row] = await tx.query<PayerRow>(
    `select coalesce($1, r.workspace_id, a.workspace_id, s.workspace_id,
         (select id from workspaces order by created_at, id limit 1)) as workspace_id,
       case when r.id is not null then jsonb_build_object('id', r.id, 'root_run_id', r.root_run_id, 'depth', r.depth, 'config', r.config) end as run
     from (values ($1::uuid, $2::uuid, $3::uuid, $4::uuid)) named (workspace, run, agent, space)
     left join runs r on r.id = named.run left join agents a on a.id = named.agent
     left join memory_spaces s on s.id = named.space`,
    [named.workspaceId ?? null, named.runId ?? null, named.agentId ?? null, named.spaceId ?? null],
  );
  return row;
}
