/** Forgets: shows first what would go, then removes it wherever it is. */
import type { Caller } from '../../core/caller.ts';
import { isOneWord } from '../../core/memory/words.ts';
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

/** What is to be forgotten: entries by id, by all words of a query, or by their `metadata.subject`. */
type ForgetRequest = { ids: readonly string[] } | { query: string } | { subject: string };

/**
 * Removes memories with their other versions, summaries made from them and what the archive has of them; with `dryRun` it
 * only says what would go. Throws 404 if there is no such agent.
 */
export async function forgetMemories(
  tx: Tx,
  caller: Caller,
  { agentId, what, dryRun }: { agentId: string; what: ForgetRequest; dryRun: boolean },
): Promise<{ removed: Forgotten; ids: string[] }> {
  await requireAgent(tx, caller, agentId);
  // What is made from them at this moment goes with them, and so does what a run is given.
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
 * Takes out of a run what has been forgotten of these memories since it was given them, or has told them, and answers their ids:
 * whoever forgot them could not see them there before that was committed.
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
    : findByText(tx, { agentId, text: what.query, literal: isOneWord(what.query) });
}
