import { CONSOLIDATION } from '../../jobs/consolidation.ts';
import { consolidateDue } from '../../modules/memory/dispatch-consolidations.ts';
import { embedMemories } from '../../modules/memory/embed-memories.ts';
import { defineHandler } from '../handler.ts';

/** Does what is to be done for the agent's memory. */
export const handler = defineHandler(CONSOLIDATION, (context, payload, held) =>
  payload.work === 'embed' ? embedMemories(context, payload, held.stop) : consolidateDue(context, payload),
);
