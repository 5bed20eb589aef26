import assert from 'node:assert/strict';
import { insertErasure } from '../../../db/erasures.ts';
import { changeHandoff, findHandoff, findHandoffFrom } from '../../../db/handoffs.ts';
import { lockThread } from '../../../db/threads.ts';
import { carryHandoff } from '../../../modules/workflows/carry-handoffs.ts';
import { openEngine, text, use, type Engine } from '../../support/engine.ts';
import { DOMAIN_MODE } from '../../support/modes.ts';
import { newName } from '../../support/new-name.ts';
import { sideBySide } from '../../support/side-by-side.ts';

describe('A handoff that another process carries on', () => {
  let engine: Engine;
  before(async function () {
    if (DOMAIN_MODE === 'embedded') return this.skip();
    engine = await openEngine();
  });
  after(() => engine?.close());

  it('is left to the next look by whoever has waited for the run that had the work until then', async () => {
    const { context, tenantId } = engine;
    const name = newName('bob');
    const bob = await engine.agent({ name });
    const ann = await engine.agent({ tools: ['handoff'] });
    engine.say((_request, n) =>
      n === 1 ? use({ name: 'handoff', input: { to_agent: name, reason: 'Better' } }) : text('so'),
    );
    const { run: elsewhere } = await engine.start(bob, 'hello');
    await engine.finish(elsewhere);
    const { run, thread } = await engine.start(ann, 'help me');
    await engine.finish(run);
    const id = (await context.db.withTenant(tenantId, (tx) => findHandoffFrom(tx, run)))?.id ?? '';
    const returnedIn = async () =>
      (await context.db.withTenant(tenantId, (tx) => findHandoff(tx, id)))?.returned_run_id ?? null;
    const carry = () => carryHandoff(context, { tenantId, id });
    const rejection = { code: 'rejected', message: '' };
    await sideBySide(engine, {
      first: (tx) => lockThread(tx, thread),
      second: carry,
      statement: 'from threads where id',
      last: async (tx) => {
        await changeHandoff(tx, id, { to: 'accepted', run_id: elsewhere });
        await changeHandoff(tx, id, { to: 'rejected', rejection, isReturning: true });
      },
    });
    assert.equal(await returnedIn(), null);
    await carry();
    assert.ok(await returnedIn());
  });

  it('is cancelled where the run that had the work is to be erased', async () => {
    const { context, tenantId } = engine;
    const name = newName('bob');
    await engine.agent({ name });
    const ann = await engine.agent({ tools: ['handoff'] });
    engine.say([use({ name: 'handoff', input: { to_agent: name, reason: 'Better' } }), text('so')]);
    const { run } = await engine.start(ann, 'help me');
    await engine.finish(run);
    const row = { kind: 'run', id: run, tenant_id: tenantId, dependents: false, asked_by: {} } as const;
    await context.db.withTenant(tenantId, (tx) => insertErasure(tx, row));
    const id = (await context.db.withTenant(tenantId, (tx) => findHandoffFrom(tx, run)))?.id ?? '';
    await carryHandoff(context, { tenantId, id });
    assert.equal((await context.db.withTenant(tenantId, (tx) => findHandoff(tx, id)))?.status, 'cancelled');
  });
});
