import { CONSOLIDATION, type ConsolidationJob } from '../../jobs/consolidation.ts';
import { consolidateDue } from '../../modules/memory/dispatch-consolidations.ts';
import { embedFragments } from '../../modules/memory/embed-fragments.ts';
import { embedMemories } from '../../modules/memory/embed-memories.ts';
import type { Context } from '../../modules/governance/context.ts';
import { extractMemories } from '../../modules/memory/extract-memories.ts';
import { judgeContradiction } from '../../modules/memory/judge-contradiction.ts';
import { defineHandler } from '../handler.ts';

/** Does memory work for an agent or a space. */
export const handler = defineHandler(CONSOLIDATION, (context, payload, held) => doWork(context, payload, held.stop));

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
