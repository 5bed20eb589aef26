import { CONSOLIDATION, type ConsolidationJob } from '../../jobs/consolidation.ts';
import { consolidateDue } from '../../modules/memory/dispatch-consolidations.ts';
import { embedFragments, spaceLacksVectors } from '../../modules/memory/embed-fragments.ts';
import { embedMemories, lacksVectors } from '../../modules/memory/embed-memories.ts';
import { workSoon } from '../../modules/memory/memory-work.ts';
import type { Context } from '../../modules/governance/context.ts';
import { extractMemories } from '../../modules/memory/extract-memories.ts';
import { judgeContradiction } from '../../modules/memory/judge-contradiction.ts';
import { NoBudgetLeft } from '../../modules/model-calls/pay-for-embeddings.ts';
import { defineHandler, type HeldJob } from '../handler.ts';
import { putBack } from '../put-back.ts';

/** How long texts wait for their vectors that a budget leaves nothing for, in ms. */
const BUDGET_PAUSE_MS = 60_000;

/** Does memory work for an agent or a space. */
export const handler = defineHandler(CONSOLIDATION, workWithinBudget, askAgain);

/** A budget that is used up is no failure, and may be so for weeks: the job waits. */
async function workWithinBudget(context: Context, job: ConsolidationJob, held: HeldJob): Promise<object> {
  try {
    return await doWork(context, job, held.stop);
  } catch (error) {
    if (!(error instanceof NoBudgetLeft)) throw error;
    context.log.warn(
      { job: held.job.id, tenant: job.tenantId },
      'no budget is left for embeddings: texts wait for their vectors',
    );
    return putBack(held, BUDGET_PAUSE_MS);
  }
}

/** A job that was sent while this one was about to end was not taken: what it was for is embedded by another one. */
async function askAgain(context: Context, job: ConsolidationJob): Promise<void> {
  if (await isLeft(context, job)) workSoon(context, job);
}

async function isLeft(context: Context, job: ConsolidationJob): Promise<boolean> {
  if (job.work === 'embed') return lacksVectors(context, job);
  return job.work === 'embed_fragments' && spaceLacksVectors(context, job);
}

function doWork(context: Context, job: ConsolidationJob, stop: AbortSignal): Promise<object> {
  switch (job.work) {
    case 'embed':
      return embedMemories(context, job, stop);
    case 'embed_fragments':
      return embedFragments(context, job, stop);
    case 'consolidate':
      return consolidateDue(context, job, stop);
    case 'extract':
      return extractMemories(context, job, stop);
    case 'check':
      return judgeContradiction(context, job, stop);
  }
}
