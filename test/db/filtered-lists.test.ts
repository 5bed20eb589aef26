/** Its subject is SQL: a list costs what it shows, however few of many rows its filters leave. */
import assert from 'node:assert/strict';
import type { AgentStatus } from '../../core/agent-lifecycle.ts';
import { listAgents } from '../../db/agents.ts';
import type { Tx } from '../../db/database.ts';
import { listRuns } from '../../db/runs.ts';
import { listThreads } from '../../db/threads.ts';
import { listTools } from '../../db/tools.ts';
import { listWorkers } from '../../db/workers.ts';
import { newId } from '../../lib/new-id.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { fillTables, idsOf } from '../support/queries/fill.ts';
import { countRowsRead, plansOf } from '../support/queries/postgres.ts';
import { sized } from '../support/size.ts';

const ROWS = sized({ usual: 3000, nightly: 20_000 });
const limit = 20;
/** A list may look at so many rows, of all its tables. */
const MOST = 10 * limit;
/** Each has `of: all`, one in a thousand also `rare: yes`. */
const METADATA = `jsonb_build_object('of', 'all') || case when i % 1000 = 3 then '{"rare": "yes"}' else '{}' end::jsonb`;

type Metadata = Record<string, string>;

describe(`A list of ${ROWS} rows of which its filter leaves few`, () => {
  const [tenant, workspace] = [newId(), newId()];
  let testDatabase: TestDatabase;

  before(async () => {
    testDatabase = await openTestDatabase(DOMAIN_MODE);
    await fillTables(testDatabase.database, { tenant, workspace }, async (run) => {
      const series = `from generate_series(1, ${ROWS}) as i`;
      await run(`insert into tools (id, tenant_id, name, status, current_version)
        select ${idsOf('t')}, $tenant, 't' || i, 'registered', '1.0.0' ${series}`);
      await run(`insert into tool_versions (tool_id, version, ordinal, tenant_id, definition, content_hash)
        select ${idsOf('t')}, '1.0.0', 1, $tenant, '{}', '' ${series}`);
      // Each needs `all`, one in a thousand also `rare`.
      await run(`insert into tool_permissions (tenant_id, name, tool_id, version) select $tenant, needed, ${idsOf('t')}, '1.0.0'
        ${series}, unnest('{all,rare}'::text[]) as needed where needed = 'all' or i % 1000 = 1`);
      // One in a thousand is offline, another one has a task.
      await run(`insert into agents (id, tenant_id, workspace_id, name, status, current_version)
        select ${idsOf('a')}, $tenant, $workspace, 'a' || i, case when i % 1000 = 1 then 'offline' else 'active' end, '1.0.0' ${series}`);
      await run(`insert into agent_versions (agent_id, version, ordinal, tenant_id, definition, content_hash)
        select ${idsOf('a')}, '1.0.0', 1, $tenant, jsonb_build_object('metadata', ${METADATA}), '' ${series}`);
      await run(`insert into threads (id, tenant_id, workspace_id, agent_id, created_at, metadata)
        select ${idsOf('h')}, $tenant, $workspace, ${idsOf('a')}, now() + i * interval '1 second', ${METADATA} ${series}`);
      await run(`insert into runs (id, tenant_id, workspace_id, agent_id, agent_version, thread_id, kind, status, turn_count, config,
          pinned, keep_open, lineage, lineage_base, base_length, length, steps, tokens_in, tokens_out, depth, created_at,
          updated_at, last_seq, fence, dormant, rolled_up, metadata)
        select ${idsOf('r')}, $tenant, $workspace, ${idsOf('a')}, '1.0.0', ${idsOf('h')}, 'agent', 'completed', 1, '{}',
          '{}', false, ${idsOf('r')}, '[]', 0, 2, 1, 0, 0, 0, now(), now(), 9, 1, true, true, ${METADATA} ${series}`);
      for (const [kind, ids] of Object.entries({ agent: idsOf('a'), thread: idsOf('h'), run: idsOf('r') }))
        await run(
          `insert into metadata_entries select $tenant, metadata_entries_of('${kind}', ${METADATA}), ${ids} ${series}`,
        );
      await run(`insert into tasks (id, tenant_id, workspace_id, workflow_id, name, description, requirements, dependencies, place, status, assigned_agent_id)
        select ${idsOf('k')}, $tenant, $workspace, $workspace, 'task-1', '', '{}', '{}', 0,
          case when i % 1000 = 2 then 'in_progress' else 'completed' end, ${idsOf('a')} ${series}`);
    });
  });
  after(() => testDatabase.close());

  /** What is found, and that nearly nothing else was read for it. */
  const found = async <T>(read: (tx: Tx) => Promise<T>) => {
    const answer = await countRowsRead(testDatabase.database, tenant, read);
    const count = [...answer.counts.values()].reduce((sum, each) => sum + each, 0);
    assert.ok(count <= MOST, `${count} rows were read`);
    return answer.found;
  };
  const few = ROWS / 1000;

  it('is that of the tools that need all these permissions', async () => {
    const needing = (...permissions: string[]) => found((tx) => listTools(tx, { permissions, limit }));
    assert.deepEqual((await needing('none')).rows, []);
    assert.deepEqual((await needing('all', 'none')).rows, []);
    assert.equal((await needing('rare')).rows.length, Math.min(few, limit));
    assert.equal((await needing('rare', 'all', 'rare')).rows.length, Math.min(few, limit));
    assert.equal((await needing('all')).rows.length, limit);
  });

  it('is that of the agents with a status, whatever makes it', async () => {
    const having = (status: AgentStatus) => found((tx) => listAgents(tx, { workspaceId: workspace, status, limit }));
    const counts: Record<string, number> = {};
    for (const status of ['active', 'idle', 'busy', 'offline', 'deprecated'] as const)
      counts[status] = (await having(status)).rows.filter((row) => row.status === status).length;
    const some = Math.min(few, limit);
    assert.deepEqual(counts, { active: limit, idle: 0, busy: some, offline: some, deprecated: 0 });
  });

  const lists: Record<string, (tx: Tx, metadata: Metadata) => Promise<{ rows: unknown[] }>> = {
    agents: (tx, metadata) => listAgents(tx, { workspaceId: workspace, metadata, limit }),
    runs: (tx, metadata) => listRuns(tx, { workspaceId: workspace, metadata, limit }),
    threads: async (tx, metadata) => ({
      rows: await listThreads(tx, { workspaceId: workspace, metadata, limit }),
    }),
  };
  for (const [what, list] of Object.entries(lists)) {
    it(`is that of the ${what} with all these entries of metadata`, async () => {
      const having = async (metadata: Metadata) => (await found((tx) => list(tx, metadata))).rows.length;
      assert.equal(await having({ rare: 'no' }), 0);
      assert.equal(await having({ of: 'all', rare: 'no' }), 0);
      assert.equal(await having({ rare: 'yes' }), Math.min(few, limit));
      assert.equal(await having({ of: 'all', rare: 'yes' }), Math.min(few, limit));
      assert.equal(await having({ of: 'all' }), limit);
    });
  }

  it('joins a few of the things asked for: a plan of a hundred joins takes seconds to make', async () => {
    const names = Array.from({ length: 100 }, (_, index) => `p${index}`);
    const plans = await plansOf(testDatabase.database, tenant, async (tx) => {
      await listTools(tx, { permissions: names, limit });
      await listWorkers(tx, { workspaceId: workspace, skills: names.map((name) => [name]), isHealthless: true });
    });
    const joins = plans.match(/(?:Join|Nested Loop)[\w ]* {2}\(/g) ?? [];
    assert.ok(joins.length <= 20, `${joins.length} joins`);
    assert.equal(plans.match(/\(hashed SubPlan \d+\) IS TRUE/g)?.length, 2 * 96);
  });

  it('is that of the agents with a status of which one is looked for', async () => {
    for (const [status, count] of [
      ['idle', 0],
      ['busy', few],
      ['offline', few],
    ] as const) {
      const workers = await found((tx) =>
        listWorkers(tx, { workspaceId: workspace, skills: [], statuses: [status], isHealthless: true }),
      );
      assert.equal(workers.length, count, status);
    }
  });
});
