/** `npm run tau2`: plays the gold actions of tau2-bench's retail tasks while workers are killed. See docs/benchmarks.md. */
import { messageOf } from '../core/errors.ts';
import { optionsOf } from './kit/options-of.ts';
import { playTasks } from './shop/play-tasks.ts';
import { readTau2 } from './shop/tau2.ts';

const HELP = `usage: TAU2_DIR=DIR npm run tau2 [-- OPTIONS]

Plays the retail tasks of tau2-bench (a checkout, or its git directory) on processes of its own whose workers are killed
again and again, and compares the final database of each task with its reference. Ends with 0 where all are equal.

  --workers N          worker processes (3)
  --kill-every N       milliseconds between two kills (1500)
  --kills N            kills at most (200)
  --step N             milliseconds that a model's answer and a tool's call take, each (150)
  --settle N           seconds that all of it may take (600)
  --mode MODE          full: Postgres and Redis; postgres: Postgres alone (full)
  --database-url URL   a Postgres whose user may create databases, in place of a private one
  --redis-url URL      a Redis, in place of a private one
`;

const values = optionsOf('tau2', {
  workers: { type: 'string', default: '3' },
  'kill-every': { type: 'string', default: '1500' },
  kills: { type: 'string', default: '200' },
  step: { type: 'string', default: '150' },
  settle: { type: 'string', default: '600' },
  mode: { type: 'string', default: 'full' },
  'database-url': { type: 'string' },
  'redis-url': { type: 'string' },
  help: { type: 'boolean', short: 'h', default: false },
});

if (values.help) process.stdout.write(HELP);
else process.exit(await main());

async function main(): Promise<number> {
  const dir = process.env['TAU2_DIR'];
  if (!dir) {
    process.stderr.write('tau2: TAU2_DIR is not set (--help says more)\n');
    return 2;
  }
  const stopped = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopped.abort());
  try {
    const played = await playTasks({
      ...(await readTau2(dir)),
      mode: values.mode === 'postgres' ? 'postgres' : 'full',
      databaseUrl: values['database-url'],
      redisUrl: values['redis-url'],
      workers: Number(values.workers),
      killEveryMs: Number(values['kill-every']),
      mostKills: Number(values.kills),
      stepMs: Number(values.step),
      settleMs: Number(values.settle) * 1000,
      signal: stopped.signal,
      say,
    });
    const { wrong, actions, wanted, changes, repeats, kills, seconds } = played;
    say(`${actions} actions in ${seconds.toFixed(1)} s, ${kills} workers killed`);
    say(`${changes} changes of ${wanted} that were wanted; ${repeats} requests came again and changed nothing`);
    for (const { id, status, why } of wrong) say(`task ${id}: ${why === 'end' ? status : 'another database'}`);
    say(`${wrong.length} tasks have another end than their reference`);
    return wrong.length === 0 && changes === wanted ? 0 : 1;
  } catch (error) {
    process.stderr.write(`tau2: ${messageOf(error)}\n`);
    return 2;
  }
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
