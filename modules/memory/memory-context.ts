import type { ProcessContext } from '../process-context.ts';
import type { MemoryUses } from './count-uses.ts';

/** What memory needs of the process. */
export interface MemoryContext extends Pick<
  ProcessContext,
  'clock' | 'db' | 'queues' | 'order' | 'outbox' | 'embeddings' | 'models' | 'metrics' | 'log' | 'config'
> {
  /** Uses of memories still to be counted. */
  memoryUses: MemoryUses;
}
