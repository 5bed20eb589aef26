import assert from 'node:assert/strict';
import { DroverError } from '../../../core/errors.ts';
import { readEvent } from '../../../core/events.ts';
import { loadRun } from '../../../db/claim-run.ts';
import { isDriven } from '../../../db/leases.ts';
import { lockRun } from '../../../db/runs.ts';
import { newId } from '../../../lib/new-id.ts';
import { createGroupCommit } from '../../../modules/run-log/group-commit.ts';
import { createPolicyCache } from '../../../modules/governance/policy-cache.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { createRun, prepareRun } from '../../../modules/runs/create-run.ts';
import { toClaim } from '../../../modules/runs/driver/initial-commit.ts';
import { retireAgent, updateAgent } from '../../../modules/agents/update-agent.ts';
import { updateTool } from '../../../modules/tools-registry/update-tool.ts';
import { openEngine, type Engine } from '../../support/engine.ts';
import { toolNamed } from '../../support/queries/agents.ts';
import { countRunsOf, statusOfRun, storedRun } from '../../support/queries/runs.ts';

/** What the commit says: times, and who holds it. */
const AT_COMMIT = new Set(['created_at', 'updated_at', 'idle_since', 'cost_usd', 'fence']);

const timeless = <T extends object>(event: T) => ({ ...event, occurred_at: '' });
const only = (columns: readonly string[], row: object) =>
  Object.fromEntries(Object.entries(row).filter(([column]) => columns.includes(column)));

describe('Creating a run', () => {
  let engine: Engine;
  /** The context of another process, which hears of nothing. */
  let other: Context;
  let statements: string[] = [];

  before(async () => {
    engine = await openEngine();
    const db = Object.create(engine.context.db) as Context['db'];
    const watched: Pick<Context['db'], 'call' | 'withTenant'> = {
      call: (statement) => {
        statements.push(statement.name);
        return engine.context.db.call(statement);
      },
      withTenant: (tenant, work) => {
        statements.push('transaction');
        return engine.context.db.withTenant(tenant, work);
      },
    };
    Object.assign(db, watched);
    const known = { governance: createPolicyCache(db), ...createGroupCommit(db, { lanes: 1 }) };
    other = { ...engine.context, db, ...known };
  });

  beforeEach(() => {
    statements = [];
  });

  after(() => engine.close());

  const create = async (agentId: string, key?: string) => {
    const { body } = await createRun(other, {
      tenantId: engine.tenantId,
      workspaceId: engine.platform.workspaceId,
      agentId,
      input: { message: 'hello' },
      config: {},
      mayRaiseAutonomy: false,
      idempotency: { tenantId: engine.tenantId, route: 'test', body: null, key },
    });
    return body.run_id;
  };

  const pinned = async (run: string) => {
    const { agent_version: version, pinned: pins } = await storedRun(engine, run);
    return { version, tools: pins.tools };
  };

  it('is one statement for a process that knows the agent', async () => {
    const agent = await engine.agent();
    await create(agent);
    statements = [];
    const run = await create(agent);
    assert.deepEqual(statements, ['commit_run']);
    await engine.finish(run);
    assert.equal(await statusOfRun(engine, run), 'completed');
  });

  it('starts the version that is current, whatever the process has seen before', async () => {
    const agent = await engine.agent();
    assert.equal((await pinned(await create(agent))).version, '1.0.0');
    const patch = { description: 'another' };
    await engine.context.db.withTenant(engine.tenantId, (tx) => updateAgent(tx, engine.caller, { id: agent, patch }));
    assert.equal((await pinned(await create(agent))).version, '1.1.0');
    assert.ok(statements.filter((name) => name === 'commit_run').length > 2, 'nothing was refused');
  });

  it('pins the versions of tools that are current', async () => {
    const agent = await engine.agent({}, [{ name: 'changing' }]);
    const [before] = (await pinned(await create(agent))).tools;
    const { id } = await toolNamed(engine, before?.name);
    const request = { id, patch: { description: 'another' } };
    const { tools } = engine.context;
    await engine.context.db.withTenant(engine.tenantId, (tx) =>
      updateTool(tx, { caller: engine.caller, tools }, request),
    );
    const [after] = (await pinned(await create(agent))).tools;
    assert.deepEqual([before?.version, after?.version], ['1.0.0', '1.1.0']);
  });

  it('is refused for an agent that was deprecated meanwhile', async () => {
    const agent = await engine.agent();
    await create(agent);
    await engine.context.db.withTenant(engine.tenantId, (tx) => retireAgent(tx, engine.caller, agent));
    await assert.rejects(create(agent), (error) => error instanceof DroverError && error.status === 409);
    assert.equal(await countRunsOf(engine, agent), 1);
  });

  it('begins in the process that drives it as a claim would read it', async () => {
    const run = await create(await engine.agent());
    const { db } = engine.context;
    const read = await loadRun(db, { tenant_id: engine.tenantId, run_id: run });
    assert.ok(read.ok);
    const events = await engine.log(run);
    const begun = toClaim(read.run, { events, policyEpoch: 0 });
    assert.deepEqual(begun.events.map(readEvent), events.map(timeless));
    const columns = Object.keys(read.run).filter((column) => column in begun.run && !AT_COMMIT.has(column));
    assert.ok(columns.length > 25, columns.join(' '));
    assert.deepEqual(only(columns, begun.run), only(columns, read.run));
  });

  it('claims a child for the slot that is held for it, which begins as a claim would read it', async () => {
    const agentId = await engine.agent();
    const { tenantId, context } = engine;
    const { db } = context;
    const drive = () => Promise.resolve();
    const written = await db.withTenant(tenantId, async (tx) => {
      const parent = await lockRun(tx, await create(agentId));
      assert.ok(parent);
      const governance = await context.governance.current(tx, tenantId);
      const ready = await prepareRun(
        context,
        { tx, governance },
        {
          tenantId,
          workspaceId: parent.workspace_id,
          agentId,
          input: { message: 'hello' },
          config: {},
          mayRaiseAutonomy: false,
          child: { parent, taskId: newId(), attempt: 0 },
        },
      );
      const held = { slot: { drive, leave: drive }, leaseMs: 60_000, policyEpoch: governance.epoch };
      return ready.write(tx, held);
    });
    assert.deepEqual(written.outbox, []);
    const begun = written.driver?.from.claimed;
    const read = await loadRun(db, { tenant_id: tenantId, run_id: written.runId });
    assert.ok(read.ok && begun);
    assert.deepEqual(begun.events.map(readEvent), read.events.map(readEvent));
    assert.deepEqual([begun.run.fence, begun.policy_epoch], [read.run.fence, read.policy_epoch]);
    const columns = Object.keys(read.run).filter((column) => column in begun.run && !AT_COMMIT.has(column));
    assert.deepEqual(only(columns, begun.run), only(columns, read.run));
    assert.equal(await db.withTenant(tenantId, (tx) => isDriven(tx, written.runId)), true);
  });

  it('remembers its answer under a key', async () => {
    const agent = await engine.agent();
    const key = newId();
    assert.equal(await create(agent, key), await create(agent, key));
  });
});
