/** Forgets memories: lists first what would go, then removes it everywhere. */
import type { Caller } from '../../core/caller.ts';
import { partsOf } from '../../core/memory/words.ts';
import type { Tx } from '../../db/database.ts';
import {
  clearInRuns,
  countInRuns,
  findBySubject,
  findForgotten,
  forgetInRuns,
  findByText,
  findForgetTargets,
  removeMemories,
  type Forgotten,
} from '../../db/memory-forget.ts';
import { lockToForget, shareGivingOf } from '../../db/memory-lock.ts';
import { recordAudit } from '../audit/record-audit.ts';
import { requireAgent } from '../agents/read-agents.ts';

export type { Forgotten };

/** Entries by id, by all words of a query, or by `metadata.subject`. */
type ForgetRequest = { ids: readonly string[] } | { query: string } | { subject: string };

/**
 * Removes memories with their other versions, the summaries made from them, and their archive copies; `dryRun` only
 * reports what would go. Throws 404 for an unknown agent.
 */
export async function forgetMemories(
  tx: Tx,
  caller: Caller,
  { agentId, what, dryRun }: { agentId: string; what: ForgetRequest; dryRun: boolean },
): Promise<{ removed: Forgotten; ids: string[] }> {
  await requireAgent(tx, caller, agentId);
  // Locked so that entries being made from them, and runs being given them, are included.
  if (!dryRun) await lockToForget(tx, agentId);
  const found = await findIds(tx, agentId, what);
  const targets = await findForgetTargets(tx, { agentId, ids: found });
  const { entries, summaries, archive } = targets;
  const ids = [...entries, ...summaries, ...archive];
  const removed = {
    entries: entries.length,
    summaries: summaries.length,
    archive: archive.length,
    events: await countInRuns(tx, ids),
  };
  if (dryRun || ids.length === 0) return { removed, ids };
  removed.events = await forgetInRuns(tx, ids);
  await removeMemories(tx, { agentId, targets });
  await recordAudit(tx, caller, { action: 'memory.forgotten', target: ['agent', agentId], details: { removed } });
  return { removed, ids };
}

/**
 * Removes from a run those of these memories that were forgotten since it was given or told them; returns their ids.
 * The one who forgot them could not see them in the run before its commit.
 */
export async function dropForgotten(
  tx: Tx,
  { agentId, runId, ids }: { agentId: string; runId: string; ids: readonly string[] },
): Promise<string[]> {
  await shareGivingOf(tx, agentId);
  const forgotten = await findForgotten(tx, ids);
  if (forgotten.length > 0) await clearInRuns(tx, { ids: forgotten, runs: [runId] });
  return forgotten;
}

async function findIds(tx: Tx, agentId: string, what: ForgetRequest): Promise<readonly string[]> {
  if ('ids' in what) return what.ids;
  return 'subject' in what
    ? findBySubject(tx, { agentId, subject: what.subject })
    : findByText(tx, { agentId, ...partsOf(what.query) });
}
