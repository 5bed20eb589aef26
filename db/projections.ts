/** A run's stored projections, for rebuilding them. */
import type { Columns, Projection } from '../core/projections/projection.ts';
import type { Tx } from './database.ts';

/** A page of the tenant's runs that have a log. */
export async function listLoggedRuns(
  tx: Tx,
  page: { after: string; limit: number },
): Promise<{ run_id: string; workspace_id: string }[]> {
  return tx.query(
    'select distinct on (run_id) run_id, workspace_id from run_log where run_id > $1 order by run_id limit $2',
    [page.after, page.limit],
  );
}

/** Locks the run's row, so that nobody commits to it until the transaction ends. */
export async function lockRunRow(tx: Tx, runId: string): Promise<void> {
  await tx.query('select from runs where id = $1 for update', [runId]);
}

/** A run's rows of a projection as JSON: times in RFC 3339, money as decimal strings without trailing zeros. */
export async function readRows(tx: Tx, { table, key, columns }: Projection, runId: string): Promise<Columns[]> {
  const money = columns.includes('cost_usd') ? ` || jsonb_build_object('cost_usd', trim_scale(t.cost_usd)::text)` : '';
  const rows = await tx.query<{ row: Columns }>(
    `select to_jsonb(t)${money} as row from ${table} t where ${ownerOf(table)} = $1 order by ${key}`,
    [runId],
  );
  return rows.map(({ row }) => row);
}

/** Updates the columns of an existing row that the log defines. */
export async function updateRow(tx: Tx, { table, key, columns }: Projection, row: Columns): Promise<void> {
  const assignments = columns.map((column) => `${column} = n.${column}`);
  await tx.query(
    `update ${table} t set ${assignments.join(', ')} from jsonb_populate_record(null::${table}, $1::jsonb) n
       where t.${ownerOf(table)} = n.${ownerOf(table)} and t.${key} = n.${key}`,
    [JSON.stringify(row)],
  );
}

/** Inserts a missing row, with those columns not defined by the log that can be reconstructed. */
export async function insertRow(tx: Tx, { table, columns, unlogged }: Projection, row: Columns): Promise<void> {
  const names = [...columns, ...unlogged].join(', ');
  await tx.query(
    `insert into ${table} (${names}) select ${names}
       from jsonb_populate_record(null::${table}, $1::jsonb || ${UNLOGGED[table] ?? `'{}'`}) n`,
    [JSON.stringify(row)],
  );
}

/** Deletes a row that does not follow from the log. */
export async function deleteRow(tx: Tx, { table, key }: Projection, row: Columns): Promise<void> {
  const owner = ownerOf(table);
  await tx.query(`delete from ${table} where ${owner} = $1 and ${key} = $2`, [row[owner], row[key]]);
}

/** Columns of a reinserted row that the log does not define, as JSON, from the row `$1`. */
const UNLOGGED: Record<string, string> = {
  runs: `(select jsonb_build_object('last_seq', e.seq, 'updated_at', e.occurred_at, 'fence', 0, 'lost_leases', 0, 'dormant', false,
      'output_bytes', (select coalesce(sum(k.output_bytes), 0) from tool_calls k where k.run_id = e.run_id),
      'thread_place', coalesce($1::jsonb->'thread_place', (select to_jsonb(count(*) + 1) from runs o
        where o.thread_id = ($1::jsonb->>'thread_id')::uuid and o.created_at < ($1::jsonb->>'created_at')::timestamptz)))
    from run_events e where e.run_id = ($1::jsonb->>'id')::uuid order by e.commit_seq desc, e.seq desc limit 1)`,
  turns: `jsonb_build_object('agent_id', (select r.agent_id from runs r where r.id = ($1::jsonb->>'run_id')::uuid))`,
  // It is expired, and takes its arguments from the ledger; the model's original ones, before a person's edit, from the
  // conversation.
  approvals: `(select jsonb_build_object('expires_at', now(),
      'arguments', coalesce(k.arguments, $1::jsonb->'arguments', steps_of($1::jsonb->'calls')),
      'original_arguments', case when ($1::jsonb->>'edited')::boolean then (select b->'input'
        from messages m, jsonb_array_elements(m.content) b
        where m.run_id = k.run_id and b->>'type' = 'tool_use' and b->>'id' = k.tool_use_id limit 1) end)
    from (select) asked left join tool_calls k on k.id = ($1::jsonb->>'tool_call_id')::uuid)`,
};

function ownerOf(table: string): 'id' | 'run_id' {
  return table === 'runs' ? 'id' : 'run_id';
}
