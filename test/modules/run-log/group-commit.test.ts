import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { ClaimedRun } from '../../../db/claim-run.ts';
import type { RunChange } from '../../../db/commit-run.ts';
import { hasMovedOn, isDatabaseAway } from '../../../db/database.ts';
import { lockRun } from '../../../db/runs.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { createGroupCommit, type GroupCommit } from '../../../modules/run-log/group-commit.ts';
import { createRun } from '../../../modules/runs/create-run.ts';
import { door, openEngine, type Engine } from '../../support/engine.ts';
import { MODES } from '../../support/modes.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { sessionsWaitingIn } from '../../support/queries/postgres.ts';

/** What a tool worker appends: it expects no position, so that nothing but its sender keeps it from being made twice. */
function appending(tenant: string, run: string): RunChange {
  const events = [{ type: 'run.started', actor: 'worker', schema_version: 1, payload: {} }];
  return { tenant_id: tenant, run_id: run, open: true, events, runs: { set: {}, add: {} } };
}

describe('Group commit', () => {
  let engine: Engine;
  let agent: string;
  /** How many changes each statement has carried. */
  let sizes: number[];
  let group: GroupCommit;

  before(async () => {
    engine = await openEngine();
    agent = await engine.agent();
    await create(engine.context);
    group = createGroupCommit(counting(), { lanes: 2 });
  });

  /** The database, which notes how many changes it is sent at a time. */
  function counting(): Context['db'] {
    const { db } = engine.context;
    const call: Context['db']['call'] = (statement) => {
      const changes = JSON.parse(String(statement.values[0])) as unknown;
      sizes.push(Array.isArray(changes) ? changes.length : 1);
      return db.call(statement);
    };
    return { ...db, call };
  }

  beforeEach(() => {
    sizes = [];
  });

  after(() => engine.close());

  async function create(context: Context): Promise<string> {
    const { body } = await createRun(context, {
      tenantId: engine.tenantId,
      workspaceId: engine.platform.workspaceId,
      agentId: agent,
      config: {},
      mayRaiseAutonomy: false,
      idempotency: { tenantId: engine.tenantId, route: 'test', body: null },
    });
    return body.run_id;
  }

  it('sends a change that is alone by itself, at once', async () => {
    await create({ ...engine.context, ...group });
    assert.deepEqual(sizes, [1]);
  });

  it('lets each lane take its share of what waits and what is under way, so that one goes on while the other is sent', async () => {
    const context = { ...engine.context, ...group };
    await Promise.all(Array.from({ length: 20 }, () => create(context)));
    assert.deepEqual(sizes, [10, 10]);
  });

  it('commits the others in one more statement where one of them cannot be made', async () => {
    const { tenantId: tenant } = engine;
    const run = await create(engine.context);
    const events = [{ type: 'run.started', actor: 'worker', schema_version: 1, payload: {} }];
    const of = { tenant_id: tenant, run_id: run, events, runs: { set: {}, add: {} } };
    const spoilt = { ...of, calls: [{ id: run, from: ['running' as const], set: {} }] };
    const [good, bad] = await Promise.allSettled([
      group.commit({ ...of, open: true }),
      // In the same batch as the first: a run may be written to by many.
      group.commit({ ...spoilt, open: true }),
      create({ ...engine.context, ...group }),
      create({ ...engine.context, ...group }),
    ]);
    assert.equal(good.status === 'fulfilled' && good.value.ok, true);
    const refusal: unknown = bad.status === 'rejected' && bad.reason;
    assert.match(String(refusal), /has moved on/);
    assert.equal(hasMovedOn(refusal), true);
    assert.deepEqual(sizes, [2, 2, 2]);
    assert.deepEqual(
      (await engine.log(run)).map(({ type }) => type),
      ['run.created', 'run.started'],
    );
  });

  it('makes those of a batch that can be made, and answers each of the others why not', async () => {
    const { tenantId: tenant } = engine;
    const runs = await Promise.all([1, 2, 3, 4].map(() => create(engine.context)));
    const [made = '', overtaken = '', outdated = '', claimed = ''] = runs;
    const other = randomUUID();
    const { open: _, ...driven } = appending(tenant, overtaken);
    const answers = await Promise.all([
      group.commit(appending(tenant, made)),
      group.commit({ ...appending(tenant, made), tenant_id: other }),
      group.commit({ ...driven, fence: 0, expect: 0, lease_ms: 1000 }),
      group.commit({ ...appending(tenant, outdated), policy_epoch: 1_000_000 }),
      group.commit(appending(tenant, claimed)),
      group.claim({ tenant_id: tenant, run_id: claimed, seq: 0, leaseMs: 1000 }),
      group.claim({ tenant_id: other, run_id: made, seq: 0, leaseMs: 1000 }),
      group.commit(appending(tenant, made)),
    ]);
    assert.deepEqual(
      answers.map((answer) => (answer.ok ? 'made' : answer.why)),
      ['made', 'missing', 'behind', 'policy_epoch', 'made', 'made', 'missing', 'made'],
    );
    assert.deepEqual(sizes, [4, 4]);
    const claim = answers[5] as ClaimedRun;
    assert.deepEqual(
      claim.events.map(({ type }) => type),
      ['run.created', 'run.started'],
      'the claim has not read what was committed along with it',
    );
    const lengths = await Promise.all(runs.map(async (run) => (await engine.log(run)).length));
    assert.deepEqual(lengths, [3, 1, 1, 2]);
  });

  it('gives a claim all that its batch has made of its run, and nothing by halves', async () => {
    const { tenantId: tenant } = engine;
    const run = await create(engine.context);
    const call = randomUUID();
    const asked = {
      id: call,
      turn_id: run,
      step: 1,
      place: 0,
      name: 'beta',
      tool_use_id: 'u',
      mode: 'queued',
      status: 'running' as const,
    };
    const rest = { effect: 'unknown' as const, idempotency_key: call, arguments: {}, attempt: 1 };
    await group.commit({ ...appending(engine.tenantId, run), new_calls: [{ ...asked, ...rest }] });
    sizes = [];
    const lane = createGroupCommit(counting(), { lanes: 1 });
    const known = { seq: 1, length: 0, calls: [call] };
    const [, claim] = await Promise.all([
      lane.commit(appending(engine.tenantId, run)),
      lane.claim({ tenant_id: tenant, run_id: run, seq: 0, leaseMs: 1000, known }),
      lane.commit({
        ...appending(engine.tenantId, run),
        calls: [{ id: call, from: ['running'], set: { status: 'succeeded', output: { said: 1 } } }],
      }),
    ]);
    assert.deepEqual(sizes, [3]);
    assert.ok(claim.ok);
    const { events, run: row, outcomes } = claim;
    assert.equal(events.at(-1)?.seq, row.last_seq);
    assert.equal(events.length, 4);
    assert.equal(outcomes[call]?.status, 'succeeded');
  });

  it('repeats none of a batch whose connection was lost when its changes were committed apart', async () => {
    const { db } = engine.context;
    const [run, other] = [await create(engine.context), await create(engine.context)];
    const names: string[] = [];
    const call: Context['db']['call'] = async (statement) => {
      names.push(statement.name);
      const answer = await db.call(statement);
      if (statement.name === 'change_runs_apart') throw Object.assign(new Error('gone'), { code: 'ECONNRESET' });
      return answer as never;
    };
    const losing = createGroupCommit({ ...db, call }, { lanes: 1 });
    const spoilt = { calls: [{ id: run, from: ['running' as const], set: {} }] };
    const ends = await Promise.allSettled([
      losing.commit(appending(engine.tenantId, run)),
      losing.commit({ ...appending(engine.tenantId, other), ...spoilt }),
    ]);
    assert.deepEqual(
      ends.map((end) => end.status === 'rejected' && isDatabaseAway(end.reason)),
      [true, true],
    );
    assert.deepEqual(names, ['change_runs', 'change_runs_apart']);
    assert.deepEqual(
      (await engine.log(run)).map(({ type }) => type),
      ['run.created', 'run.started'],
    );
  });

  it('repeats no batch whose connection was lost after it was committed', async () => {
    const { db } = engine.context;
    const runs = [await create(engine.context), await create(engine.context)];
    let calls = 0;
    const call: Context['db']['call'] = async (statement) => {
      calls++;
      await db.call(statement);
      throw Object.assign(new Error('gone'), { code: 'ECONNRESET' });
    };
    const losing = createGroupCommit({ ...db, call }, { lanes: 1 });
    const ends = await Promise.allSettled(runs.map((run) => losing.commit(appending(engine.tenantId, run))));
    assert.deepEqual(
      ends.map(({ status }) => status),
      ['rejected', 'rejected'],
    );
    assert.equal(calls, 1);
    for (const run of runs) {
      assert.deepEqual(
        (await engine.log(run)).map(({ type }) => type),
        ['run.created', 'run.started'],
      );
    }
  });
});

