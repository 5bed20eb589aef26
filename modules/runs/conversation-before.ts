/** The conversation that a run goes on with. */
import type { Carried } from '../../core/carried.ts';
import type { Compaction } from '../../core/compaction.ts';
import { segmentsOf } from '../../core/fork.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import { findCarried, findCompaction } from '../../db/replay.ts';
import { hasUnread } from '../../db/unread.ts';

/** What a run's conversation continues. */
export type Previous = Pick<RunRow, 'lineage_base' | 'length'> & {
  /** Absent if the run writes beside it, in a lineage of its own. */
  lineage?: string;
  /** Replaces the conversation's beginning. */
  context?: Compaction | undefined;
  carried?: Carried;
  /** It holds untrusted content to which no model has answered. */
  isUnread?: boolean;
};

/** The conversation with which a workflow began, for runs beside it; undefined if there was none. */
export async function conversationBefore(tx: Tx, run: RunRow): Promise<Previous | undefined> {
  const { base_length: length } = run;
  if (length === 0) return undefined;
  return { lineage_base: segmentsOf(run, length), length, ...(await handedOn(tx, run.id)) };
}

/** What a run hands on, besides its messages. */
export async function handedOn(tx: Tx, runId: string): Promise<Pick<Previous, 'carried' | 'context' | 'isUnread'>> {
  const [carried, context, isUnread] = await Promise.all([
    findCarried(tx, runId),
    findCompaction(tx, runId),
    hasUnread(tx, runId),
  ]);
  return { carried, context, isUnread };
}
