import { CONSOLIDATION, type ConsolidationJob } from '../../jobs/consolidation.ts';
import { consolidateDue } from '../../modules/memory/dispatch-consolidations.ts';
import { embedFragments, spaceLacksVectors } from '../../modules/memory/embed-fragments.ts';
import { embedMemories, lacksVectors } from '../../modules/memory/embed-memories.ts';
import { workSoon } from '../../modules/memory/memory-work.ts';
import type { Context } from '../../modules/governance/context.ts';
import { extractMemories } from '../../modules/memory/extract-memories.ts';
import { judgeContradiction } from '../../modules/memory/judge-contradiction.ts';
import { NotSentNow } from '../../modules/model-calls/pace-embeddings.ts';
import { defineHandler, type HeldJob } from '../handler.ts';
import { putBack } from '../put-back.ts';

/** Does memory work for an agent or a space. */
export const handler = defineHandler(CONSOLIDATION, workWithinLimits, askAgain);

/** A budget that is used up, a full ration or a provider that is away is no failure, and may last: the job waits. */
async function workWithinLimits(context: Context, job: ConsolidationJob, held: HeldJob): Promise<object> {
  try {
    return await doWork(context, job, held.stop);
  } catch (error) {
    if (!(error instanceof NotSentNow)) throw error;
    context.log.warn({ job: held.job.id, tenant: job.tenantId, why: error.message }, 'texts wait for their vectors');
    return putBack(held, error.waitMs);
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
