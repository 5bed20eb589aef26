/** The cost of memory: adding an entry, and recalling among many. */
import pg from 'pg';
import { addMemory, toMemoryRow } from '../modules/memory/add-memory.ts';
import { recall } from '../modules/memory/recall.ts';
import { newId } from '../lib/new-id.ts';
import { DEFAULT_TENANT_ID } from '../modules/tenants/bootstrap.ts';
import { openDrover } from './drover.ts';
import type { Figure } from './figures.ts';
import type { Services } from './services.ts';
import { quantile } from './work.ts';

const ENTRIES = 100_000;
const SAMPLES = 200;
const WORDS =
  'launch budget train river garden meeting invoice teacher engine coffee bridge forest window letter market doctor'.split(
    ' ',
  );

/** Adds to, and recalls from, a hundred thousand entries of one agent, by words. */
export async function measureMemory(services: Services): Promise<Figure[]> {
  const drover = await openDrover('pure', services);
  const client = new pg.Client(services.databaseUrl);
  await client.connect();
  const { context } = drover;
  const tenantId = DEFAULT_TENANT_ID;
  const agentId = newId();
  const from = { tenantId, agentId, origin: 'user' as const };
  const sentence = (n: number) => {
    const word = (by: number) => WORDS[Math.floor(n / by) % WORDS.length] ?? '';
    return `The ${word(1)} of customer ${n % 5000} needs a ${word(16)} near the ${word(256)} by day ${n % 365}.`;
  };
  try {
    await fill(client, { tenantId, agentId });
    const adds = await timesOf(async (n) => {
      const row = toMemoryRow({ content: sentence(n * 37), memory_type: 'SEMANTIC' }, from);
      await context.db.withTenant(tenantId, (tx) => addMemory(tx, row));
    });
    const recalls = await timesOf(async (n) => {
      const text = `What does customer ${(n * 131) % 5000} need near the ${WORDS[n % WORDS.length]}?`;
      const question = { text, at: new Date(), topK: 10, model: undefined };
      await recall(context, { tenantId, agentId, operation: 'query' }, question);
    });
    const figure = (what: string, value: number, goal: string): Figure => ({
      part: 'memory',
      what,
      value,
      unit: 'ms',
      goal,
    });
    return [
      figure(`add among ${ENTRIES} entries, p95`, quantile(adds, 0.95), '< 20 ms'),
      figure(`recall among ${ENTRIES} entries, p50`, quantile(recalls, 0.5), '< 50 ms'),
      figure(`recall among ${ENTRIES} entries, p95`, quantile(recalls, 0.95), '< 50 ms'),
    ];
  } finally {
    await client.end();
    await drover.close();
  }
}

/** Fills the tables as that many additions would, in three statements. */
async function fill(client: pg.Client, { tenantId, agentId }: { tenantId: string; agentId: string }): Promise<void> {
  const words = `array[${WORDS.map((word) => `'${word}'`).join(',')}]`;
  const word = (by: number) => `(${words})[1 + (n / ${by}) % ${WORDS.length}]`;
  await client.query(
    `insert into memory_entries (id, tenant_id, agent_id, thread_id, memory_type, content, content_hash, origin, root_id, tokens)
     select i.id, $1, $2, 'thread-' || n / 200, 'SEMANTIC', c.content, md5(c.content), 'user', i.id, 20
       from generate_series(1, ${ENTRIES}) n cross join lateral (select gen_random_uuid() as id, n as of) i cross join lateral (
         select 'The ' || ${word(1)} || ' of customer ' || n % 5000 || ' needs a ' || ${word(16)} || ' near the ' || ${word(256)}
           || ' by day ' || n % 365 || '.' as content) c`,
    [tenantId, agentId],
  );
  await client.query(
    `insert into memory_terms (tenant_id, owner_id, term, entry_id, tf, len)
     select e.tenant_id, e.agent_id, w.lexeme, e.id, cardinality(w.positions), 12 from memory_entries e
       cross join lateral unnest(to_tsvector('english', e.content)) w where e.agent_id = $1`,
    [agentId],
  );
  await client.query('analyze memory_entries, memory_terms');
}

async function timesOf(work: (n: number) => Promise<void>): Promise<number[]> {
  for (let n = 0; n < 20; n++) await work(n);
  const times: number[] = [];
  for (let n = 20; n < SAMPLES + 20; n++) {
    const startedMs = performance.now();
    await work(n);
    times.push(performance.now() - startedMs);
  }
  return times;
}
