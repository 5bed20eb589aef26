/** A worker is killed in the middle of a consolidation that was due. Nothing is lost, and nothing is merged twice. */
import assert from 'node:assert/strict';
import pg from 'pg';
import { loadConfig } from '../../config.ts';
import type { Database } from '../../db/database.ts';
import { openDatabase } from '../../db/open-database.ts';
import { DEFAULT_TENANT_ID } from '../../modules/tenants/bootstrap.ts';
import { createTestServices, type TestServices } from '../support/database.ts';
import { startInstallation, type Installation } from '../support/installation.ts';
import { MODES } from '../support/modes.ts';
import { ageMemories } from '../support/queries/memory.ts';
import { countWaitingIn, holdTable } from '../support/queries/postgres.ts';
import { waitUntil } from '../support/wait-until.ts';

const env = { DROVER_LEASE_MS: '3000', DROVER_SHUTDOWN_MS: '2000', DROVER_EMBEDDING_MODEL: 'off' };
const GATE = 'The gate in the north is open.';

describe('A consolidation that is due, and whose worker dies between its changes and its commit', function () {
  let services: TestServices;
  let drover: Installation;
  let db: Database;
  let agent: string;

  before(async function () {
    if (!MODES.includes('postgres')) return this.skip();
    services = await createTestServices('postgres', { forWorkers: true });
    const { url: databaseUrl = '' } = services;
    drover = await startInstallation('postgres', { databaseUrl, env, workers: [] });
    db = await openDatabase(loadConfig(services.env));
    const memory_config = { consolidation: { min_age_hours: 0, importance_threshold: 0 } };
    agent = (await drover.call('POST', '/v1/agents', { body: { name: 'keeper', memory_config } })).json.agent_id;
    for (const content of [GATE, GATE, 'The gate in the south is shut.', 'The bridge in the west is new.']) {
      const body = { content, memory_type: 'SHORT_TERM' };
      assert.equal((await drover.call('POST', `/v1/agents/${agent}/memory`, { body })).status, 201);
    }
    const asked = { body: { query: 'Which gate in the north is open?', top_k: 2 } };
    await drover.call('POST', `/v1/agents/${agent}/memory/query`, asked);
    await ageMemories({ context: { db }, tenantId: DEFAULT_TENANT_ID }, agent);
  });
  after(async () => {
    await drover?.close();
    await db?.close();
    await services?.drop();
  });

  const read = async (path: string) => (await drover.call('GET', `/v1/agents/${agent}/memory${path}`)).json;
  /** What there is, of which type and how often used; what is archived; what each consolidation did. */
  const state = async () => {
    const { entries } = await read('?limit=200');
    const { consolidations } = await read('/consolidations');
    return {
      entries: entries
        .map((each: Record<string, unknown>) => [each['content'], each['memory_type'], each['access_count']])
        .toSorted(),
      archived: (await read('/archive')).entries.map(({ content }: { content: string }) => content),
      consolidations: consolidations.map(({ consolidated, evicted }: Record<string, number>) => [
        consolidated,
        evicted,
      ]),
    };
  };

  it('leaves everything as it was, and is done once when its job is taken up again', async () => {
    const before = await state();
    assert.deepEqual(before.entries.filter(([, , uses]: unknown[]) => uses === 1).length, 2);
    const holder = new pg.Client(services.url);
    await holder.connect();
    try {
      await holdTable(holder, 'memory_consolidations');
      await drover.start('one');
      await waitUntil(
        'all is changed but not kept',
        async () => (await countWaitingIn(holder, 'insert into memory_consolidations')) > 0,
      );
      await drover.end('one', 'SIGKILL');
    } finally {
      await holder.end();
    }
    assert.deepEqual(await state(), before);
    await drover.start('one');
    await waitUntil('it is consolidated', async () => (await state()).consolidations.length > 0);
    assert.deepEqual(await state(), {
      entries: [
        ['The bridge in the west is new.', 'EPISODIC', 0],
        [GATE, 'EPISODIC', 2],
        ['The gate in the south is shut.', 'EPISODIC', 0],
      ],
      archived: [GATE],
      consolidations: [[3, 0]],
    });
  });
});
