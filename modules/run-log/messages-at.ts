/** A conversation as it stood at a position of its run: the ledger knows what came later, too. */
import { isSettled, type RunState } from '../../core/state.ts';
import { readMessages, listResolvedAfter } from '../../db/checkpoints.ts';
import type { Tx } from '../../db/database.ts';
import type { CallOutcome, MessageRow } from '../../db/claim-run.ts';

/** What decides which results a conversation had. */
export type PositionOfRun = Pick<RunState, 'seq' | 'length' | 'calls'>;

/** The messages up to a position of a run, with the results that its calls had there; larger ones are named by their address. */
export async function readMessagesAt(
  tx: Tx,
  runId: string,
  at: PositionOfRun & { shownBytes: number },
): Promise<MessageRow[]> {
  const { length, shownBytes } = at;
  return outcomesAt(
    await readMessages(tx, runId, { length, shownBytes }),
    at,
    await listResolvedAfter(tx, runId, at.seq),
  );
}

const UNKNOWN: CallOutcome = { status: 'unknown', output: null, is_error: true };

/** Messages with the outcomes of a position; `resolvedLater` are the calls whose unknown outcome was learned after it. */
export function outcomesAt(
  messages: readonly MessageRow[],
  at: PositionOfRun,
  resolvedLater: readonly string[],
): MessageRow[] {
  const had = new Map<string, CallOutcome | undefined>(resolvedLater.map((id) => [id, UNKNOWN]));
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

/** How many messages, from the first on, have the same results in the ledger now as they had then. */
export function unchangedSince(then: readonly MessageRow[], now: readonly MessageRow[]): number {
  const index = then.findIndex(({ outcomes }, place) => {
    const later = Object.entries(now[place]?.outcomes ?? {});
    return later.some(([id, { status }]) => outcomes?.[id]?.status !== status);
  });
  return index < 0 ? then.length : index;
}
