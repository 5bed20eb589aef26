/**
 * Preloaded into each process of a torture. Ends it with its parent, however that ended; may shift its clock
 * (`?skew=MS` in this module's URL); and kills it at a given point (`KillPoint`).
 */
import pg from 'pg';
import { isAt, type KillPoint } from './kill-points.ts';

let deadly: KillPoint | undefined;

process.on('message', (message: { dieAt?: KillPoint }) => {
  deadly = message.dieAt;
});
process.once('disconnect', die);
process.channel?.unref();

skewClock(Number(new URL(import.meta.url).searchParams.get('skew') ?? 0));
watchStatements();

function die(): void {
  process.kill(process.pid, 'SIGKILL');
}

/** Shifts the time of day; timers and durations stay right. */
function skewClock(skewMs: number): void {
  if (skewMs === 0) return;
  const now = () => RealDate.now() + skewMs;
  const RealDate = Date;
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, args: unknown[], newTarget) =>
      Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget) as Date,
    get: (target, name) => (name === 'now' ? now : (Reflect.get(target, name) as unknown)),
  });
}

interface Statement {
  text: string;
  values: readonly unknown[];
}

type Query = (...args: unknown[]) => unknown;

function watchStatements(): void {
  const prototype = pg.Client.prototype as unknown as { query: Query };
  const query = prototype.query;
  /** Connections on which the fatal statement has run, in a transaction still open. */
  const passed = new WeakSet<object>();
  const open = new WeakSet<object>();
  prototype.query = function watched(this: object, ...args: unknown[]) {
    const statement = readStatement(args);
    if (statement.text === 'begin') open.add(this);
    if (statement.text === 'commit' || statement.text === 'rollback') open.delete(this);
    const point = deadly;
    const hits = point !== undefined && isAt(point, statement);
    if (hits && point.when === 'before') die();
    if (hits && open.has(this)) passed.add(this);
    const isLast = (hits && !open.has(this)) || (statement.text === 'commit' && passed.has(this));
    return isLast ? dieAfter(query, this, args) : query.apply(this, args);
  };
}

/** Kills the process with the answer, before anything else sees it. */
function dieAfter(query: Query, client: object, args: unknown[]): unknown {
  const callback = args.at(-1);
  if (typeof callback === 'function') {
    const last = (error: unknown, result: unknown) => (error ? (callback as Query)(error, result) : die());
    return query.apply(client, [...args.slice(0, -1), last]);
  }
  const answer = query.apply(client, args) as Promise<unknown>;
  answer.then(die, () => undefined);
  return answer;
}

function readStatement([first, values]: unknown[]): Statement {
  if (typeof first === 'string') return { text: first, values: Array.isArray(values) ? values : [] };
  const config = (first ?? {}) as Partial<Statement>;
  return { text: typeof config.text === 'string' ? config.text : '', values: config.values ?? [] };
}
