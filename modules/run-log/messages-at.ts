/** A conversation at an earlier position of its run: later changes in the ledger are hidden. */
import { isSettled, type RunState } from '../../core/state.ts';
import { listLearnedAfter } from '../../db/checkpoints.ts';
import { findPageEnd, readMessages } from '../../db/messages.ts';
import type { Database, Tx } from '../../db/database.ts';
import type { CallOutcome, MessageRow } from '../../db/claim-run.ts';

/** The part of a run's position that determines which results existed. */
type PositionOfRun = Pick<RunState, 'seq' | 'length' | 'calls'>;

/**
 * The messages up to a position of a run, in pages, with the results of that time; large results are replaced by their
 * address. Each page is a separate transaction.
 */
export async function* readMessagesAt(
  db: Database,
  { tenantId, runId }: { tenantId: string; runId: string },
  at: PositionOfRun & { shownBytes: number },
): AsyncGenerator<MessageRow[]> {
  const { length, shownBytes } = at;
  for (let from = 0; from < length;) {
    const { rows, to } = await db.withTenant(tenantId, async (tx) => {
      const end = await findPageEnd(tx, runId, { from, length });
      const messages = await readMessages(tx, runId, { from, length: end, shownBytes });
      return { rows: await asOf(tx, runId, { messages, at }), to: end };
    });
    yield rows;
    from = to;
  }
}

/** Messages as they stood at a position of a run. */
export async function asOf(
  tx: Tx,
  runId: string,
  { messages, at }: { messages: readonly MessageRow[]; at: PositionOfRun },
): Promise<MessageRow[]> {
  const calls = messages.flatMap(({ outcomes }) => Object.keys(outcomes ?? {}));
  return outcomesAt(messages, at, await listLearnedAfter(tx, runId, { seq: at.seq, calls }));
}

const UNKNOWN: CallOutcome = { status: 'unknown', output: null, is_error: true };

/** Messages with the outcomes at a position; `learnedLater`: calls whose unknown outcome was clarified after it. */
function outcomesAt(messages: readonly MessageRow[], at: PositionOfRun, learnedLater: readonly string[]): MessageRow[] {
  const had = new Map<string, CallOutcome | undefined>(learnedLater.map((id) => [id, UNKNOWN]));
  for (const call of at.calls) {
    if (!isSettled(call)) had.set(call.id, undefined);
    else if (call.status === 'unknown') had.set(call.id, UNKNOWN);
  }
  return messages.slice(0, at.length).map((message) => {
    const outcomes = Object.entries(message.outcomes ?? {});
    if (!outcomes.some(([id]) => had.has(id))) return message;
    const then = outcomes.map(([id, outcome]) => [id, had.has(id) ? had.get(id) : outcome] as const);
    return {
      ...message,
      outcomes: Object.fromEntries(then.flatMap(([id, outcome]) => (outcome ? [[id, outcome]] : []))),
    };
  });
}

/** The number of leading messages whose results in the ledger are the same as then. */
export function unchangedSince(then: readonly MessageRow[], now: readonly MessageRow[]): number {
  const index = then.findIndex(({ outcomes }, place) => {
    const later = Object.entries(now[place]?.outcomes ?? {});
    return later.some(([id, { status }]) => outcomes?.[id]?.status !== status);
  });
  return index < 0 ? then.length : index;
}
