/** Its subject is SQL: what an erasure reads does not grow with what there is beside the run. */
import assert from 'node:assert/strict';
import type { Tx } from '../../db/database.ts';
import { ERASERS, holdAnswers } from '../../db/erasure.ts';
import { clearInRuns } from '../../db/memory-forget.ts';
import { newId } from '../../lib/new-id.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { fillTables, idsOf } from '../support/queries/fill.ts';
import { countRowsRead } from '../support/queries/postgres.ts';
import { sized } from '../support/size.ts';

const KEYS = sized({ usual: 3000, nightly: 200_000 });
/** Three of them show the run, a task and a handoff of it. */
const MOST = 3;

describe(`An erasure among ${KEYS} answers of the day`, () => {
  const [tenant, run, task, handoff] = [newId(), newId(), newId(), newId()];
  let testDatabase: TestDatabase;

  before(async () => {
    testDatabase = await openTestDatabase(DOMAIN_MODE);
    await fillTables(testDatabase.database, { tenant, run, task, handoff }, async (send) => {
      const answers = `insert into idempotency_keys (tenant_id, route, key, body_digest, status, response)
        select $tenant, 'POST ' || route, 'k' || i, '', 202, answer from generate_series(1, ${KEYS}) as i,`;
      // As to runs, and as to whatever is made with an id.
      await send(`${answers} lateral (values
        ('runs', jsonb_build_object('run_id', ${idsOf('r')}, 'turn_id', ${idsOf('u')}, 'status', 'running')),
        ('tasks', jsonb_build_object('id', ${idsOf('t')}, 'description', 'of another run'))) as made (route, answer)`);
      await send(`insert into idempotency_keys (tenant_id, route, key, body_digest, status, response)
        select $tenant, 'POST ' || (answer->>'id'), 'own', '', 202, answer from unnest(array[
          jsonb_build_object('id', $run, 'run_id', $run, 'name', 'said'), jsonb_build_object('id', $task, 'description', 'said'),
          jsonb_build_object('id', $handoff, 'summary', '{}'::jsonb)]) as answer`);
      await send(`insert into tasks (id, tenant_id, workspace_id, workflow_id, name, description, requirements, dependencies, status, place)
        values ($task, $tenant, $tenant, $run, 'task-1', 'said', '{}', '{}', 'pending', 0)`);
      await send(`insert into handoffs (id, tenant_id, workspace_id, source_run_id, source_agent_id, target_agent_id, place, carried_by,
          status, reason, urgency, context, schema_version, checksum, target_tokens, summary, summary_tokens, full_tokens)
        values ($handoff, $tenant, $tenant, $run, $run, $run, 0, 'run', 'completed', '', 'medium', '{}', '1.0', '', 1,
          jsonb_build_object('memory_fragments', jsonb_build_array(jsonb_build_object('id', $task))), 1, 1)`);
    });
  });
  after(() => testDatabase.close());

  const keysRead = async <T>(read: (tx: Tx) => Promise<T>) =>
    (await countRowsRead(testDatabase.database, tenant, read)).counts.get('idempotency_keys') ?? 0;

  it('locks and empties those that show the run or its work without a look at the others', async () => {
    const held = await keysRead((tx) => holdAnswers(tx, run));
    assert.ok(held > 0 && held <= MOST, `${held} keys were read to lock them`);
    const emptied = await keysRead((tx) => tx.query(ERASERS['idempotency_keys'] ?? '', [run]));
    assert.ok(emptied > 0 && emptied <= MOST, `${emptied} keys were read to empty them`);
  });

  it('forgets what the run has remembered without a look at them', async () => {
    const read = await keysRead((tx) => clearInRuns(tx, { ids: [task], runs: [run] }));
    assert.ok(read > 0 && read <= MOST, `${read} keys were read`);
  });
});
