/** Makes one commit of a driver. If the answer is lost with the connection, the log shows whether it was made. */
import { canonicalJson } from '../../../core/canonical-json.ts';
import { isDatabaseAway } from '../../../db/database.ts';
import { readEvents } from '../../../db/events.ts';
import type { EventRow } from '../../../db/claim-run.ts';
import type { CommitResult, LoggedColumns, RunChange } from '../../../db/commit-run.ts';
import { lockRun } from '../../../db/runs.ts';
import { retryWhileUnavailable } from '../../run-log/retry-while-unavailable.ts';
import type { Drive } from './drive-state.ts';

/**
 * Commits a change once. Retries while the database is away, for at most the length of a lease: the model's answer exists only
 * here. A change without events leaves no trace in the log, and is not retried.
 */
export async function commitOnce(drive: Drive, change: RunChange): Promise<CommitResult> {
  if (change.events.length === 0) return drive.context.commit(change);
  let isInDoubt = false;
  const attempt = async () => {
    const made = isInDoubt ? await findMade(drive, change) : undefined;
    if (made) return made;
    try {
      const outcome = await drive.context.commit(change);
      // The earlier commit, in doubt, may have come through just before this one.
      return outcome.ok || !isInDoubt ? outcome : ((await findMade(drive, change)) ?? outcome);
    } catch (error) {
      isInDoubt ||= isDatabaseAway(error);
      throw error;
    }
  };
  return retryWhileUnavailable(attempt, retryWindowOf(drive));
}

/** How long a driver retries what it has not committed, in ms. */
export function retryWindowOf({ context, signal }: Drive): { forMs: number; signal: AbortSignal } {
  return { forMs: context.config.leaseMs, signal };
}

/**
 * The result of the commit, if its events are in the log. A server still making it holds the run's row, so the lock waits for
 * it; a commit that has yet to begin fails once anything else is committed.
 */
async function findMade(drive: Drive, change: RunChange): Promise<CommitResult | undefined> {
  const { events, run_id: id, expect = 0 } = change;
  return drive.context.db.withTenant(drive.tenantId, async (tx) => {
    const run = await lockRun(tx, id);
    const logged = await readEvents(tx, { runId: id, after: expect, limit: events.length });
    const last = logged.at(-1);
    if (!run || !last || canonicalJson(logged.map(essence)) !== canonicalJson(events.map(essence))) return undefined;
    const { status } = run;
    return {
      ok: true,
      seq: last.seq,
      fence: drive.fence,
      status,
      at: last.occurred_at,
      continued: false,
      claimed_call: null,
    };
  });
}

function essence({ type, actor, turn_id = null, step = null, payload }: EventRow | LoggedColumns) {
  return { type, actor, turn_id, step, payload: JSON.parse(JSON.stringify(payload)) as unknown };
}
