import { CONSOLIDATION } from '../../jobs/consolidation.ts';
import { embedMemories } from '../../modules/memory/embed-memories.ts';
import { defineHandler } from '../handler.ts';

/** Does what is to be done for the agent's memory. */
export const handler = defineHandler(CONSOLIDATION, (context, payload, held) =>
  embedMemories(context, payload, held.stop),
);
