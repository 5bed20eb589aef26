/** Its subject is SQL: a page of a list costs what it shows, however long the list is. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { listAuditRows } from '../../db/audit.ts';
import { listThreadTurns, type TurnOfThread } from '../../db/conversations.ts';
import type { Tx } from '../../db/database.ts';
import { readBeginnings } from '../../db/thread-beginnings.ts';
import { listRuns } from '../../db/runs.ts';
import { listDeliveries } from '../../db/webhook-deliveries.ts';
import { newId } from '../../lib/new-id.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { fillTables, idsOf } from '../support/queries/fill.ts';
import { countRowsRead } from '../support/queries/postgres.ts';
import { sized } from '../support/size.ts';

const ROWS = sized({ usual: 3000, nightly: 20_000 });
const limit = 20;
/** A page may look at so many rows, of all its tables. */
const MOST = 40 * limit;
/** And at so many for each fork behind it. */
const MOST_OF_FORK = 30;
const idOf = (name: string) =>
  createHash('md5')
    .update(name)
    .digest('hex')
    .replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
/** The thread of a fork of a fork and so on, with the turns of so many. */
const threadOf = (forks: number) => idOf(`g${forks}`);
/** So many forks of one run: with all turns before it, or each with a different number of the first ones. */
const BESIDE = 50;

