/** What commits leave alone, and in which order they happen where they wait for each other. */
import assert from 'node:assert/strict';
import { claimRun } from '../../db/claim-run.ts';
import { commitRun, commitRunIn, NO_ROWS, type CommitResult, type RunChange } from '../../db/commit-run.ts';
import type { Tx } from '../../db/database.ts';
import { renewRunLease } from '../../db/leases.ts';
import { newId } from '../../lib/new-id.ts';
import { openEngine, type Engine } from '../support/engine.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { databaseTimeIn } from '../support/queries/postgres.ts';
import { fenceOfRun, holdOfRun } from '../support/queries/runs.ts';
import { waitOf } from '../support/queries/waits.ts';
import { sideBySide } from '../support/side-by-side.ts';

describe('A commit', () => {
  let engine: Engine;
  let run: string;
  before(async () => {
    engine = await openEngine();
  });
  beforeEach(async () => {
    ({ run } = await engine.start(await engine.agent(), 'hello'));
  });
  after(() => engine?.close());

  const changeOf = (change: Partial<RunChange>): RunChange => {
    const events = [{ type: 'run.started', actor: 'worker', schema_version: 1, payload: {} }];
    return { tenant_id: engine.tenantId, run_id: run, events, ...NO_ROWS, ...change };
  };
  const commit = (change: Partial<RunChange>) => commitRun(engine.context.db, changeOf(change));
  const timeOf = (result: CommitResult) => (result.ok ? result.at : undefined);

  it('leaves a wait alone that is open, and opens one again that was answered', async () => {
    const wait = { id: newId(), turn_id: newId(), type: 'timer' as const, name: 'timer' };
    const open = (until: string) => commit({ waits: [{ ...wait, until }] });
    await open('2100-01-01T00:00:00Z');
    const first = await waitOf(engine, wait.id);
    await open('2200-01-01T00:00:00Z');
    assert.deepEqual(await waitOf(engine, wait.id), first);
    await commit({ close_waits: [wait.id] });
    await open('2300-01-01T00:00:00Z');
    const { until, closed_at } = await waitOf(engine, wait.id);
    assert.deepEqual([until.getUTCFullYear(), closed_at], [2300, null]);
  });

  it('of a tool worker ends the rest of a run that it gives something to do, and no other', async () => {
    const isDormant = async () => (await holdOfRun(engine, run)).dormant;
    const job = { id: newId(), queue: 'turns', job_id: newId(), payload: { tenantId: engine.tenantId } };
    for (const given of [{ outbox: [job] }, { continuation: { ...job, id: newId(), job_id: newId() } }]) {
      await commit({ dormant: true });
      await commit({ open: true });
      assert.equal(await isDormant(), true);
      await commit({ open: true, ...given });
      assert.equal(await isDormant(), false);
    }
  });

  for (const [whose, change] of [
    ['of a tool worker', { open: true }],
    ['from outside', {}],
    ['of a driver', { lease_ms: 60_000 }],
  ] satisfies [string, Partial<RunChange>][]) {
    it(`${whose} happens after one that was made while its transaction waited`, async function () {
      if (DOMAIN_MODE === 'embedded') return this.skip();
      const fence = await fenceOfRun(engine, run);
      const later = changeOf({ ...change, ...('lease_ms' in change && { fence }) });
      const [before, after] = await engine.context.db.withTenant(engine.tenantId, async (tx: Tx) => {
        await databaseTimeIn(tx);
        return [await commit({ open: true }), await commitRunIn(tx, later)];
      });
      const times = (await engine.log(run)).slice(-2).map(({ occurred_at }) => new Date(occurred_at).getTime());
      assert.deepEqual([timeOf(after), times[1]], [timeOf(before), times[0]]);
    });
  }

  it('has no room for an output that one has taken for which it has waited', async function () {
    if (DOMAIN_MODE === 'embedded') return this.skip();
    const call = (): Partial<RunChange> => {
      const id = newId();
      const about = { id, turn_id: newId(), step: 1, place: 0, name: 'tell', tool_use_id: id, mode: 'queued' };
      const asked = { effect: 'unknown' as const, idempotency_key: id, arguments: {}, attempt: 1 };
      const end = { status: 'succeeded' as const, output: 'x', output_bytes: 60 };
      return { open: true, output_limit: 100, new_calls: [{ ...about, ...asked, ...end }] };
    };
    const [one, other] = await sideBySide(engine, {
      first: (tx) => commitRunIn(tx, changeOf(call())),
      second: () => commit(call()),
      statement: 'commit_run',
    });
    assert.deepEqual([one.ok, other.ok || other.why], [true, 'run_output_limit']);
  });

  it('that gives a run back lets its driver not hold it any longer by a renewal that comes late', async () => {
    const { tenantId, context } = engine;
    const claim = { tenant_id: tenantId, run_id: run, seq: 0, leaseMs: 30_000, known: undefined };
    assert.ok((await claimRun(context.db, claim)).ok);
    const fence = await fenceOfRun(engine, run);
    const renew = () => renewRunLease(context.db, { tenantId, runId: run, fence, leaseMs: 60_000 });
    assert.equal(await renew(), true);
    await commit({ fence, release: true });
    assert.deepEqual([await renew(), (await holdOfRun(engine, run)).lease], [false, null]);
  });
});