if (MODES.includes('postgres')) {
  describe('Group commits on Postgres', () => {
    let engine: Engine;
    before(async () => {
      engine = await openEngine('postgres');
    });
    after(() => engine.close());

    /** Runs that have begun, and a group that counts what it sends. */
    async function counted(lanes: { lanes: number; mostLate: number }) {
      const { context, tenantId } = engine;
      const agent = await engine.agent();
      const runs = await Promise.all([1, 2, 3].map(async () => (await engine.start(agent, 'hello')).run));
      const counts = { sent: 0 };
      const call: Context['db']['call'] = (statement) => {
        counts.sent++;
        return context.db.call(statement);
      };
      const group = createGroupCommit({ ...context.db, call }, lanes);
      return { runs, counts, commit: (run: string | undefined) => group.commit(appending(tenantId, run ?? '')) };
    }

    /** Holds the row of a run until the function is called that it gives. */
    async function holdRow(run: string | undefined) {
      const row = door();
      const holding = engine.context.db.withTenant(engine.tenantId, async (tx) => {
        await lockRun(tx, run ?? '');
        await row.pass();
      });
      await row.reached;
      return async () => {
        row.open();
        await holding;
      };
    }

    it('let the others go on while a batch waits for the row of a run, and one behind it does, too', async () => {
      const { runs, counts, commit } = await counted({ lanes: 2, mostLate: 1 });
      const [held, behind, round] = runs;
      const release = await holdRow(held);
      const commits = [commit(held)];
      await waitUntil('the first is sent', () => counts.sent === 1);
      commits.push(commit(behind));
      await waitUntil('the second is sent behind it', () => counts.sent === 2);
      const answers = [await commit(round)];
      await release();
      answers.push(...(await Promise.all(commits)));
      assert.ok(answers.every(({ ok }) => ok));
    });

    it('go round a late one as soon as another late one has ended', async () => {
      const { runs, counts, commit } = await counted({ lanes: 1, mostLate: 1 });
      const [first, second, round] = runs;
      const releases = [await holdRow(first), await holdRow(second)];
      const commits = [commit(first)];
      await waitUntil('the first is sent', () => counts.sent === 1);
      commits.push(commit(second));
      await waitUntil('the second goes round it', () => counts.sent === 2);
      const going = commit(round);
      await releases[0]?.();
      const answers = [await commits[0], await going];
      await releases[1]?.();
      answers.push(await commits[1]);
      assert.ok(answers.every((answer) => answer?.ok));
    });

    it('of two processes never wait for each other where they change the same runs in opposite orders', async () => {
      const { context, tenantId } = engine;
      const agent = await engine.agent();
      const started = [1, 2, 3].map(() => engine.start(agent, 'hello'));
      const runs = (await Promise.all(started)).map(({ run }) => run).toSorted();
      const [first = '', second = '', last = ''] = runs;
      const failures: unknown[] = [];
      const process = () => {
        // Two processes have no connection in common.
        const call: Context['db']['call'] = ({ name, text, values }) =>
          context.db.call({ name, text, values }).catch((error: unknown) => {
            failures.push(error);
            throw error;
          }) as never;
        return createGroupCommit({ ...context.db, call }, { lanes: 1 });
      };
      const held = door();
      const holding = context.db.withTenant(tenantId, async (tx) => {
        await lockRun(tx, last);
        await held.pass();
      });
      await held.reached;
      // As they come in, each would hold one end while it waits in the middle.
      const orders = [
        [first, last, second],
        [second, last, first],
      ];
      const commits = orders.map((order) => {
        const group = process();
        return Promise.all(order.map((run) => group.commit(appending(tenantId, run))));
      });
      await waitUntil('both wait for a row', async () => {
        return (await sessionsWaitingIn(context.db, 'change_runs')).length === 2;
      });
      held.open();
      await holding;
      const results = (await Promise.all(commits)).flat();
      assert.ok(results.every(({ ok }) => ok));
      assert.deepEqual(failures, []);
    });
  });
}
