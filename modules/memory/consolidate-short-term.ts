/** Consolidates an agent's short-term memory: looks for what says the same, has long entries shortened, then changes all at once. */
import { setImmediate as giveWay } from 'node:timers/promises';
import { consolidationSettings } from '../../core/definition.ts';
import { LIMITS } from '../../core/limits.ts';
import { candidatesOf, type SimilarEntry } from '../../core/memory/consolidation.ts';
import type { Tx } from '../../db/database.ts';
import { listShortTerm } from '../../db/memory-consolidation.ts';
import { findSimilar } from '../../db/memory-similar.ts';
import { consolidateMemory, type Consolidated, type Consolidation, type Survey } from './consolidate-memory.ts';
import type { ExtractionContext } from './extract/propose.ts';
import { summarizeEntries } from './summarize-entries.ts';

/** Candidates that are compared in one transaction. */
const COMPARED_TOGETHER = 20;

/** Rejects when `stop` fires. */
export async function consolidateShortTerm(
  context: ExtractionContext,
  asked: Consolidation & { workspaceId: string },
  stop: AbortSignal,
): Promise<Consolidated> {
  const change = await prepareConsolidation(context, asked, stop);
  return context.db.withTenant(asked.tenantId, change);
}

/** The one transaction that writes; those before it look, and a model is asked without any. Rejects when `stop` fires. */
export async function prepareConsolidation(
  context: ExtractionContext,
  asked: Consolidation & { workspaceId: string },
  stop: AbortSignal,
): Promise<(tx: Tx) => Promise<Consolidated>> {
  const survey = await surveyShortTerm(context, asked, stop);
  const summaries = await summarizeEntries(context, { ...asked, ...survey }, stop);
  return (tx) => consolidateMemory(tx, { ...asked, ...survey, summaries });
}

/** The candidates and what says the same, a few candidates at a time, so that others have their turn at the database between. */
async function surveyShortTerm(
  { db }: Pick<ExtractionContext, 'db'>,
  { tenantId, agentId, definition, at, strategy, maxEntries }: Consolidation,
  stop: AbortSignal,
): Promise<Survey> {
  const entries = await db.withTenant(tenantId, (tx) => listShortTerm(tx, agentId, LIMITS.consolidatedEntries));
  const candidates = candidatesOf(entries, { at, strategy, maxEntries, settings: consolidationSettings(definition) });
  const similar: SimilarEntry[] = [];
  for (let from = 0; from < candidates.length; from += COMPARED_TOGETHER) {
    stop.throwIfAborted();
    const ids = candidates.slice(from, from + COMPARED_TOGETHER).map(({ id }) => id);
    similar.push(...(await db.withTenant(tenantId, (tx) => findSimilar(tx, agentId, ids))));
    // The embedded database computes in this very thread, which has requests to answer.
    await giveWay();
  }
  return { candidates, similar };
}