describe(`A page of a list of ${ROWS} rows`, () => {
  const tenant = newId();
  const thread = newId();
  let testDatabase: TestDatabase;

  before(async () => {
    testDatabase = await openTestDatabase(DOMAIN_MODE);
    await fillTables(testDatabase.database, { tenant, thread }, async (run) => {
      const series = `from generate_series(1, ${ROWS}) as i`;
      // One in 500 has had three turns, one has had none, and one is forked from a run that had seven.
      const first = 'case when i % 500 = 7 then 8 else 1 end';
      const turns = 'case when i % 500 = 3 then 3 when i % 500 = 5 then 0 else 1 end';
      await run(`insert into runs (id, tenant_id, workspace_id, agent_id, agent_version, thread_id, thread_place, kind, status, turn_count, config,
          pinned, keep_open, lineage, lineage_base, base_length, length, steps, tokens_in, tokens_out, depth, created_at, updated_at, last_seq, fence,
          dormant, forked_from_run_id)
        select ${idsOf('r')}, $tenant, $tenant, $tenant, '1.0.0', $thread, i, 'agent', 'completed', ${first} + ${turns} - 1, '{}', '{}', false,
          ${idsOf('r')}, '[]', 0, 2, 1, 0, 0, 0, now(), now(), 9, 1, true, case when ${first} > 1 then ${idsOf('x')} end ${series}`);
      await run(`insert into turns (id, tenant_id, run_id, number, status, input, steps, tokens_in, tokens_out, created_at, output_ordinal)
        select md5('u' || i || ' ' || n)::uuid, $tenant, ${idsOf('r')}, n, 'complete', '{"message": "m"}', 1, 0, 0, now(), 1
          ${series}, generate_series(${first}, ${first} + ${turns} - 1) as n`);
      await run(`insert into messages (tenant_id, lineage, ordinal, run_id, role, content, chain, created_at)
        select $tenant, ${idsOf('r')}, 1, ${idsOf('r')}, 'assistant', '[{"type": "text", "text": "said"}]', '', now() ${series}`);
      const segments = (count: string) =>
        `(select coalesce(jsonb_agg(jsonb_build_object('lineage', md5('f' || j)::uuid, 'length', 2 * j) order by j), '[]')
          from generate_series(1, ${count}) as j)`;
      // Each run of one turn is forked from the one before, at its end.
      const chain = 'from generate_series(1, 200) as i';
      await run(`insert into runs (id, tenant_id, workspace_id, agent_id, agent_version, thread_id, thread_place, kind, status, turn_count, config,
          pinned, keep_open, lineage, lineage_base, base_length, length, steps, tokens_in, tokens_out, depth, created_at, updated_at, last_seq, fence,
          dormant, forked_from_run_id)
        select ${idsOf('f')}, $tenant, $tenant, $tenant, '1.0.0', ${idsOf('g')}, 1, 'agent', 'completed', i, '{}', '{}', false,
          ${idsOf('f')}, ${segments('i - 1')}, 2 * i - 2, 2 * i, 1, 0, 0, 0, now(), now(), 9, 1, true, case when i > 1 then md5('f' || i - 1)::uuid end ${chain}`);
      await run(`insert into turns (id, tenant_id, run_id, number, status, input, steps, tokens_in, tokens_out, created_at, output_ordinal)
        select ${idsOf('v')}, $tenant, ${idsOf('f')}, i, 'complete', '{"message": "m"}', 1, 0, 0, now(), 2 * i - 1 ${chain}`);
      await run(`insert into run_log (run_id, seq, tenant_id, workspace_id, type, schema_version, payload, actor, occurred_at)
        select ${idsOf('f')}, 2, $tenant, $tenant, 'run.forked', 3, jsonb_build_object('turn_count', i - 1, 'modified', '[]'::jsonb), 'user', now()
          ${chain} where i > 1`);
      await run(`insert into messages (tenant_id, lineage, ordinal, run_id, role, content, chain, created_at)
        select $tenant, ${idsOf('f')}, 2 * i - 1, ${idsOf('f')}, 'assistant', '[]', '', now() ${chain}`);
      // A thread of runs that write one conversation, of two turns each.
      await run(`insert into runs (id, tenant_id, workspace_id, agent_id, agent_version, thread_id, thread_place, kind, status, turn_count, config,
          pinned, keep_open, lineage, lineage_base, base_length, length, steps, tokens_in, tokens_out, depth, created_at, updated_at, last_seq, fence,
          dormant)
        select ${idsOf('h')}, $tenant, $tenant, $tenant, '1.0.0', '${idOf('long')}', i, 'agent', 'completed', 2, '{}', '{}', false,
          md5('h1')::uuid, '[]', 4 * i - 4, 4 * i, 1, 0, 0, 0, now(), now(), 9, 1, true ${series}`);
      await run(`insert into turns (id, tenant_id, run_id, number, status, input, steps, tokens_in, tokens_out, created_at, output_ordinal)
        select md5('i' || i || ' ' || n)::uuid, $tenant, ${idsOf('h')}, n, 'complete', '{"message": "m"}', 1, 0, 0, now(), 4 * i - 5 + 2 * n
          ${series}, generate_series(1, 2) as n`);
      await run(`insert into messages (tenant_id, lineage, ordinal, run_id, role, content, chain, created_at)
        select $tenant, md5('h1')::uuid, 4 * i - 5 + 2 * n, ${idsOf('h')}, 'assistant', '[]', '', now() ${series}, generate_series(1, 2) as n`);
      // Forks of its last run, at its end or keeping some turns; and of the last of the chain, keeping some turns.
      const kept = `2 * (i * ${Math.floor(ROWS / BESIDE)} * 2 - 1)`;
      const ofLong = (length: string) =>
        `jsonb_build_array(jsonb_build_object('lineage', md5('h1')::uuid, 'length', ${length}))`;
      const forks = [
        { name: 'whole', of: idOf(`h${ROWS}`), had: 2, modified: [], base: ofLong(`${4 * ROWS}`) },
        { name: 'kept', of: idOf(`h${ROWS}`), had: 2, modified: ['messages'], base: ofLong(kept) },
        { name: 'far', of: idOf('f200'), had: 200, modified: ['messages'], base: segments('i') },
      ];
      for (const { name, of, had, modified, base } of forks) {
        const beside = `from generate_series(1, ${BESIDE}) as i`;
        await run(`insert into runs (id, tenant_id, workspace_id, agent_id, agent_version, thread_id, thread_place, kind, status, turn_count, config,
            pinned, keep_open, lineage, lineage_base, base_length, length, steps, tokens_in, tokens_out, depth, created_at, updated_at, last_seq,
            fence, dormant, forked_from_run_id)
          select ${idsOf(`${name} run `)}, $tenant, $tenant, $tenant, '1.0.0', ${idsOf(`${name} `)}, 1, 'agent', 'completed', ${had}, '{}', '{}', false,
            ${idsOf(`${name} run `)}, ${base}, 0, 0, 1, 0, 0, 0, now(), now(), 9, 1, true, '${of}' ${beside}`);
        await run(`insert into run_log (run_id, seq, tenant_id, workspace_id, type, schema_version, payload, actor, occurred_at)
          select ${idsOf(`${name} run `)}, 2, $tenant, $tenant, 'run.forked', 3, '${JSON.stringify({ turn_count: had, modified })}', 'user', now()
            ${beside}`);
      }
      // Ids go the other way than the clock of the database, as those of processes may.
      await run(`insert into audit_log (id, tenant_id, action, actor_type, actor_id, target_type, target_id, created_at)
        select lpad(to_hex(${ROWS} - i), 32, '0')::uuid, $tenant, case when i % 1000 = 1 then 'agent.updated' else 'agent.created' end, 'api_key',
          md5('k' || i % 3)::uuid, 'agent', 'a' || i % 5, now() - (${ROWS} - i) * interval '1 minute' ${series}`);
      await run(`insert into webhook_deliveries (id, tenant_id, webhook_id, type, status, created_at)
        select ${idsOf('d')}, $tenant, $thread, 't', case when i % 1000 = 1 then 'failed' else 'pending' end,
          now() - (${ROWS} - i) * interval '1 minute' ${series}`);
    });
  });
  after(() => testDatabase.close());

  const reading = async <T>(read: (tx: Tx) => Promise<T>) => {
    const { counts, found } = await countRowsRead(testDatabase.database, tenant, read);
    return { count: [...counts.values()].reduce((sum, each) => sum + each, 0), found };
  };

  it('of turns of a thread looks at those it shows, wherever it begins', async () => {
    for (const place of [undefined, Math.ceil(ROWS / 2), 30]) {
      const before = place === undefined ? undefined : { forks: 0, place, number: 1 };
      const { count, found } = await reading((tx) =>
        listThreadTurns(tx, { id: thread, is_forked: false }, { before, limit }),
      );
      assert.equal(found.rows.length, limit);
      assert.ok(count <= MOST, `${count} rows were read from ${place ?? 'the end'}`);
    }
  });

  it('of runs of a thread looks at those it shows, newest first', async () => {
    const first = await reading((tx) => listRuns(tx, { threadId: thread, limit }));
    const before = first.found.rows.at(-1)?.id;
    const second = await reading((tx) => listRuns(tx, { threadId: thread, before, limit }));
    const places = [first, second].flatMap(({ found }) => found.rows.map(({ thread_place: place }) => place));
    assert.deepEqual(
      places,
      Array.from({ length: 2 * limit }, (_, index) => ROWS - index),
    );
    for (const { count } of [first, second]) assert.ok(count <= MOST, `${count} rows were read`);
  });

  it('of turns numbers them through their thread, past runs of several turns, of none, and forked ones', async () => {
    const walked: { run_id: string; number: number; sequence_number: number }[] = [];
    let before: TurnOfThread | undefined;
    do {
      const from = before;
      const { rows, more } = await testDatabase.database.withTenant(tenant, (tx) =>
        listThreadTurns(tx, { id: thread, is_forked: false }, { before: from, limit: 199 }),
      );
      walked.push(...rows);
      const last = rows.at(-1);
      before = more && last ? { forks: 0, place: last.thread_place, number: last.number } : undefined;
    } while (before);
    const all = await testDatabase.database.withTenant(tenant, (tx) =>
      tx.query<{ run_id: string; number: number; sequence_number: number }>(
        `select u.run_id, u.number, row_number() over (order by r.thread_place, u.number)::int as sequence_number
           from runs r join turns u on u.run_id = r.id where r.thread_id = $1 order by sequence_number desc`,
        [thread],
      ),
    );
    const told = walked.map(({ run_id, number, sequence_number }) => ({ run_id, number, sequence_number }));
    assert.deepEqual(told, all);
  });

  it('of turns goes back through forks of forks, each of which it looks at once', async () => {
    const forkOf = (forks: number) => ({ id: threadOf(forks), is_forked: true });
    for (const forks of [20, 200]) {
      const { count, found } = await reading((tx) => listThreadTurns(tx, forkOf(forks), { limit: 1 }));
      assert.deepEqual(
        found.rows.map(({ number }) => number),
        [forks],
      );
      assert.ok(count <= MOST_OF_FORK * forks, `${count} rows were read of ${forks} forks`);
      const all = await reading((tx) => listThreadTurns(tx, forkOf(forks), { limit: 500 }));
      assert.deepEqual(
        all.found.rows.map(({ number }) => number),
        Array.from({ length: forks }, (_, back) => forks - back),
      );
      const last = { forks: 9, place: 1, number: forks - 9 };
      const next = await reading((tx) => listThreadTurns(tx, forkOf(forks), { before: last, limit: 5 }));
      assert.deepEqual(
        next.found.rows.map(({ number }) => number),
        [10, 11, 12, 13, 14].map((back) => forks - back),
      );
    }
    const threads = Array.from({ length: 50 }, (_, back) => threadOf(200 - back));
    const { count, found } = await reading((tx) => readBeginnings(tx, threads));
    assert.deepEqual(
      threads.map((id) => found.get(id)?.turns),
      Array.from({ length: 50 }, (_, back) => 199 - back),
    );
    assert.ok(count <= MOST_OF_FORK * 200, `${count} rows were read of 50 of 200 forks`);
  });

  it('of turns of many forks looks once at the thread that they were forked from, whatever they keep of it', async () => {
    const numbers = Array.from({ length: BESIDE }, (_, index) => index + 1);
    const step = Math.floor(ROWS / BESIDE);
    const pages = [
      { name: 'whole', behind: 2 * ROWS, turns: () => 2 * ROWS, last: () => idOf(`i${ROWS} 2`) },
      {
        name: 'kept',
        behind: 2 * ROWS,
        turns: (n: number) => 2 * n * step - 1,
        last: (n: number) => idOf(`i${n * step} 1`),
      },
      { name: 'far', behind: MOST_OF_FORK * 200, turns: (n: number) => n, last: (n: number) => idOf(`v${n}`) },
    ];
    for (const { name, behind, turns, last } of pages) {
      const threads = numbers.map((n) => idOf(`${name} ${n}`));
      const { count, found } = await reading((tx) => readBeginnings(tx, threads));
      assert.deepEqual(
        threads.map((id) => found.get(id)),
        numbers.map((n) => ({ turns: turns(n), lastTurnId: last(n) })),
      );
      assert.ok(count <= behind + MOST_OF_FORK * BESIDE, `${count} rows were read of ${BESIDE} forks, ${name}`);
    }
  });

  it('of the thread of a fork that keeps the first turns of a long one looks at those', async () => {
    const { count, found } = await reading((tx) =>
      listThreadTurns(tx, { id: idOf('kept 1'), is_forked: true }, { limit: 1 }),
    );
    assert.deepEqual(
      found.rows.map(({ id }) => id),
      [idOf(`i${Math.floor(ROWS / BESIDE)} 1`)],
    );
    assert.ok(count <= MOST, `${count} rows were read`);
  });

  it('of the audit log looks at those it shows, whatever it is asked for', async () => {
    const ago = (rows: number) => new Date(Date.now() - rows * 60_000).toISOString();
    const first = await reading((tx) => listAuditRows(tx, { limit }));
    const filters: Record<string, Omit<Parameters<typeof listAuditRows>[1], 'limit'>> = {
      'a later page': { before: first.found.at(-1)?.id },
      'of before all': { createdBefore: ago(2 * ROWS) },
      'of before most': { createdBefore: ago(ROWS - 100) },
      'of after all': { createdAfter: ago(-ROWS) },
      'of a target that there is not': { targetId: newId() },
      'of a target, a later page': { targetId: 'a2', before: first.found.at(-1)?.id },
      'of a key that has done nothing': { actorId: newId() },
      'of a rare act': { action: 'agent.updated' },
      'of a frequent act before most': { action: 'agent.created', createdBefore: ago(ROWS - 100) },
    };
    for (const [what, filter] of Object.entries(filters)) {
      const { count } = await reading((tx) => listAuditRows(tx, { ...filter, limit }));
      assert.ok(count <= MOST, `${what}: ${count} rows were read`);
    }
  });

  it('of the audit log goes on where the one before has ended, by the clock of the database', async () => {
    const times: string[] = [];
    let before: string | undefined;
    do {
      const from = before;
      const rows = await testDatabase.database.withTenant(tenant, (tx) =>
        listAuditRows(tx, { before: from, limit: 500 }),
      );
      times.push(...rows.map(({ created_at: at }) => at));
      before = rows.at(-1)?.id;
    } while (before);
    assert.equal(times.length, ROWS);
    assert.deepEqual(times, times.toSorted().toReversed());
  });

  it('of deliveries of a webhook looks at those it shows, whatever their status', async () => {
    const middle = await reading((tx) => listDeliveries(tx, { webhookId: thread, limit: Math.ceil(ROWS / 2) }));
    const before = middle.found.at(-1)?.id;
    const filters = [
      { status: 'failed' },
      { status: 'delivered' },
      { status: 'pending' },
      { before },
      { status: 'failed', before },
      { status: 'pending', before },
    ];
    for (const filter of filters) {
      const { count, found } = await reading((tx) => listDeliveries(tx, { ...filter, webhookId: thread, limit }));
      assert.ok(count <= MOST, `${JSON.stringify(filter)}: ${count} rows were read`);
      assert.ok(found.length > 0 || filter.status === 'delivered');
    }
  });
});
