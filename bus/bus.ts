import type { Config } from '../config.ts';
import type { Database } from '../db/database.ts';
import { createBus, type BusTransport } from './batching-bus.ts';
import { openPostgresTransport } from './postgres-transport.ts';
import { openRedisTransport } from './redis-transport.ts';

/** What one process tells the others about a run. A hint: it may be lost, and the log has the truth. */
export type BusMessage =
  | { runId: string; kind: 'advanced'; seq: number }
  | {
      runId: string;
      kind: 'delta';
      turnId: string;
      step: number;
      delta: { type: 'text' | 'thinking'; text: string };
    }
  | {
      runId: string;
      kind: 'progress';
      turnId: string;
      callId: string;
      tool: string;
      progress: number;
      total: number | undefined;
      message: string | undefined;
    }
  /** The tenant's policies or suspensions have changed: the driver of the run reads them before its next call. */
  | { runId: string; kind: 'governed' }
  | { runId: string; kind: 'abort'; reason: 'cancel' | 'interrupt' };

export interface Bus {
  /** Sends soon, together with what else is sent at that moment; never throws. A long delta arrives in pieces. */
  publish(message: BusMessage): void;
  /** Messages of one run, of all processes, this one too, in the order in which a process sent them. Gives the end of it. */
  subscribe(runId: string, onMessage: (message: BusMessage) => void): () => void;
  /** Called when messages may have been lost and come again from now on: look into the log. Gives the end of it. */
  onGap(listener: () => void): () => void;
  /** Sends what is left, and ends. */
  close(): Promise<void>;
}

/** Opens the bus of the mode: in this process, by NOTIFY, or by Redis. `onError` is told what was lost, and why. */
export async function openBus(config: Config, database: Database, onError: (error: Error) => void): Promise<Bus> {
  return createBus((receiver) => openTransport(config, database, receiver), onError);
}

type Open = Parameters<typeof createBus>[0];

function openTransport(config: Config, database: Database, receiver: Parameters<Open>[0]): Promise<BusTransport> {
  if (config.redisUrl !== undefined) {
    return openRedisTransport({ url: config.redisUrl, channel: `${config.queuePrefix}:bus` }, receiver);
  }
  if (config.databaseUrl !== undefined) return openPostgresTransport(database, receiver);
  return Promise.resolve({
    maxBytes: Number.POSITIVE_INFINITY,
    send: async (payloads) => payloads.forEach((payload) => receiver.onPayload(payload)),
    close: async () => undefined,
  });
}
