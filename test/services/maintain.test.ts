import assert from 'node:assert/strict';
import { newId } from '../../core/ids.ts';
import { eachApart } from '../../services/each-apart.ts';
import { maintain } from '../../services/maintain.ts';
import { offered, openEngine, text, use, type Engine } from '../support/engine.ts';

describe('Maintenance', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  it('lets an approval that cannot be ended keep no other from its end', async () => {
    const agent = await engine.agent({ autonomy_level: 0 }, [{ name: 'pay' }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'pay') }) : text('not paid')));
    const { run } = await engine.start(agent, 'pay it');
    assert.equal(await engine.drive(run), 'rest');
    await engine.tamper(`update approvals set expires_at = now() - interval '1 minute' where run_id = $1`, run);
    // Of a run that is not there; due before the other one.
    await engine.tamper(
      `insert into approvals (id, tenant_id, run_id, turn_id, kind, tool, arguments, digest, status, expires_at, created_at)
       select $2, tenant_id, $3, turn_id, kind, tool, arguments, digest, status, expires_at - interval '1 day', created_at
       from approvals where run_id = $1`,
      run,
      newId(),
      newId(),
    );
    assert.deepEqual(await maintain(engine.context, 'expire-approvals'), { expired: 1 });
    const statuses = await engine.rows<{ status: string }>('select status from approvals order by expires_at');
    assert.deepEqual(
      statuses.map(({ status }) => status),
      ['pending', 'expired'],
    );
  });

  it('ends where the database is away, which everything needs', async () => {
    const away = Object.assign(new Error('gone'), { code: 'ECONNREFUSED' });
    const rows = [{ n: 1 }, { n: 2 }, { n: 3 }];
    const seen: number[] = [];
    const work = ({ n }: { n: number }) => {
      seen.push(n);
      return n === 2 ? Promise.reject(away) : Promise.resolve(n);
    };
    await assert.rejects(eachApart(engine.context.log, { rows }, work), away);
    assert.deepEqual(seen, [1, 2]);
  });
});
