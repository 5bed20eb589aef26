/** `npm run torture`: proves on this machine that nothing is lost and nothing happens twice. See docs/torture.md. */
import { messageOf } from '../core/errors.ts';
import { resolve } from 'node:path';
import { optionsOf } from './kit/options-of.ts';
import { torture, type TortureOptions } from './torture/torture.ts';

const HELP = `usage: npm run torture [-- OPTIONS]

Starts a private fleet of Drover processes, drives runs through it over HTTP while faults are injected, and examines what
is left. Ends with 0 where nothing was lost, repeated or different, with 1 where something was, with 2 where it could not
run.

  --runs N             runs to drive (50)
  --seed N             chooses runs, tools and faults; the same seed, the same schedule (1)
  --seconds N          how long faults are injected (60)
  --settle N           seconds that the runs then have to end (120)
  --mode MODE          full: Postgres and Redis; postgres: Postgres alone (full)
  --workers N          worker processes (3)
  --apis N             API processes (2)
  --combined N         processes that are both, as npm start (1)
  --lease N            DROVER_LEASE_MS of the fleet (2000)
  --skew N             most seconds by which each process's clock is off, either way (180)
  --previous DIR       compiled programs of the release before: every second API and worker runs from there
  --database-url URL   a Postgres whose user may create databases, in place of a private one
  --redis-url URL      a Redis, in place of a private one
  --plan               prints the schedule of faults and does nothing
  --keep-logs          keeps the logs of the fleet, and says where
  --help               this text

Without --database-url, scripts/services.sh starts Postgres and Redis in a temporary directory. Only these are restarted
or emptied; given ones are only cut off and slowed down, by a proxy in between.
`;

const OPTIONS = {
  runs: { type: 'string', default: '50' },
  seed: { type: 'string', default: '1' },
  seconds: { type: 'string', default: '60' },
  settle: { type: 'string', default: '120' },
  mode: { type: 'string', default: 'full' },
  workers: { type: 'string', default: '3' },
  apis: { type: 'string', default: '2' },
  combined: { type: 'string', default: '1' },
  lease: { type: 'string', default: '2000' },
  skew: { type: 'string', default: '180' },
  previous: { type: 'string' },
  'database-url': { type: 'string' },
  'redis-url': { type: 'string' },
  plan: { type: 'boolean', default: false },
  'keep-logs': { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const;

const values = optionsOf('torture', OPTIONS);

if (values.help) process.stdout.write(HELP);
else process.exit(await main());

async function main(): Promise<number> {
  const interrupted = new AbortController();
  let signalled = 0;
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const) {
    process.on(signal, () => {
      // A second Ctrl-C is deliberate; the fleet ends with this process.
      if (signalled > 0) process.exit(code);
      signalled = code;
      interrupted.abort(new Error(`stopped by ${signal}`));
    });
  }
  try {
    const clean = await torture(readOptions(), { signal: interrupted.signal, say });
    return clean ? 0 : 1;
  } catch (error) {
    const message = messageOf(error);
    process.stderr.write(`torture: ${interrupted.signal.aborted ? 'stopped' : message}\n`);
    return signalled > 0 ? signalled : 2;
  }
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

function readOptions(): TortureOptions {
  const { mode } = values;
  if (mode !== 'full' && mode !== 'postgres') throw new Error('--mode is full or postgres');
  const redisUrl = values['redis-url'];
  const databaseUrl = values['database-url'];
  if (mode === 'full' && (redisUrl === undefined) !== (databaseUrl === undefined)) {
    throw new Error('--database-url and --redis-url are given both or not at all');
  }
  return {
    mode,
    databaseUrl,
    redisUrl,
    runs: whole('runs', 1),
    seed: whole('seed', 0),
    seconds: whole('seconds', 1),
    settleSeconds: whole('settle', 1),
    workers: whole('workers', 1),
    apis: whole('apis', 1),
    combined: whole('combined', 0),
    leaseMs: whole('lease', 500),
    previous: values.previous === undefined ? undefined : resolve(values.previous),
    skewSeconds: whole('skew', 0),
    planOnly: values.plan,
    keepLogs: values['keep-logs'],
  };
}

type NumberOption = 'runs' | 'seed' | 'seconds' | 'settle' | 'workers' | 'apis' | 'combined' | 'lease' | 'skew';

function whole(name: NumberOption, min: number): number {
  const value = Number(values[name]);
  if (!Number.isInteger(value) || value < min) throw new Error(`--${name} is a whole number from ${min} on`);
  return value;
}
