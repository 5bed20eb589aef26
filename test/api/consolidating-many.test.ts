import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { Database, Tx } from '../../db/database.ts';
import { ensureMemoryIndex } from '../../db/memory-index.ts';
import { DEFAULT_TENANT_ID } from '../../modules/tenants/bootstrap.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { addVectors, makeShortTerm } from '../support/queries/memory.ts';
import { planOf } from '../support/queries/postgres.ts';

const MODEL = 'openai/eight-numbers';
const MANY = 3300;

describe('A consolidation in a large memory', function () {
  this.timeout(300_000);
  let api: TestApi;

  before(async () => {
    api = await startTestApi(undefined, { env: { DROVER_EMBEDDING_MODEL: 'off' } });
    await ensureMemoryIndex(api.context.db, { owner: 'memory_entries', model: MODEL, dimensions: 8 });
  });
  after(() => api.close());

  /** An agent with so many entries, 50 of them of the short term and worth keeping. */
  const make = async (count: number): Promise<string> => {
    const memory_config = { consolidation: { min_age_hours: 0, importance_threshold: 0 } };
    const { json } = await api.call('POST', '/v1/agents', { body: { name: `agent ${randomUUID()}`, memory_config } });
    await addVectors({ ...api, tenantId: DEFAULT_TENANT_ID }, json.id, { model: MODEL, thread: 'a', away: 0.2, count });
    await makeShortTerm({ ...api, tenantId: DEFAULT_TENANT_ID }, json.id, 50);
    return json.id;
  };
  /** Consolidates; the plans of its searches by vectors, transaction by transaction. */
  const consolidate = async (agent: string): Promise<string[][]> => {
    const { stop } = watchSearches(api.context.db);
    const body = { strategy: 'importance', max_entries: 50 };
    const { status, text, json } = await api.call('POST', `/v1/agents/${agent}/memory/consolidate`, { body });
    const searches = stop();
    assert.equal(status, 200, text);
    assert.equal(json.consolidated + json.merged, 50);
    return searches;
  };

  it('searches by the index of their model, and lets others at the database after each few', async () => {
    const searches = await consolidate(await make(MANY));
    assert.equal(searches.length, 3);
    for (const plan of searches.flat()) assert.match(plan, /using memory_entries_near_/);
  });

  it('reads the vectors of a small one once for several of its entries', async () => {
    const searches = await consolidate(await make(300));
    assert.equal(searches.length, 3);
    for (const plan of searches.flat()) assert.doesNotMatch(plan, /using memory_entries_near_/);
  });
});

/** Notes the plan of each search by vectors until `stop`. */
function watchSearches(db: Database): { stop: () => string[][] } {
  const withTenant = db.withTenant.bind(db);
  const searches: string[][] = [];
  db.withTenant = (tenantId, work) =>
    withTenant(tenantId, async (tx) => {
      const plans: string[] = [];
      const query: Tx['query'] = async (sql, values) => {
        if (sql.includes('<=>')) plans.push(await planOf(tx, sql, values));
        return tx.query(sql, values);
      };
      const result = await work({ ...tx, query });
      if (plans.length > 0) searches.push(plans);
      return result;
    });
  return {
    stop: () => {
      db.withTenant = withTenant;
      return searches;
    },
  };
}
