/** Complete outputs of tool calls, read one at a time, and splitting of those stored in one piece. */
import { outputColumns } from '../core/tool-output.ts';
import type { Trust } from '../core/origin.ts';
import type { Database, Tx } from './database.ts';

/** Whether the output of call `k` is large and not split yet. */
export const IS_WHOLE = '(k.model_output is null and coalesce(k.output_bytes, 0) > 1048576)';

/** The complete output of a call; null if it has none. */
export async function readWholeOutput(tx: Tx, callId: string): Promise<unknown> {
  const [row] = await tx.query<{ output: unknown }>('select output from tool_calls where id = $1', [callId]);
  return row?.output ?? null;
}

/** A piece of a complete output as JSON text, starting at a character (from 0); undefined if the call's output has changed. */
export async function readOutputPiece(
  tx: Tx,
  call: { id: string; output_bytes: number | null },
  piece: { from: number; chars: number },
): Promise<string | undefined> {
  const [row] = await tx.query<{ piece: string }>(
    `select substr(coalesce(output, 'null')::text, $3 + 1, $4) as piece from tool_calls
     where id = $1 and output_bytes is not distinct from $2`,
    [call.id, call.output_bytes, piece.from, piece.chars],
  );
  return row?.piece;
}

/** `in_sight`: calls with the id `$2` in the conversation of run `$1`, including its thread and what it was forked from. */
const CALLS_IN_SIGHT = `with recursive origins as (
    select id, thread_id, forked_from_run_id, 1 as depth from runs where id = $1
    union all
    select r.id, r.thread_id, r.forked_from_run_id, o.depth + 1
    from origins o join runs r on r.id = o.forked_from_run_id where o.depth < 100),
  in_sight as (
    select c.* from tool_calls c
    where c.run_id in (select r.id from runs r where r.thread_id in (select thread_id from origins)) and c.tool_use_id = $2)`;

/**
 * A piece of the output of the latest call with this id in a run's conversation: text as it is, otherwise JSON. Undefined if
 * there is no such output.
 */
export async function readOutputOfUse(
  tx: Tx,
  call: { runId: string; toolUseId: string },
  piece: { from: number; chars: number },
): Promise<{ text: string; trust: Trust | null } | undefined> {
  const [row] = await tx.query<{ text: string; trust: Trust | null }>(
    `${CALLS_IN_SIGHT}
     select c.trust, substr(case jsonb_typeof(c.output) when 'string' then c.output #>> '{}' else c.output::text end, $3 + 1, $4) as text
     from in_sight c where c.output is not null
     order by c.created_at desc, c.id desc limit 1`,
    [call.runId, call.toolUseId, piece.from, piece.chars],
  );
  return row;
}

/** The tool of the latest call with this id in a run's conversation whose output links to the resource. */
export async function findLinkingCall(
  tx: Tx,
  link: { runId: string; toolUseId: string; uri: string },
): Promise<{ id: string; version: string } | undefined> {
  const [row] = await tx.query<{ id: string; version: string }>(
    `${CALLS_IN_SIGHT}
     select c.tool_id as id, c.tool_version as version from in_sight c
     where c.tool_id is not null and jsonb_typeof(c.output) = 'object' and jsonb_path_exists(
       c.output, '$.content[*] ? (@.type == "resource_link" && @.uri == $uri)', jsonb_build_object('uri', $3::text))
     order by c.created_at desc, c.id desc limit 1`,
    [link.runId, link.toolUseId, link.uri],
  );
  return row;
}

/** Calls with a large output whose part for the model is not stored separately. */
export async function listUnsplitCalls(db: Database, limit: number): Promise<{ tenant_id: string; id: string }[]> {
  return db.asMaintenance((tx) =>
    tx.query(
      `select tenant_id, id from tool_calls where output_bytes > 1048576 and model_output is null order by id limit $1`,
      [limit],
    ),
  );
}

/** Stores the model's part of a call's output separately. */
export async function splitOutput(db: Database, call: { tenant_id: string; id: string }): Promise<void> {
  await db.withTenant(call.tenant_id, async (tx) => {
    const [row] = await tx.query<{ output: unknown }>('select output from tool_calls where id = $1 for update', [
      call.id,
    ]);
    const { model_output, output_bytes } = outputColumns(row?.output ?? null);
    // Also the size: a row from elsewhere may state one that is too large, and would be found again and again.
    await tx.query('update tool_calls set model_output = $2::jsonb, output_bytes = $3 where id = $1', [
      call.id,
      model_output && JSON.stringify(model_output),
      output_bytes,
    ]);
  });
}
