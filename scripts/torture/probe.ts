/** Looks behind the API, past the network faults: at the database and the queues themselves. */
import { setTimeout as delay } from 'node:timers/promises';
import { loadConfig } from '../../config.ts';
import type { Database, Tx } from '../../db/database.ts';
import { openDatabase } from '../../db/open-database.ts';
import { openQueueBackend, type QueueBackend } from '../../jobs/backend.ts';
import { TOOL_CALLS } from '../../jobs/tool-calls.ts';
import { TURNS } from '../../jobs/turns.ts';
import { DEFAULT_TENANT_ID } from '../../modules/tenants/bootstrap.ts';
import { createRandom } from './random.ts';

export interface Probe {
  database: Database;
  queues: QueueBackend;
  /** Reads as the tenant; retries while the database is away. */
  read: <T>(work: (tx: Tx) => Promise<T>) => Promise<T>;
  close: () => Promise<void>;
}

const READ_TRIES = 100;
const AGAIN_MS = 200;

export async function openProbe(settings: Record<string, string>): Promise<Probe> {
  const config = loadConfig(settings);
  const database = await openDatabase(config, { onError: () => undefined });
  const queues = await openQueueBackend(config, database);
  return {
    database,
    queues,
    async read(work) {
      for (let tries = 1; ; tries++) {
        try {
          return await database.withTenant(DEFAULT_TENANT_ID, work);
        } catch (error) {
          if (tries === READ_TRIES) throw error;
          await delay(AGAIN_MS);
        }
      }
    },
    async close() {
      await queues.close();
      await database.close();
    },
  };
}

/** The run with this first message. */
export async function findRun(probe: Probe, message: string): Promise<string | undefined> {
  const rows = await probe.read((tx) =>
    tx.query<{ run_id: string }>(`select run_id from turns where input->>'message' = $1`, [message]),
  );
  return rows[0]?.run_id;
}

interface Position {
  id: string;
  last_seq: number;
  fence: number;
}

interface Call {
  id: string;
  run_id: string;
  attempt: number;
}

const MOST_RUNS = 8;

/**
 * Sends jobs again: for a run's position, with its own id and a new one, for a passed one, and for a future one; and
 * for tool calls in any state. Returns how many; 0 if the queue is away.
 */
export async function sendDuplicates(probe: Probe, choice: number): Promise<number> {
  const random = createRandom(choice, 'duplicates');
  const tenantId = DEFAULT_TENANT_ID;
  const runs = await probe.read((tx) => tx.query<Position>('select id, last_seq, fence from runs order by updated_at'));
  const calls = await probe.read((tx) =>
    tx.query<Call>(`select id, run_id, attempt from tool_calls where mode = 'queued' order by created_at`),
  );
  const jobs = [
    ...random
      .shuffle(runs.slice(-2 * MOST_RUNS))
      .slice(0, MOST_RUNS)
      .flatMap(({ id: runId, last_seq: seq, fence }) => [
        { queue: TURNS.name, id: TURNS.id({ runId, seq, fence }), data: { tenantId, runId, seq } },
        { queue: TURNS.name, id: `again-${choice}-${runId}`, data: { tenantId, runId, seq } },
        { queue: TURNS.name, id: `stale-${choice}-${runId}`, data: { tenantId, runId, seq: 1 } },
        { queue: TURNS.name, id: `beyond-${choice}-${runId}`, data: { tenantId, runId, seq: seq + 1000 } },
      ]),
    ...random
      .shuffle(calls.slice(-2 * MOST_RUNS))
      .slice(0, MOST_RUNS)
      .flatMap(({ id: callId, run_id: runId, attempt }) => [
        {
          queue: TOOL_CALLS.name,
          id: TOOL_CALLS.id({ callId, attempt }),
          data: { tenantId, runId, callId },
        },
        { queue: TOOL_CALLS.name, id: `again-${choice}-${callId}`, data: { tenantId, runId, callId } },
      ]),
  ];
  const added = await Promise.allSettled(
    jobs.map(({ queue, id, data }) =>
      probe.queues.queue(queue).add(queue, data, { jobId: id, attempts: 5, removeOnComplete: true }),
    ),
  );
  return added.filter(({ status }) => status === 'fulfilled').length;
}
