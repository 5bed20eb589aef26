import type { ProcessContext } from '../context.ts';

/** What memory needs of the process. */
export type MemoryContext = Pick<
  ProcessContext,
  'clock' | 'db' | 'queues' | 'order' | 'outbox' | 'embeddings' | 'models' | 'metrics' | 'log' | 'config'
>;
