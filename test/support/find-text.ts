/** Looks for a text wherever an installation keeps anything. */
import { Redis } from 'ioredis';
import type { Database } from '../../db/database.ts';
import { TEST_REDIS_URL } from './modes.ts';

/** Every table, of every schema, with a row that holds the text in any column; in bytes too, and whatever the case. */
export async function tablesWith(database: Database, text: string): Promise<string[]> {
  return database.asOwner(async (client) => {
    const { rows: tables } = await client.query<{ name: string }>(
      `select format('%I.%I', table_schema, table_name) as name from information_schema.tables
       where table_type = 'BASE TABLE' and table_schema not in ('pg_catalog', 'information_schema')`,
    );
    const found: string[] = [];
    for (const { name } of tables) {
      const { rows } = await client.query(
        `select 1 from ${name} as t where strpos(lower(t::text), lower($1)) > 0 or strpos(t::text, $2) > 0 limit 1`,
        [text, Buffer.from(text).toString('hex')],
      );
      if (rows.length > 0) found.push(name);
    }
    return found;
  });
}

/** Every key of the tests' Redis with this prefix that holds the text, in its name or anywhere in its value. */
export async function redisKeysWith(prefix: string, text: string): Promise<{ searched: number; found: string[] }> {
  const client = new Redis(TEST_REDIS_URL ?? '', { lazyConnect: true, maxRetriesPerRequest: 0 });
  await client.connect();
  try {
    const keys: string[] = [];
    for await (const batch of client.scanStream({ match: `*${prefix}*` })) keys.push(...(batch as string[]));
    const found: string[] = [];
    for (const key of keys) {
      const held = JSON.stringify([key, await valueOf(client, key)]);
      if (held.toLowerCase().includes(text.toLowerCase())) found.push(key);
    }
    return { searched: keys.length, found };
  } finally {
    client.disconnect();
  }
}

async function valueOf(client: Redis, key: string): Promise<unknown> {
  const readers: Record<string, () => Promise<unknown>> = {
    string: () => client.get(key),
    hash: () => client.hgetall(key),
    list: () => client.lrange(key, 0, -1),
    set: () => client.smembers(key),
    zset: () => client.zrange(key, '0', '-1'),
    stream: () => client.xrange(key, '-', '+'),
    none: () => Promise.resolve(null),
  };
  const read = readers[await client.type(key)];
  if (!read) throw new Error(`${key} is of a type that this does not read`);
  return read();
}
