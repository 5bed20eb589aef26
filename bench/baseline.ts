/** The naive baseline for ratios: one BullMQ job per step, each with a single INSERT. */
import { Queue, Worker } from 'bullmq';
import pg from 'pg';
import { createMeter } from './costs.ts';
import type { Services } from './services.ts';
import { pad, TOOL_CALLS, type Timing, measure, type Measured } from './work.ts';

interface Step {
  run: string;
  seq: number;
  acc: number;
}

/** Measures the baseline on a fresh database and queue. */
export async function measureBaseline(services: Services, timing: Timing): Promise<Measured> {
  const pool = new pg.Pool({ connectionString: services.databaseUrl, max: timing.concurrency });
  // The database is dropped while ended connections are still closing.
  pool.on('error', () => undefined);
  await pool.query(
    'create table step (id bigserial primary key, run_id text not null, seq int not null, body jsonb not null, at timestamptz default now(), unique (run_id, seq))',
  );
  const connection = { url: services.redisUrl };
  const queue = new Queue('bench-baseline', { connection });
  const waiting = new Map<string, (result: number) => void>();
  const options = { removeOnComplete: true };
  const worker = new Worker<Step>(
    'bench-baseline',
    async ({ data: { run, seq, acc } }) => {
      const isTool = seq % 2 === 1;
      const value = isTool ? acc + (seq + 1) / 2 : acc;
      await pool.query('insert into step (run_id, seq, body) values ($1, $2, $3)', [
        run,
        seq,
        JSON.stringify({ value, content: pad() }),
      ]);
      if (seq < 2 * TOOL_CALLS) {
        await queue.add('step', { run, seq: seq + 1, acc: value }, options);
        return;
      }
      waiting.get(run)?.(value);
      waiting.delete(run);
    },
    { connection, concurrency: timing.concurrency },
  );
  await worker.waitUntilReady();
  let count = 0;
  const run = () =>
    new Promise<number>((resolve, reject) => {
      const id = `run-${count++}`;
      waiting.set(id, resolve);
      queue.add('step', { run: id, seq: 0, acc: 0 }, options).catch(reject);
    });
  const meter = await createMeter(services);
  try {
    return await measure('baseline', timing, { run, meter });
  } finally {
    await meter.close();
    await worker.close();
    await queue.obliterate({ force: true });
    await queue.close();
    await pool.end();
  }
}
