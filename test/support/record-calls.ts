/**
 * What a release asks of its database: every function call of a scenario with its answer, and the writes in between. A
 * later build replays it against its own schema (test/db/released.test.ts), since a process of the release goes on
 * working there. `npx tsx test/support/record-release.ts` makes the recording; a released version's is never made again.
 */
import { readdirSync, readFileSync } from 'node:fs';
import type { Database, Tx } from '../../db/database.ts';

export interface RecordedCall {
  /** How it was sent: by itself, in a transaction of a tenant, or in one of maintenance. */
  as: 'call' | 'tenant' | 'maintenance';
  tenantId?: string;
  text: string;
  /** JSON as a value, bytes as `{hex}`. */
  values: unknown[];
  /** Rows that a function has answered, or the code of its error; a write has none. */
  answer?: unknown[] | { error: string };
}

const FUNCTIONS = readdirSync('db/functions').flatMap((file) =>
  [...readFileSync(`db/functions/${file}`, 'utf8').matchAll(/create or replace function (\w+)\(/g)].map(
    ([, name]) => name,
  ),
);
const CALL = new RegExp(`\\b(${FUNCTIONS.join('|')})\\(\\$1`);
const WRITE = /^\s*(insert|update|delete|with)\b/i;

/** Records what goes to the database from now on, in the order in which it was done. Nothing is recorded of what is undone. */
export function recordCalls(db: Database): RecordedCall[] {
  const recorded: RecordedCall[] = [];
  const call = db.call.bind(db);
  const withTenant = db.withTenant.bind(db);
  const asMaintenance = db.asMaintenance.bind(db);
  db.call = async <R extends object>(statement: Parameters<Database['call']>[0]) => {
    const entry = { as: 'call' as const, text: statement.text, values: toRecord(statement.values) };
    try {
      const rows = await call<R>(statement);
      recorded.push({ ...entry, answer: normalise(rows) as unknown[] });
      return rows;
    } catch (error) {
      recorded.push({ ...entry, answer: { error: codeOf(error) } });
      throw error;
    }
  };
  db.withTenant = (tenantId, work) =>
    keepCommitted(recorded, { as: 'tenant', tenantId }, (record) => withTenant(tenantId, (tx) => work(record(tx))));
  db.asMaintenance = (work) =>
    keepCommitted(recorded, { as: 'maintenance' }, (record) => asMaintenance((tx) => work(record(tx))));
  return recorded;
}

type Sent = Pick<RecordedCall, 'as' | 'tenantId'>;

async function keepCommitted<T>(
  recorded: RecordedCall[],
  sent: Sent,
  transaction: (record: (tx: Tx) => Tx) => Promise<T>,
): Promise<T> {
  const done: RecordedCall[] = [];
  const record = (tx: Tx): Tx => {
    const recording =
      (how: 'query' | 'last') =>
      async <R extends object>(text: string, values: readonly unknown[] = []) => {
        const rows = await tx[how]<R>(text, values);
        const entry = { ...sent, text, values: toRecord(values) };
        if (CALL.test(text)) done.push({ ...entry, answer: normalise(rows) as unknown[] });
        else if (WRITE.test(text)) done.push(entry);
        return rows;
      };
    return { query: recording('query'), last: recording('last') };
  };
  const result = await transaction(record);
  recorded.push(...done);
  return result;
}

/** Sends a recorded statement again; answers as the recording has it. */
export async function replayCall(db: Database, { as, tenantId = '', text, values }: RecordedCall): Promise<unknown> {
  const sent = values.map(fromRecord);
  try {
    if (as === 'call') return normalise(await db.call({ name: nameOf(text), text, values: sent }));
    const work = (tx: Tx) => tx.query(text, sent);
    return normalise(await (as === 'tenant' ? db.withTenant(tenantId, work) : db.asMaintenance(work)));
  } catch (error) {
    return { error: codeOf(error) };
  }
}

/** Where an answer lacks something that the recorded one has: a path, or undefined. What is new in it is no loss. */
export function lossIn(answer: unknown, recorded: unknown, path = 'answer'): string | undefined {
  if (typeof recorded !== 'object' || recorded === null) {
    return answer === recorded
      ? undefined
      : `${path} is ${JSON.stringify(answer)} instead of ${JSON.stringify(recorded)}`;
  }
  if (typeof answer !== 'object' || answer === null) return `${path} is ${JSON.stringify(answer)}`;
  if (Array.isArray(recorded) && (!Array.isArray(answer) || answer.length !== recorded.length))
    return `${path}: its length`;
  const [had, has] = [recorded as Record<string, unknown>, answer as Record<string, unknown>];
  return Object.keys(had)
    .map((key) => lossIn(has[key], had[key], `${path}.${key}`))
    .find((loss) => loss !== undefined);
}

/** Answers differ in their times; and how long something still lasts depends on them. */
function normalise(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (key, each: unknown) =>
      key === 'back_off_ms' && Number(each) > 0 ? '<ms>' : each,
    ).replaceAll(/\d{4}-\d\d-\d\d([T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d(:\d\d)?)?)?/g, '<time>'),
  ) as unknown;
}

function toRecord(values: readonly unknown[]): unknown[] {
  return values.map((value) => {
    if (Buffer.isBuffer(value)) return { hex: value.toString('hex') };
    return typeof value === 'string' && /^[[{]/.test(value) ? { json: JSON.parse(value) as unknown } : value;
  });
}

function fromRecord(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  const { hex, json } = value as { hex?: string; json?: unknown };
  return hex === undefined ? JSON.stringify(json) : Buffer.from(hex, 'hex');
}

function nameOf(text: string): string {
  return CALL.exec(text)?.[1] ?? text;
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error);
}
