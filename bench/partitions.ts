/** A year of partitions: the locks and time of a claim must not grow with them, and a transaction on them must delay nobody. */
import pg from 'pg';
import { maintain } from '../modules/platform/maintain.ts';
import { DEFAULT_TENANT_ID } from '../modules/tenants/bootstrap.ts';
import { openDrover, type BenchDrover } from './drover.ts';
import type { Figure } from './figures.ts';
import type { Services } from './services.ts';

const CLAIMS = 300;

/** Measures a claim with the partitions of a first day, after adding a year of months, and then a year of days. */
export async function measurePartitions(services: Services): Promise<Figure[]> {
  const drover = await openDrover('pure', services);
  const client = new pg.Client(services.databaseUrl);
  await client.connect();
  try {
    await drover.serve(1);
    const run = await drover.start();
    await drover.ended(run);
    const figures: Figure[] = [];
    const first = await claimCost(client, run);
    const compare = async (what: string) => {
      const cost = await claimCost(client, run);
      const ratio = { value: cost.ms / first.ms, to: `with ${first.partitions} of each table` };
      const name = `a claim, ${cost.partitions} partitions of each table, ${what}`;
      figures.push(
        { part: 'partitions', what: `${name}: locks`, value: cost.locks, unit: 'locks', goal: '<= 20' },
        { part: 'partitions', what: name, value: cost.ms, unit: 'ms', ratio },
      );
    };
    await compare('new');
    await attach(client, { months: 12, days: 0 });
    await compare('a year of months');
    await attach(client, { months: 0, days: 365 });
    await compare('and a year of days');
    figures.push(await runBesideDump(drover, client));
    return figures;
  } finally {
    await client.end();
    await drover.close();
  }
}

/** The number of partitions, and a claim's locks and time in ms; the run's whole log is read. */
export async function claimCost(
  client: pg.Client,
  run: string,
): Promise<{ partitions: number; locks: number; ms: number }> {
  // Reads the whole log, like a process without a cache.
  const claim = { tenant_id: DEFAULT_TENANT_ID, run_id: run, seq: 0, claim: false, before_checkpoint: 1 };
  const read = () => client.query('select claim_run($1::jsonb)', [JSON.stringify(claim)]);
  for (let warm = 0; warm < 20; warm++) await read();
  const startedMs = performance.now();
  for (let claims = 0; claims < CLAIMS; claims++) await read();
  const ms = (performance.now() - startedMs) / CLAIMS;
  await client.query('begin');
  await read();
  const count = async (sql: string) => (await client.query<{ count: number }>(sql)).rows[0]?.count ?? Number.NaN;
  const locks = await count(
    'select count(*)::int as count from pg_locks where pid = pg_backend_pid() and relation is not null',
  );
  await client.query('rollback');
  const partitions = await count(
    `select count(*)::int as count from pg_inherits where inhparent = 'run_log'::regclass`,
  );
  return { partitions, locks, ms };
}

/** Attaches months before this one, or days before those, each by itself, as maintenance does. */
async function attach(client: pg.Client, { months, days }: { months: number; days: number }): Promise<void> {
  await client.query(
    `do $$ declare p text; d date; begin
      foreach p in array array['run_log', 'messages', 'checkpoints'] loop
        for d in select generate_series(date_trunc('month', now()) - interval '${months} months',
            now() - interval '1 month', interval '1 month') loop
          perform attach_partition(p, d);
        end loop;
        for d in select date_trunc('month', now())::date - 400 - n from generate_series(1, ${days}) n loop
          execute format('create table %I partition of %I for values from (%L) to (%L)',
            p || '_' || to_char(d, 'YYYYMMDD'), p, uuid_floor(d), uuid_floor(d + 1));
        end loop;
      end loop;
    end $$`,
  );
}

/** Time of a run while a dump holds its locks and maintenance wants to attach a partition. */
async function runBesideDump(drover: BenchDrover, client: pg.Client): Promise<Figure> {
  await client.query(`do $$ begin
    execute format('drop table %s', (select inhrelid::regclass from pg_inherits where inhparent = 'run_log'::regclass
      order by inhrelid::regclass::text collate "C" desc limit 1)); end $$`);
  const time = async () => {
    const startedMs = performance.now();
    await drover.ended(await drover.start());
    return performance.now() - startedMs;
  };
  const alone = await time();
  await client.query('begin; lock table run_log, messages, checkpoints in access share mode');
  const [beside] = await Promise.all([time(), maintain(drover.context, 'make-partitions')]);
  await client.query('rollback');
  return {
    part: 'partitions',
    what: 'a run beside a dump and make-partitions',
    value: beside,
    unit: 'ms',
    ratio: { value: beside / alone, to: 'alone' },
  };
}
