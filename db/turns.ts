/** Reads turns, with their model calls and graph nodes. */
import type { StoredBlock } from '../core/content.ts';
import type { TurnInput } from '../core/events.ts';
import type { TokenUsage } from '../core/model.ts';
import type { Reading } from '../core/output-format.ts';
import { bytesOf } from '../core/tool-output.ts';
import type { Tx } from './database.ts';
import { pageOfSized, untilFull, type Page, type Sized } from './page-bytes.ts';

export interface TurnRow {
  id: string;
  run_id: string;
  number: number;
  status: 'running' | 'complete' | 'awaiting_tool' | 'awaiting_human' | 'failed' | 'cancelled';
  input: TurnInput;
  output: StoredBlock[] | null;
  /** How to read the value of an answer that had to fit a schema. */
  structured: Reading | null;
  stop_reason: string | null;
  error: { code: string; message: string } | null;
  checkpoint_id: string | null;
  steps: number;
  tokens_in: number;
  tokens_out: number;
  cost_usd: string | null;
  created_at: Date;
  completed_at: Date | null;
  /** What the model had said when the turn was cancelled or failed; not read while somebody waits for the turn. */
  partial?: string | null;
}

const TURN = `t.id, t.run_id, t.number, t.status, t.input, t.structured, t.stop_reason, t.error, t.checkpoint_id, t.steps, t.tokens_in,
    t.tokens_out, t.cost_usd, t.created_at, t.completed_at, m.content as output`;

const SIZED_TURN = `${TURN}, json_bytes(t.input) + coalesce(json_bytes(m.content), 0) as bytes`;

const TABLES = `turns t join runs r on r.id = t.run_id
  left join messages m on m.lineage = r.lineage and m.ordinal = t.output_ordinal`;

/** A turn without `partial` (see `wasCutOff`). One statement. */
export async function findTurnRow(tx: Tx, runId: string, turnId: string): Promise<TurnRow | undefined> {
  const [row] = await tx.query<TurnRow>(`select ${TURN} from ${TABLES} where t.run_id = $1 and t.id = $2`, [
    runId,
    turnId,
  ]);
  return row;
}

/** Whether the turn ended without an answer, so that it may have a `partial`. */
export const wasCutOff = ({ status, output }: Pick<TurnRow, 'status' | 'output'>) =>
  !output && (status === 'cancelled' || status === 'failed');

export async function findTurn(tx: Tx, runId: string, turnId: string): Promise<TurnRow | undefined> {
  const row = await findTurnRow(tx, runId, turnId);
  const [turn] = row ? await withPartials(tx, [row]) : [];
  return turn;
}

/** Adds `partial` to turns that were cut off; queries only if there are some. */
export async function withPartials<T extends Pick<TurnRow, 'id' | 'status' | 'output'>>(
  tx: Tx,
  turns: readonly T[],
): Promise<(T & { partial?: string | null })[]> {
  const ids = turns.filter(wasCutOff).map(({ id }) => id);
  const partials = ids.length > 0 ? await listPartials(tx, ids) : new Map<string, string>();
  return turns.map((turn) => ({ ...turn, partial: partials.get(turn.id) ?? null }));
}

/** Partial texts by turn. A cancelled turn's may be logged after the next turn has begun. */
async function listPartials(tx: Tx, turnIds: readonly string[]): Promise<Map<string, string>> {
  const rows = await tx.query<{ turn_id: string; partial: string }>(
    `with begun as materialized (
       select run_id, min(coalesce(started_seq, 0)) as seq from turns where id = any($1::uuid[]) group by run_id)
     select distinct on (e.turn_id) e.turn_id, e.payload->>'partial' as partial
       from begun join run_events e on e.run_id = begun.run_id and e.commit_seq >= begun.seq
      where e.turn_id = any($1::uuid[]) and e.type = 'model.failed' and e.payload->'partial' is not null
      order by e.turn_id, e.commit_seq desc, e.seq desc`,
    [turnIds],
  );
  return new Map(rows.map(({ turn_id: id, partial }) => [id, partial]));
}

/** A page of a run's turns, oldest first. */
export async function listTurns(
  tx: Tx,
  runId: string,
  page: { after?: number | undefined; metadata?: Record<string, string> | undefined; limit: number },
): Promise<Page<TurnRow>> {
  const turns = `select ${SIZED_TURN} from ${TABLES} where t.run_id = $1 and t.number > $2
    and ($4::jsonb is null or t.input->'metadata' @> $4::jsonb) order by t.number limit $3`;
  const metadata = page.metadata ? JSON.stringify(page.metadata) : null;
  const values = [runId, page.after ?? 0, page.limit + 1, metadata];
  const { rows, more } = pageOfSized(await tx.query<TurnRow & Sized>(untilFull(turns, 'number'), values), page.limit);
  const shown = pageOfSized((await withPartials(tx, rows)).map(withItsSize), page.limit);
  return { rows: shown.rows, more: more || shown.more };
}

function withItsSize<T extends Sized & { partial?: string | null }>(turn: T): T {
  return { ...turn, bytes: turn.bytes + bytesOf(turn.partial ?? '') };
}

/** The last turns of a run that fit on a page, oldest first, with their sizes. */
export async function listLastTurns(tx: Tx, runId: string, limit: number): Promise<(TurnRow & Sized)[]> {
  const turns = `select ${SIZED_TURN} from ${TABLES} where t.run_id = $1 order by t.number desc limit $2`;
  const rows = await tx.query<TurnRow & Sized>(untilFull(turns, 'number desc'), [runId, limit]);
  return pageOfSized(rows, limit).rows.toReversed();
}

export interface ModelCallRow {
  step: number;
  provider: string;
  model: string;
  stop_reason: string;
  tokens_in: number;
  tokens_out: number;
  usage: TokenUsage;
  recorded: boolean;
  cost_usd: string | null;
  latency_ms: number;
  created_at: Date;
  content: StoredBlock[] | null;
}

export async function listModelCalls(tx: Tx, runId: string, turnId: string): Promise<ModelCallRow[]> {
  return tx.query<ModelCallRow>(
    `select c.step, c.provider, c.model, c.stop_reason, c.tokens_in, c.tokens_out, c.usage, c.recorded, c.cost_usd, c.latency_ms,
       c.created_at, m.content
     from llm_calls c left join messages m on m.lineage = c.lineage and m.ordinal = c.length
     where c.run_id = $1 and c.turn_id = $2 order by c.seq`,
    [runId, turnId],
  );
}

/** The graph nodes that a turn has entered, in order, each with the step that follows. */
export async function listEnteredNodes(
  tx: Tx,
  runId: string,
  turnId: string,
): Promise<{ node: string; step: number }[]> {
  return tx.query(
    `select payload->>'node' as node, step from run_events
     where run_id = $1 and turn_id = $2 and type = 'node.entered' order by commit_seq, seq`,
    [runId, turnId],
  );
}
