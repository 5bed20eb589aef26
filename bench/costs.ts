/** Costs that hardly depend on other load of the machine: CPU time, WAL, rows, transactions. */
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import pg from 'pg';
import type { Services } from './services.ts';

/** Totals since each process began; NaN if unreadable (servers on other machines). */
export interface Costs {
  nodeMs: number;
  postgresMs: number;
  redisMs: number;
  walKb: number;
  rows: number;
  transactions: number;
  /** Sent by this process, including `begin` and `commit`. */
  statements: number;
}

export interface Meter {
  /** Reads CPU and WAL at once, rows and transactions a moment later, when Postgres has counted them. */
  read: () => Promise<Costs>;
  close: () => Promise<void>;
}

/** Backends report their counts at most once a second. */
const COUNTED_AFTER_MS = 1100;
/** Linux counts CPU time in units of 10 ms. */
const TICK_MS = 10;

/** Measures this process and its two servers. */
export async function createMeter(services: Services): Promise<Meter> {
  const client = new pg.Client(services.databaseUrl);
  await client.connect();
  const redis = new Redis(services.redisUrl);
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  const postmaster = statOf(String(rows[0]?.pid))?.[1];
  const statements = countStatements();
  return {
    async read() {
      const { user, system } = process.cpuUsage();
      const sent = statements.count;
      const postgresMs = postmaster === undefined ? Number.NaN : familyMs(postmaster);
      const redisMs = cpuOfRedis(await redis.info('cpu'));
      const wal = await client.query<{ bytes: string }>(`select pg_current_wal_insert_lsn() - '0/0' as bytes`);
      await sleep(COUNTED_AFTER_MS);
      const counted = await client.query<{ rows: string; transactions: string }>(
        `select tup_inserted + tup_updated + tup_deleted as rows, xact_commit as transactions
         from pg_stat_database where datname = current_database()`,
      );
      const walKb = Number(wal.rows[0]?.bytes) / 1024;
      const [row] = counted.rows;
      return {
        nodeMs: (user + system) / 1000,
        postgresMs,
        redisMs,
        walKb,
        rows: Number(row?.rows),
        transactions: Number(row?.transactions),
        statements: sent,
      };
    },
    async close() {
      statements.stop();
      redis.disconnect();
      await client.end();
    },
  };
}

/** Costs of each of `count` pieces of work. */
export function costOfEach(before: Costs, after: Costs, count: number): Costs {
  const each = (of: (costs: Costs) => number) => (of(after) - of(before)) / count;
  return {
    nodeMs: each((costs) => costs.nodeMs),
    postgresMs: each((costs) => costs.postgresMs),
    redisMs: each((costs) => costs.redisMs),
    walKb: each((costs) => costs.walKb),
    rows: each((costs) => costs.rows),
    transactions: each((costs) => costs.transactions),
    statements: each((costs) => costs.statements),
  };
}

/** Starts counting the statements of all connections of this process. */
function countStatements(): { count: number; stop: () => void } {
  const prototype = pg.Client.prototype as unknown as { query: (...args: unknown[]) => unknown };
  const { query } = prototype;
  const counter = { count: 0, stop: () => void (prototype.query = query) };
  prototype.query = function counted(this: unknown, ...args: unknown[]) {
    counter.count++;
    return query.apply(this, args);
  };
  return counter;
}

/** CPU time of node, Postgres and Redis together, in ms. */
export function cpuMs({ nodeMs, postgresMs, redisMs }: Costs): number {
  return nodeMs + postgresMs + redisMs;
}

/** CPU time of another process since it began, in ms; NaN if unreadable. */
export function cpuOfProcess(pid: number): number {
  const stat = statOf(String(pid));
  return stat ? TICK_MS * (Number(stat[11]) + Number(stat[12])) : Number.NaN;
}

/**
 * Fields of /proc/PID/stat (proc(5)), starting with the state: 1 is the parent; 11 and 12 are its own CPU, 13 and 14 that of
 * ended children.
 */
function statOf(pid: string): string[] | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return text.slice(text.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}

function familyMs(postmaster: string): number {
  const processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  const ticks = processes.flatMap((pid) => {
    const stat = statOf(pid);
    if (pid !== postmaster && stat?.[1] !== postmaster) return [];
    return (pid === postmaster ? [11, 12, 13, 14] : [11, 12]).map((field) => Number(stat?.[field] ?? 0));
  });
  return TICK_MS * ticks.reduce((sum, each) => sum + each, 0);
}

function cpuOfRedis(info: string): number {
  const seconds = (field: string) => Number(new RegExp(`^${field}:([\\d.]+)`, 'm').exec(info)?.[1]);
  return 1000 * (seconds('used_cpu_user') + seconds('used_cpu_sys'));
}
