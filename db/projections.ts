/** The stored projections of one run beside its log, for those who rebuild them. */
import type { Tx } from './database.ts';

type Columns = Record<string, unknown>;

/** Rows as JSON: times as RFC 3339 strings, money as a decimal string without trailing zeros. */
export interface StoredRows {
  run: Columns | null;
  turns: Columns[];
  approvals: Columns[];
  policy_decisions: Columns[];
  plans: Columns[];
}

/** A page of the runs that have a log, of the tenant of the transaction. */
export async function listLoggedRuns(
  tx: Tx,
  page: { after: string; limit: number },
): Promise<{ run_id: string; workspace_id: string }[]> {
  return tx.query(
    'select run_id, workspace_id from run_events where seq = 1 and run_id > $1 order by run_id limit $2',
    [page.after, page.limit],
  );
}

/** Holds the run's row, so that nobody commits to it until the transaction ends. */
export async function readStoredRows(tx: Tx, runId: string): Promise<StoredRows> {
  const rows = async (text: string) => (await tx.query<{ row: Columns }>(text, [runId])).map(({ row }) => row);
  const asJson = (alias: string) =>
    `to_jsonb(${alias}) || jsonb_build_object('cost_usd', trim_scale(${alias}.cost_usd)::text) as row`;
  const [run = null] = await rows(`select ${asJson('r')} from runs r where id = $1 for update`);
  return {
    run,
    turns: await rows(`select ${asJson('t')} from turns t where run_id = $1 order by number`),
    approvals: await rows('select to_jsonb(a) as row from approvals a where run_id = $1 order by id'),
    plans: await rows('select to_jsonb(p) as row from plans p where run_id = $1 order by id'),
    policy_decisions: await rows('select to_jsonb(d) as row from policy_decisions d where run_id = $1 order by seq'),
  };
}

/** Writes the projected columns of a run; `operational` are those of a row that has to be made anew. */
export async function writeRun(tx: Tx, run: Columns, operational: Columns): Promise<void> {
  const columns = await columnsOf(tx, 'runs', run);
  const assignments = columns.map((column) => `${column} = n.${column}`);
  const updated = await tx.query(
    `update runs r set ${assignments.join(', ')} from jsonb_populate_record(null::runs, $1::jsonb) n
       where r.id = n.id returning r.id`,
    [JSON.stringify(run)],
  );
  if (updated.length > 0) return;
  await tx.query('insert into runs select * from jsonb_populate_record(null::runs, $1::jsonb)', [
    JSON.stringify({ ...run, ...operational }),
  ]);
}

export async function replaceTurns(tx: Tx, runId: string, turns: readonly Columns[]): Promise<void> {
  await tx.query('delete from turns where run_id = $1', [runId]);
  await tx.query('insert into turns select * from jsonb_populate_recordset(null::turns, $1::jsonb)', [
    JSON.stringify(turns),
  ]);
}

export async function replacePolicyDecisions(tx: Tx, runId: string, decisions: readonly Columns[]): Promise<void> {
  await tx.query('delete from policy_decisions where run_id = $1', [runId]);
  await tx.query(
    'insert into policy_decisions select * from jsonb_populate_recordset(null::policy_decisions, $1::jsonb)',
    [JSON.stringify(decisions)],
  );
}

export async function replacePlans(tx: Tx, runId: string, plans: readonly Columns[]): Promise<void> {
  await tx.query('delete from plans where run_id = $1', [runId]);
  await tx.query('insert into plans select * from jsonb_populate_recordset(null::plans, $1::jsonb)', [
    JSON.stringify(plans),
  ]);
}

/**
 * Writes an approval; one that has to be made anew has expired, and takes its arguments from the ledger, and from the
 * conversation what the model had asked for before a person edited them.
 */
export async function writeApproval(tx: Tx, approval: Columns): Promise<void> {
  const values = [JSON.stringify(approval)];
  const columns = (await columnsOf(tx, 'approvals', approval)).map((column) => `${column} = n.${column}`);
  const updated = await tx.query(
    `update approvals a set ${columns.join(', ')} from jsonb_populate_record(null::approvals, $1::jsonb) n
       where a.id = n.id returning a.id`,
    values,
  );
  if (updated.length > 0) return;
  await tx.query(
    `insert into approvals select (jsonb_populate_record(null::approvals,
       $1::jsonb || jsonb_build_object('arguments', coalesce(k.arguments, $1::jsonb->'arguments', steps_of($1::jsonb->'calls')),
         'original_arguments', case when ($1::jsonb->>'edited')::boolean then (select b->'input'
           from messages m, jsonb_array_elements(m.content) b
           where m.run_id = k.run_id and b->>'type' = 'tool_use' and b->>'id' = k.tool_use_id limit 1) end,
         'expires_at', now()))).*
     from (select) asked left join tool_calls k on k.id = ($1::jsonb->>'tool_call_id')::uuid`,
    values,
  );
}

async function columnsOf(tx: Tx, table: string, row: Columns): Promise<string[]> {
  const rows = await tx.query<{ name: string }>(
    'select attname as name from pg_attribute where attrelid = $1::regclass and attnum > 0 and not attisdropped',
    [table],
  );
  return rows.map(({ name }) => name).filter((name) => name in row);
}
