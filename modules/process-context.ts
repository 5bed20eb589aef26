/**
 * What a process of Drover works with: built once by `modules/platform/open-platform.ts`, passed explicitly, never
 * global. Modules extend it: `run-log/run-log-context.ts` for writers to runs, `governance/context.ts` for the rest.
 */
import type { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { Bus } from '../bus/bus.ts';
import type { Config } from '../config.ts';
import type { Keyring } from '../core/secret-box.ts';
import type { Database } from '../db/database.ts';
import type { QueueBackend } from '../jobs/backend.ts';
import type { FairOrder } from '../jobs/fair-order.ts';
import type { Outbox } from '../jobs/outbox.ts';
import type { Embeddings } from '../llm/embeddings.ts';
import type { FileStore } from '../lib/file-store.ts';
import type { Models } from '../llm/models.ts';
import type { Egress } from '../tools/egress.ts';
import type { Tools } from '../tools/execute-tool.ts';
import type { Metrics } from './metrics.ts';
import type { Traces } from './traces.ts';

export interface ProcessContext {
  config: Config;
  db: Database;
  bus: Bus;
  queues: QueueBackend;
  /** The order of jobs between tenants. */
  order: FairOrder;
  outbox: Outbox;
  models: Models;
  embeddings: Embeddings;
  tools: Tools;
  /** For requests that are no tool calls: webhooks. */
  egress: Egress;
  /** Encrypts secrets at rest. */
  keyring: Keyring;
  metrics: Metrics;
  /** Undefined unless the process exports spans. */
  traces: Traces | undefined;
  /** The clock for remembering and recalling, for times that people name; leases and due times use the database's. */
  clock: () => Date;
  /** Stores contents of files; undefined if this process has no place for them. */
  fileStore: FileStore | undefined;
  /** Contents of files in their form for models, text or base64. */
  fileCache: LRUCache<string, string>;
  log: Logger;
}
