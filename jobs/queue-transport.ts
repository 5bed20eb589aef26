import type { ConnectionOptions, createRedisBackend, Queue } from 'bullmq';

/** What differs between Redis and Postgres. `factory` is typed as Redis's; BullMQ's classes call nothing else of it. */
export interface QueueTransport {
  readonly kind: 'redis' | 'postgres';
  readonly factory: typeof createRedisBackend;
  readonly producerConnection: ConnectionOptions;
  readonly workerConnection: ConnectionOptions;
  /** The states of jobs, in the order of `ids`. */
  states(queue: Queue, ids: readonly string[]): Promise<string[]>;
  ping(timeoutMs: number): Promise<void>;
  /** Redis's `maxmemory-policy`, if it tells. */
  evictionPolicy(): Promise<string | undefined>;
  close(): Promise<void>;
}

/** Told of errors as they come, at most one line a kind in 10 s. */
export type ReportError = (error: Error, source: string) => void;
