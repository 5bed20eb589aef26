import assert from 'node:assert/strict';
import { LIMITS } from '../../core/limits.ts';
import type { Tx } from '../../db/database.ts';
import { lastMessages } from '../../db/session-messages.ts';
import { newId } from '../../lib/new-id.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { fillTables } from '../support/queries/fill.ts';
import { DOMAIN_MODE } from '../support/modes.ts';

const LENGTH = 6000;
const EARLIER = 40;
const FORKED_AT = 5990;

/** Messages of which each third has no text: what a tool has answered. */
const CONTENT = `case when n % 3 = 2 then '[{"type": "tool_result", "tool_use_id": "t"}]'::jsonb
  else jsonb_build_array(jsonb_build_object('type', 'text', 'text', 'said '), jsonb_build_object('type', 'text', 'text', n::text)) end`;

describe('the last messages of a session', () => {
  const tenant = newId();
  const run = newId();
  const earlier = newId();
  let testDatabase: TestDatabase;

  before(async () => {
    testDatabase = await openTestDatabase(DOMAIN_MODE);
    await fillTables(testDatabase.database, {}, async (send) => {
      const write = (lineage: string, from: number, until: number) =>
        send(
          `insert into messages (tenant_id, lineage, ordinal, run_id, role, content, chain, created_at)
             select $1, $2, n, $2, (case when n % 3 = 1 then 'assistant' else 'user' end)::message_role, ${CONTENT}, '', now()
             from generate_series($3::int, $4::int - 1) n`,
          [tenant, lineage, from, until],
        );
      // The newest run stands on an earlier one, which has gone on by itself since.
      await write(earlier, 0, LENGTH);
      await write(run, FORKED_AT, FORKED_AT + EARLIER);
      await send(
        `insert into runs (id, tenant_id, workspace_id, agent_id, agent_version, thread_id, kind, status, turn_count, config,
           pinned, keep_open, lineage, lineage_base, base_length, length, steps, tokens_in, tokens_out, depth, created_at,
           updated_at, last_seq, fence, dormant)
         values ($1, $2, $2, $2, '1.0.0', $1, 'agent', 'completed', 1, '{}', '{}', false, $1,
           jsonb_build_array(jsonb_build_object('lineage', $3::text, 'length', $4::int)), $4, $5, 1, 0, 0, 0, now(), now(), 9, 1, true)`,
        [run, tenant, earlier, FORKED_AT, FORKED_AT + EARLIER],
      );
    });
  });
  after(() => testDatabase.close());

  it('are those with a text, oldest first, over the runs that the conversation is made of', async () => {
    const found = await testDatabase.database.withTenant(tenant, (tx) =>
      lastMessages(tx, run, { limit: 50, window: 1000 }),
    );
    const places = Array.from({ length: FORKED_AT + EARLIER }, (_, n) => n).filter((n) => n % 3 !== 2);
    assert.deepEqual(
      found,
      places.slice(-50).map((n) => ({ role: n % 3 === 1 ? 'assistant' : 'user', content: `said ${n}` })),
    );
  });

  it('are looked for no further back than the window', async () => {
    const found = await testDatabase.database.withTenant(tenant, (tx) =>
      lastMessages(tx, run, { limit: 50, window: 6 }),
    );
    assert.equal(found.length, 4);
  });

  it('cost the reading of a few times as many as are shown, whatever the length of the conversation', async () => {
    const plans: Plan[] = [];
    await testDatabase.database.withTenant(tenant, async (tx) => {
      const explaining: Tx = {
        last: (text, values) => tx.last(text, values),
        async query<R extends object>(text: string, values?: readonly unknown[]): Promise<R[]> {
          const [row] = await tx.query<{ 'QUERY PLAN': [{ Plan: Plan }] }>(
            `explain (analyze, format json) ${text}`,
            values,
          );
          if (row) plans.push(row['QUERY PLAN'][0].Plan);
          return tx.query<R>(text, values);
        },
      };
      await lastMessages(explaining, run, { limit: 50, window: 1000 });
    });
    const read = plans.reduce((sum, plan) => sum + rowsOf(plan), 0);
    assert.ok(read > 0 && read <= 200, `${read} messages were read`);
  });

  it('are no more than fit on a page', async () => {
    await fillTables(testDatabase.database, {}, async (send) => {
      await send(
        `update messages set content = jsonb_build_array(jsonb_build_object('type', 'text', 'text', repeat('x', $2::int)))
           where lineage = $1 and ordinal > $3`,
        [run, Math.floor(LIMITS.eventsPageBytes / 3), FORKED_AT + 10],
      );
    });
    const found = await testDatabase.database.withTenant(tenant, (tx) =>
      lastMessages(tx, run, { limit: 50, window: 1000 }),
    );
    assert.equal(found.length, 4);
  });
});

interface Plan {
  'Node Type': string;
  'Relation Name'?: string;
  'Actual Rows': number;
  'Actual Loops': number;
  Plans?: Plan[];
}

/** Of `messages`, with all its partitions. */
function rowsOf(plan: Plan): number {
  const own = plan['Relation Name']?.startsWith('messages') ? plan['Actual Rows'] * plan['Actual Loops'] : 0;
  return (plan.Plans ?? []).reduce((sum, each) => sum + rowsOf(each), own);
}
