/** The log has a row for each commit, and for each event where an earlier build has written it: both read alike. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { commitRun, NO_ROWS, type LoggedColumns } from '../../db/commit-run.ts';
import { listSteppedTurns, listTurnModelCalls, listTurnMessages } from '../../db/turn-contents.ts';
import { lastEventSeq, listEventHeads, readEvents } from '../../db/events.ts';
import { findCarried, findContextAt, findLastUsage, findTurnAfter, listRecordedAnswers } from '../../db/replay.ts';
import { findFollowedRuns, findTurnStart } from '../../db/sessions.ts';
import { findShownTurn } from '../../db/shown-turns.ts';
import type { EventRow } from '../../db/claim-run.ts';
import { resultOf, type Tx } from '../../db/database.ts';
import { openEngine, text, use, type Engine } from '../support/engine.ts';
import { rows } from '../support/queries/access.ts';
import { splitLog } from '../support/queries/logs.ts';

const BEYOND = 1e300;

describe('The log of a run', () => {
  let engine: Engine;
  let run: string;
  let thread: string;
  let turns: string[];

  before(async () => {
    engine = await openEngine();
    const agent = await engine.agent({ tools: ['calculator'] });
    const sum = (expression: string) => ({ name: 'calculator', input: { expression } });
    engine.say([
      use(sum('1 + 1')),
      use(sum('2 + 2'), sum('3 + 3')),
      text('one'),
      text('two'),
      use(sum('4 + 4')),
      text('three'),
    ]);
    ({ run } = await engine.start(agent, 'first', { config: { keep_open: true } }));
    await engine.finish(run);
    for (const message of ['second', 'third']) {
      await engine.post(agent, run, message);
      await engine.finish(run);
    }
    const found = await rows<{ thread_id: string }>(engine, 'select thread_id from runs where id = $1', run);
    thread = found[0]?.thread_id ?? '';
    turns = (await rows<{ id: string }>(engine, 'select id from turns where run_id = $1 order by number', run)).map(
      ({ id }) => id,
    );
  });
  after(() => engine.close());

  const inTenant = <T>(read: (tx: Tx) => Promise<T>) => engine.context.db.withTenant(engine.tenantId, read);

  /** The first page, of a few events, that a driver gets which knows the run up to there. */
  const claimedFrom = async (tx: Tx, seq: number) => {
    const known = seq > 0 ? { known: { seq, length: 0, calls: [] } } : { before_checkpoint: 1 };
    const claim = { tenant_id: engine.tenantId, run_id: run, seq: 0, claim: false, page_bytes: 900, ...known };
    const { events, rest } = resultOf(
      await tx.query<{ result: { events: EventRow[]; rest?: { events_from: number } } }>(
        'select claim_run($1::jsonb) as result',
        [JSON.stringify(claim)],
      ),
    );
    return { events, from: rest?.events_from };
  };

  /** All that is read of the log by position, at each of its positions and beyond its ends. */
  const readAll = () =>
    inTenant(async (tx) => {
      const all = await readEvents(tx, { runId: run, after: 0 });
      const at = [];
      for (const seq of [0, ...all.map((event) => event.seq), all.length + 1, BEYOND]) {
        const place = { runId: run, seq };
        at.push({
          seq,
          start: await findTurnStart(tx, place),
          followed: await findFollowedRuns(tx, [{ id: 'a', session_id: thread, place: 1, seq }]),
          ...(seq < BEYOND && {
            next: await readEvents(tx, { runId: run, after: seq, limit: 3 }),
            page: await listEventHeads(tx, { runId: run, after: seq, limit: 4, maxBytes: 900 }),
            turns: [await findTurnAfter(tx, place, 'next'), await findTurnAfter(tx, place, 'last')],
            context: await findContextAt(tx, run, seq),
            claimed: await claimedFrom(tx, seq),
          }),
        });
      }
      return {
        all,
        at,
        last: await Promise.all([lastEventSeq(tx, run, 'turn.started'), lastEventSeq(tx, run, 'tool.failed')]),
        messages: await listTurnMessages(tx, turns),
        answers: await listTurnModelCalls(
          tx,
          turns.map((id) => ({ id, status: 'cancelled' })),
        ),
        steps: await listSteppedTurns(tx, turns),
        shown: [await findShownTurn(tx, thread), await findShownTurn(tx, thread, turns[1])],
        recorded: await listRecordedAnswers(tx, run, { from: 1 }),
        carried: [
          await findCarried(tx, run),
          await findCarried(tx, run, { beforeStep: 2 }),
          await findLastUsage(tx, run),
        ],
      };
    });

  it('is read page by page from any position, whatever commits its events came in', async () => {
    const { all, at } = await readAll();
    assert.deepEqual(
      all.map(({ seq }) => seq),
      all.map((_, index) => index + 1),
    );
    const stored = await rows<{ seq: number }>(engine, 'select seq from run_log where run_id = $1', run);
    assert.ok(stored.length * 2 < all.length, `${all.length} events in ${stored.length} rows`);
    for (const { seq, start, next, page, claimed } of at) {
      const starts = all.filter((event) => event.type === 'turn.started' && event.seq <= seq);
      assert.equal(start, starts.at(-1)?.seq ?? 0);
      if (seq === BEYOND) continue;
      const rest = all.filter((event) => event.seq > seq);
      assert.deepEqual(next, rest.slice(0, 3));
      const heads = page?.events.map((event) => event.seq) ?? [];
      assert.deepEqual(
        heads,
        rest.slice(0, heads.length).map((event) => event.seq),
      );
      assert.equal(heads.length > 0, rest.length > 0);
      const from = all.filter((event) => event.seq >= seq);
      const claim = claimed?.events ?? [];
      assert.ok(claim.length > 0 || seq > all.length);
      assert.deepEqual(
        claim.map((event) => event.seq),
        from.slice(0, claim.length).map((event) => event.seq),
      );
      assert.equal(page?.hasMore, heads.length < rest.length);
    }
  });

  for (const length of [10, 5000]) {
    it(`has of an erased event what it is told, and of the others of its commit what they say, of ${length} characters each`, async () => {
      const { run: other } = await engine.start(await engine.agent({ name: `erased ${length}` }), 'hello');
      const said = { type: 'turn.started', actor: 'user', schema_version: 1, payload: { text: 'x'.repeat(length) } };
      const added = {
        tenant_id: engine.tenantId,
        run_id: other,
        open: true as const,
        events: [said, said, said],
        ...NO_ROWS,
      };
      const result = await commitRun(engine.context.db, added);
      assert.ok(result.ok);
      const read = (tx: Tx) => readEvents(tx, { runId: other, after: result.seq - 3, limit: 3 });
      const before = await inTenant(read);
      const taken = new Error('taken back');
      const changed = inTenant(async (tx) => {
        await tx.query('update runs set erased_at = now() where id = $1', [other]);
        const list = JSON.stringify([{ seq: result.seq - 1, payload: { gone: true }, schema_version: 3 }]);
        await tx.query('select erase_run_events($1, $2::jsonb)', [other, list]);
        const [one, two, three] = await read(tx);
        assert.deepEqual([one, three], [before[0], before[2]]);
        assert.deepEqual(two, { ...before[1], payload: { gone: true }, schema_version: 3 });
        throw taken;
      });
      await assert.rejects(changed, taken);
    });

    it(`has nothing of a memory that is forgotten, and all of the others, of ${length} characters each`, async () => {
      const { run: other } = await engine.start(await engine.agent({ name: `forgotten ${length}` }), 'hello');
      const [gone, kept] = [randomUUID(), randomUUID()].map((id) => ({ id, content: 'x'.repeat(length) }));
      const told = { type: 'memory.retrieved', actor: 'worker', schema_version: 1, payload: { entries: [gone, kept] } };
      const said = { type: 'turn.started', actor: 'user', schema_version: 1, payload: { entries: [gone] } };
      const added = {
        tenant_id: engine.tenantId,
        run_id: other,
        open: true as const,
        events: [told, said],
        ...NO_ROWS,
      };
      const result = await commitRun(engine.context.db, added);
      assert.ok(result.ok);
      const forget = (tx: Tx) =>
        tx.query('select forget_in_events($1::uuid[], $2::uuid[]) as n', [[other], [gone?.id]]);
      assert.deepEqual(await inTenant(forget), [{ n: 1 }]);
      const read = await inTenant((tx) => readEvents(tx, { runId: other, after: result.seq - 2, limit: 2 }));
      assert.deepEqual(
        read.map(({ payload }) => payload),
        [{ entries: [{ ...gone, content: '' }, kept] }, said.payload],
      );
    });
  }

  it('reads the same with a row for each event, as builds before have written it', async () => {
    const before = await readAll();
    await splitLog(engine, run);
    assert.deepEqual(await readAll(), before);
    const stored = await rows<{ type: string }>(engine, 'select type from run_log where run_id = $1', run);
    assert.equal(stored.length, before.all.length);
  });

  it('has every text as it was said, on a line of its own whatever is in it, and nothing that Postgres cannot hold', async () => {
    const { tenantId: tenant, context } = engine;
    const { run: other } = await engine.start(await engine.agent({ name: 'texts' }), 'hello');
    const logged = (payload: object, turn_id?: string): LoggedColumns => ({
      type: 'turn.started',
      schema_version: 1,
      actor: 'user',
      step: undefined,
      turn_id,
      payload: { ...payload },
    });
    const commit = (events: LoggedColumns[]) =>
      commitRun(context.db, { tenant_id: tenant, run_id: other, open: true, events, ...NO_ROWS });
    const stored = async () => (await inTenant((tx) => readEvents(tx, { runId: other, after: 0 }))).slice(before);
    const before = (await engine.log(other)).length;
    const said: LoggedColumns[] = [];
    const turn = fc.option(fc.constantFrom(randomUUID(), randomUUID()), { nil: undefined });
    const part = fc.constantFrom(
      '\n',
      '{',
      '} {"a": ',
      '\u001b[31m',
      'C:\\users',
      '\\',
      '"',
      ' ',
      '\u{1f600}',
      '\u2028',
      'word',
      'long '.repeat(400),
    );
    const words = fc.array(part, { maxLength: 6 }).map((parts) => parts.join(''));
    const one = fc.record({ payload: fc.dictionary(words, words, { maxKeys: 3 }), turn });
    await fc.assert(
      fc.asyncProperty(fc.array(one, { minLength: 1, maxLength: 5 }), async (list) => {
        const events = list.map((each) => logged(each.payload, each.turn));
        assert.equal((await commit(events)).ok, true);
        said.push(...events);
      }),
      { numRuns: 30 },
    );
    const read = await stored();
    assert.deepEqual(
      read.map(({ payload, turn_id }) => ({ payload, turn_id: turn_id ?? undefined })),
      said.map(({ payload, turn_id }) => ({ payload, turn_id })),
    );
    for (const impossible of ['\u0000', '\ud800']) {
      await assert.rejects(
        commit([logged({ fine: 'yes' }), logged({ text: impossible })]),
        /unsupported Unicode|input syntax for type json/,
      );
    }
    assert.equal((await stored()).length, said.length);
  });

  it('takes a change as 0.1.0 sends it, with its events one by one, and leaves what is null in its rows', async () => {
    const { tenantId: tenant, context } = engine;
    const { run: other } = await engine.start(await engine.agent(), 'hello');
    const before = (await engine.log(other)).length;
    const turn = randomUUID();
    const input = { message: 'hello', metadata: { answer: null } };
    const insert = {
      id: turn,
      tenant_id: tenant,
      run_id: other,
      number: 7,
      status: 'running',
      input,
      created_at: 'now',
    };
    const sums = { steps: 0, tokens_in: 0, tokens_out: 0, cost_usd: '0' };
    const said = [
      { type: 'turn.started', actor: 'user', turn_id: turn, step: null, payload: { number: 7, input } },
      { type: 'model.called', actor: 'agent', turn_id: turn, step: 1, payload: { told: null } },
    ];
    const events = said.map((event) => ({ ...event, schema_version: 4 }));
    const rowsOf = { turns: [{ key: turn, insert: { ...insert, ...sums } }] };
    const change = { tenant_id: tenant, run_id: other, open: true, events, runs: { set: {}, add: {} }, rows: rowsOf };
    const values = [JSON.stringify(change)];
    await context.db.call({ name: 'commit_run', text: 'select commit_run($1::jsonb) as result', values });
    const kept = await rows<{ input: object }>(engine, 'select input from turns where id = $1', turn);
    assert.deepEqual(kept, [{ input }]);
    const sql = 'select type, actor, turn_id, step, payload from run_events where run_id = $1 order by seq';
    assert.deepEqual((await rows(engine, sql, other)).slice(before), said);
  });

  it('takes the events of a commit of 0.1.0 that has waited for the migration, by the name that the table had', async () => {
    const { tenantId, caller } = engine;
    const { run: other } = await engine.start(await engine.agent({ name: 'waited' }), 'hello');
    const before = await engine.log(other);
    const insert = `insert into run_events (tenant_id, workspace_id, run_id, seq, type, schema_version, actor, payload, occurred_at)
      select $1, $2, $3, $4 + n, 'run.started', 1, 'system', '{}', now() from generate_series(1, 2) n`;
    const values = [tenantId, caller.workspaceId, other, before.length];
    await inTenant((tx) => tx.query(insert, values));
    const added = (await engine.log(other)).slice(before.length);
    assert.deepEqual(
      added.map(({ seq, type }) => [seq, type]),
      [1, 2].map((n) => [before.length + n, 'run.started']),
    );
    const another = [randomUUID(), ...values.slice(1)];
    await assert.rejects(
      inTenant((tx) => tx.query(insert, another)),
      /row-level security/,
    );
  });
});
