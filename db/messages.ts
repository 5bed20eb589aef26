/** Reads a run's messages. */
import { LIMITS } from '../core/limits.ts';
import type { Tx } from './database.ts';
import { readPages, type MessageRow } from './claim-run.ts';

/**
 * Stored messages of a run, from `from` up to `length`, with their calls' outcomes as models see them. Outputs larger than
 * `shownBytes` are replaced by their address.
 */
export async function readMessages(
  tx: Tx,
  runId: string,
  { from = 0, length, shownBytes }: { from?: number; length: number; shownBytes?: number },
): Promise<MessageRow[]> {
  const [run] = await tx.query<{ tenant_id: string; id: string }>('select tenant_id, id from runs where id = $1', [
    runId,
  ]);
  if (!run) return [];
  const rest = { events_from: null, messages_from: from, messages_to: length, shown: shownBytes ?? null, calls: [] };
  const { messages } = await readPages((work) => work(tx), run, { events: [], messages: [], outcomes: {}, rest });
  return messages;
}

/** Maximum number of messages read at once for showing all of them. */
const MESSAGES_TOGETHER = 500;

/** The lineages of the conversation of the run `$1`, each with its messages. */
const SEGMENTS = `segments as (
        select (s->>'lineage')::uuid as lineage, (s->>'length')::int as upto, lag((s->>'length')::int, 1, 0) over (order by place) as since
        from runs r cross join jsonb_array_elements(
          r.lineage_base || jsonb_build_array(jsonb_build_object('lineage', r.lineage, 'length', r.length)))
          with ordinality as list (s, place) where r.id = $1)`;

/** The end of a page of a run's messages that begins at `from`: at least one message, and not many more than fit. */
export async function findPageEnd(tx: Tx, runId: string, page: { from: number; length: number }): Promise<number> {
  const most = Math.min(page.length, page.from + MESSAGES_TOGETHER);
  const [row] = await tx.query<{ beyond: number | null }>(
    `with ${SEGMENTS},
      sized as (
        select m.ordinal, sum(json_bytes(m.content)) over (order by m.ordinal) as bytes from segments g
          cross join lateral (select ordinal, content from messages where lineage = g.lineage
            and ordinal >= greatest(g.since, $2) and ordinal < least(g.upto, $3) order by ordinal) m)
     select min(ordinal) as beyond from sized where bytes > $4 and ordinal > $2`,
    [runId, page.from, most, LIMITS.streamPageBytes],
  );
  return row?.beyond ?? most;
}

/** Of a run's first messages, those that are untrusted, and the tool uses of these calls whose results are. */
export async function listUntrusted(
  tx: Tx,
  runId: string,
  { length, calls }: { length: number; calls: readonly string[] },
): Promise<{ ordinals: number[]; uses: string[] }> {
  const messages = await tx.query<{ ordinal: number }>(
    `with ${SEGMENTS} select m.ordinal from segments g join messages m on m.lineage = g.lineage
       and m.ordinal >= g.since and m.ordinal < least(g.upto, $2::int) where m.trust = 'untrusted'`,
    [runId, length],
  );
  const uses = await tx.query<{ id: string }>(
    `select tool_use_id as id from tool_calls where id = any($1::uuid[]) and trust = 'untrusted'`,
    [calls],
  );
  return { ordinals: messages.map(({ ordinal }) => ordinal), uses: uses.map(({ id }) => id) };
}
