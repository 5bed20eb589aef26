import assert from 'node:assert/strict';
import { newId } from '../../lib/new-id.ts';
import { findHandoffFrom, lastHandoffs } from '../../db/handoffs.ts';
import { lastUnerasedRun, listBelow, listBelowIds } from '../../db/runs.ts';
import { findGrant } from '../../db/approvals.ts';
import { sealAuditRows } from '../../db/audit.ts';
import { findAnsweredWait } from '../../db/waits.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { asOwner, insertRun, insertThread } from '../support/stored-runs.ts';

describe('Of rows whose ids come from processes with different clocks', () => {
  const tenant = newId();
  const [run, call] = [newId(), newId()];
  let test: TestDatabase;
  /** The id of the later row is the smaller one. */
  let later: string;
  let earlier: string;

  before(async () => {
    test = await openTestDatabase(DOMAIN_MODE);
    await test.database.asOwner(async (client) => {
      await asOwner(client, `insert into tenants (id, name) values ($1, 't')`, [tenant]);
      await insertRun(client, { tenant, id: run, thread: newId(), minutesAgo: 5 });
    });
  });
  after(() => test.close());
  beforeEach(() => {
    [later, earlier] = [newId(), newId()];
  });

  /** Two rows, made a minute apart. */
  const add = (text: string, values: unknown[] = []) =>
    test.database.asOwner(async (client) => {
      await asOwner(client, text.replaceAll('$time', `now() - interval '1 minute'`), [earlier, ...values]);
      await asOwner(client, text.replaceAll('$time', 'now()'), [later, ...values]);
    });

  it('the grant that was asked for last is the one under which a call is made', async () => {
    await add(
      `insert into approvals (id, tenant_id, run_id, turn_id, kind, tool_call_id, tool, arguments, digest, status, expires_at, created_at)
         values ($1, $2, $3, $3, 'approval', $4, 'pay', '{}', 'digest', 'approved', now(), $time)`,
      [tenant, run, call],
    );
    const grant = await test.database.withTenant(tenant, (tx) => findGrant(tx, { runId: run, callId: call }));
    assert.equal(grant?.id, later);
  });

  it('the wait that began first is the one that a signal answers', async () => {
    await add(
      `insert into waits (id, tenant_id, run_id, turn_id, type, name, until, created_at)
         values ($1, $2, $3, $3, 'webhook', 'paid', now() + interval '1 hour', $time)`,
      [tenant, run],
    );
    const signal = { runId: run, type: 'webhook', name: 'paid' };
    const wait = await test.database.withTenant(tenant, (tx) => findAnsweredWait(tx, signal));
    assert.equal(wait?.id, earlier);
  });

  it('the act that was recorded first comes first in the chain of the audit log', async () => {
    await add(
      `insert into audit_log (id, tenant_id, action, actor_type, target_type, created_at)
         values ($1, $2, 'agent.created', 'api_key', 'agent', $time)`,
      [tenant],
    );
    await sealAuditRows(test.database, tenant, 10);
    const rows = await test.database.withTenant(tenant, (tx) =>
      tx.query<{ id: string }>('select id from audit_log order by seq'),
    );
    assert.deepEqual(
      rows.map(({ id }) => id),
      [earlier, later],
    );
  });

  it('the handoff that was begun last is the last of its task and of its run', async () => {
    const task = newId();
    await add(
      `insert into handoffs (id, tenant_id, workspace_id, task_id, source_agent_id, target_agent_id, source_run_id, place, carried_by, status,
           reason, urgency, context, schema_version, checksum, target_tokens, summary, summary_tokens, full_tokens, created_at)
         values ($1, $2, $2, $3, $2, $2, $4, 1, 'workflow', 'initiated', '', 'low', '{}', '1', '', 1, '{}', 1, 1, $time)`,
      [tenant, task, run],
    );
    const [last, from] = await test.database.withTenant(tenant, async (tx) => [
      (await lastHandoffs(tx, [task])).get(task),
      await findHandoffFrom(tx, run),
    ]);
    assert.deepEqual([last?.id, from?.id], [later, later]);
  });

  it('the run that was begun last is the one from whose end its thread goes on', async () => {
    const thread = newId();
    await test.database.asOwner(async (client) => {
      await insertThread(client, { tenant, id: thread });
      await insertRun(client, { tenant, id: earlier, thread, minutesAgo: 0 });
      await insertRun(client, { tenant, id: later, thread, minutesAgo: 0 });
    });
    const last = await test.database.withTenant(tenant, (tx) => lastUnerasedRun(tx, thread));
    assert.equal(last?.id, later);
  });

  it('a run comes before its children', async () => {
    const root = newId();
    await test.database.asOwner(async (client) => {
      for (const [id, minutesAgo] of [
        [root, 3],
        [earlier, 2],
        [later, 1],
      ] as const) {
        await insertRun(client, { tenant, id, thread: newId(), minutesAgo });
      }
      const setParent = 'update runs set parent_run_id = $2 where id = $1';
      await asOwner(client, setParent, [earlier, root]);
      await asOwner(client, setParent, [later, earlier]);
    });
    const [ids, shown] = await test.database.withTenant(tenant, async (tx) => [
      await listBelowIds(tx, [root]),
      await listBelow(tx, root, 10),
    ]);
    assert.deepEqual(ids, [earlier, later]);
    assert.deepEqual(
      shown.rows.map(({ id }) => id),
      [earlier, later],
    );
  });
});
