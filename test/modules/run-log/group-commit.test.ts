import assert from 'node:assert/strict';
import type { Context } from '../../../modules/governance/context.ts';
import { createGroupCommit, type GroupCommit } from '../../../modules/run-log/group-commit.ts';
import { createRun } from '../../../modules/runs/create-run.ts';
import { openEngine, type Engine } from '../../support/engine.ts';

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
    const { db } = engine.context;
    const call: Context['db']['call'] = (statement) => {
      const changes = JSON.parse(String(statement.values[0])) as unknown;
      sizes.push(Array.isArray(changes) ? changes.length : 1);
      return db.call(statement);
    };
    group = createGroupCommit({ ...db, call }, { lanes: 2 });
  });

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

  it('commits the others one by one where one of them cannot be made', async () => {
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
    assert.match(String(bad.status === 'rejected' && bad.reason), /has moved on/);
    assert.deepEqual(sizes, [2, 2, 1, 1]);
    assert.deepEqual(
      (await engine.log(run)).map(({ type }) => type),
      ['run.created', 'run.started'],
    );
  });
});
