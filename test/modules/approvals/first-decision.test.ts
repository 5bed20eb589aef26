/** A question is decided once, whoever comes later. */
import assert from 'node:assert/strict';
import { findApproval } from '../../../db/approvals.ts';
import { commitRun, NO_ROWS } from '../../../db/commit-run.ts';
import { decideApproval, expireApproval } from '../../../modules/approvals/decide-approval.ts';
import { offered, openEngine, use, type Engine } from '../../support/engine.ts';
import { pendingApprovals } from '../../support/queries/approvals.ts';

describe('The first decision on an approval', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine?.close());

  const approved = async () => {
    const agent = await engine.agent({ autonomy_level: 0 }, [{ name: 'pay' }]);
    engine.say((request) => use({ name: offered(request, 'pay') }));
    const { run } = await engine.start(agent, 'pay it');
    await engine.drive(run);
    const [approval] = await pendingApprovals(engine, run);
    assert.ok(approval);
    const ref = { tenantId: engine.tenantId, id: approval.id };
    await decideApproval(engine.context, ref, { decision: 'approve' });
    return { run, ref };
  };
  const read = (id: string) => engine.context.db.withTenant(engine.tenantId, (tx) => findApproval(tx, id));

  it('is kept where the time was up just then', async () => {
    const { run, ref } = await approved();
    const before = await engine.log(run);
    assert.equal(await expireApproval(engine.context, ref), false);
    assert.equal((await read(ref.id))?.status, 'approved');
    assert.deepEqual(await engine.log(run), before);
  });

  it('is what its row says, whatever else a log tells', async () => {
    const { run, ref } = await approved();
    const before = await read(ref.id);
    const late = { key: ref.id, from: 'pending', set: { status: 'denied', reason: 'late' } };
    const change = { tenant_id: engine.tenantId, run_id: run, events: [], ...NO_ROWS, rows: { approvals: [late] } };
    assert.ok((await commitRun(engine.context.db, change)).ok);
    assert.deepEqual(await read(ref.id), before);
  });
});
