import assert from 'node:assert/strict';
import { newId } from '../../../lib/new-id.ts';
import type { PolicyDefinition } from '../../../core/policy.ts';
import { rebuildProjections } from '../../../modules/run-log/rebuild-projections.ts';
import { removeTool } from '../../../modules/tools-registry/update-tool.ts';
import { createPolicy, removePolicy } from '../../../modules/governance/write-policy.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { toolNamed } from '../../support/queries/agents.ts';
import { decisionsOfRun } from '../../support/queries/approvals.ts';
import { ledgerOfRun } from '../../support/queries/tool-calls.ts';

const READING = { name: 'look', risk_level: 'READ_ONLY' as const };

describe('Policies in a run', () => {
  let engine: Engine;
  const made: string[] = [];

  before(async () => {
    engine = await openEngine();
  });

  afterEach(async () => {
    const { db } = engine.context;
    for (const id of made.splice(0)) await db.withTenant(engine.tenantId, (tx) => removePolicy(tx, engine.caller, id));
  });

  after(() => engine.close());

  async function policy(rule: Partial<PolicyDefinition>): Promise<string> {
    const full = { name: newId(), priority: 1, when: 'true', decision: 'block' as const, reason: 'no', ...rule };
    const { id } = await engine.context.db.withTenant(engine.tenantId, (tx) => createPolicy(tx, engine.caller, full));
    made.push(id);
    return id;
  }

  const toolEvents = async (run: string) =>
    (await engine.log(run)).filter(({ type }) => /^(tool|policy|approval)\./.test(type));
  const calls = (run: string) => ledgerOfRun(engine, run);

  it('block a call with an event and a row that name rule, version and reason; the model is told', async () => {
    const id = await policy({ when: 'tool.startsWith("look") && arguments.what == "secrets"', reason: 'not these' });
    const agent = await engine.agent({}, [READING]);
    engine.say((request, n) =>
      n === 0 ? use({ name: offered(request, 'look'), input: { what: 'secrets' } }) : text('I see'),
    );
    const { run } = await engine.start(agent, 'hello');
    await engine.finish(run);
    const events = await toolEvents(run);
    assert.deepEqual(
      events.map(({ type }) => type),
      ['tool.requested', 'policy.decided', 'tool.denied'],
    );
    const [row] = await decisionsOfRun(engine, run);
    const reason = 'Blocked by a policy: not these';
    assert.deepEqual(row, { decision: 'block', stage: 'rules', policy_id: id, policy_version: 1, reason });
    assert.match(JSON.stringify(engine.model.requests.at(-1)?.body), /Blocked by a policy: not these/);
    assert.equal(engine.tools.seen.length, 0);
    const { differences } = await rebuildProjections(engine.context.db, { check: true });
    assert.deepEqual(differences, []);
  });

  it('let a plain call pass with no event and no row of their own: tool.requested says which stage let it', async () => {
    const agent = await engine.agent({}, [READING]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'look') }) : text('I see')));
    const { run } = await engine.start(agent, 'hello');
    await engine.finish(run);
    const [requested, ...others] = await toolEvents(run);
    assert.equal(requested?.type === 'tool.requested' && requested.payload.allowed_by, 'autonomy');
    assert.ok(!others.some(({ type }) => type === 'policy.decided'));
    assert.deepEqual(await decisionsOfRun(engine, run), []);
  });

  it('rewrite what a tool is called with, though its driver would make the call; the conversation keeps what was asked', async () => {
    await policy({ decision: 'rewrite', when: 'true', rewrite: { arguments: { limit: 3, unasked: null } } });
    const inline = { ...READING, execution: { inline: true } };
    const agent = await engine.agent({}, [inline]);
    engine.toolsAnswer(() => undefined);
    engine.say((request, n) =>
      n === 0 ? use({ name: offered(request, 'look'), input: { limit: 50, what: 'x', unasked: 1 } }) : text('I see'),
    );
    const { run } = await engine.start(agent, 'hello');
    await engine.finish(run);
    assert.deepEqual(
      engine.tools.seen.map(({ body }) => JSON.parse(body)),
      [{ limit: 3, what: 'x' }],
    );
    assert.match(JSON.stringify(await engine.conversation(run)), /"limit":50/);
    const [decided] = (await toolEvents(run)).filter(({ type }) => type === 'policy.decided');
    assert.equal(decided?.type === 'policy.decided' && decided.payload.decision, 'rewrite');
  });

  it('hold from their commit on: a call that an older policy let pass is gated again, and the answer is paid once', async () => {
    const inline = { ...READING, execution: { inline: true } };
    const agent = await engine.agent({}, [inline]);
    engine.toolsAnswer(() => undefined);
    engine.say(async (request, n) => {
      if (n > 0) return text('I see');
      // The driver knows the policies of before; this one is committed before the call is.
      await policy({ when: 'tool.startsWith("look")', reason: 'too late for that' });
      return use({ name: offered(request, 'look') });
    });
    const { run } = await engine.start(agent, 'hello');
    await engine.finish(run);
    assert.deepEqual(
      (await calls(run)).map(({ status }) => status),
      ['denied'],
    );
    assert.equal(engine.tools.seen.length, 0);
    assert.equal(engine.model.requests.length, 2);
  });

  it('do not stand in the way of a run whose calls they do not touch', async () => {
    const agent = await engine.agent({ tools: ['current_time'] }, []);
    engine.say(async (_request, n) => {
      if (n > 1) return text('I see');
      await policy({ when: 'tool == "something else"' });
      return use({ name: 'current_time' });
    });
    const { run } = await engine.start(agent, 'hello');
    await engine.finish(run);
    assert.deepEqual(
      (await calls(run)).map(({ status }) => status),
      ['succeeded', 'succeeded'],
    );
    assert.equal(engine.model.requests.length, 3);
  });

  it('are not needed to stop calls of a tool that was deleted, though the run has pinned it', async () => {
    const agent = await engine.agent({}, [READING]);
    engine.toolsAnswer(() => undefined);
    engine.say(async (request, n) => {
      if (n > 0) return text('I see');
      const name = offered(request, 'look');
      const { id } = await toolNamed(engine, name);
      await engine.context.db.withTenant(engine.tenantId, (tx) => removeTool(tx, engine.caller, id));
      return use({ name });
    });
    const { run } = await engine.start(agent, 'hello');
    await engine.finish(run);
    assert.equal(engine.tools.seen.length, 0);
    assert.match(JSON.stringify(engine.model.requests.at(-1)?.body), /was deleted and cannot be called/);
  });
});
