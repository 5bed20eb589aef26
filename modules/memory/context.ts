import type { ProcessContext } from '../context.ts';

/** What memory needs of the process. */
export type MemoryContext = Pick<
  ProcessContext,
  'db' | 'queues' | 'order' | 'outbox' | 'embeddings' | 'models' | 'metrics' | 'log' | 'config'
>;
