/**
 * What a process of Drover works with: built once by `modules/platform/open-platform.ts`, passed explicitly, never global. The
 * modules add what is theirs: `run-log/run-log-context.ts` what writes to runs, `governance/context.ts` the rest.
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

export interface ProcessContext {
  config: Config;
  db: Database;
  bus: Bus;
  queues: QueueBackend;
  /** Of jobs between tenants. */
  order: FairOrder;
  outbox: Outbox;
  models: Models;
  embeddings: Embeddings;
  tools: Tools;
  /** The way out for what is no tool: webhooks. */
  egress: Egress;
  /** For secrets at rest. */
  keyring: Keyring;
  metrics: Metrics;
  /** When something is remembered and recalled, for the times that people name; leases and due times go by the database's. */
  clock: () => Date;
  /** Where contents of files are; undefined where this process was given no place for them. */
  fileStore: FileStore | undefined;
  /** Contents of files as models are sent them, text or base64. */
  fileCache: LRUCache<string, string>;
  log: Logger;
}
