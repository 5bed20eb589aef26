import assert from 'node:assert/strict';
import type { OutboxRow } from '../../../db/commit-run.ts';
import { createDefinitionCache } from '../../../modules/agents/definitions.ts';
import { newId } from '../../../lib/new-id.ts';
import type { Context } from '../../../modules/governance/context.ts';
import { openEngine, text, use, type Engine } from '../../support/engine.ts';
import { lookNow, startWorkflow, subtask } from '../../support/workflows.ts';
import { childrenOfRun } from '../../support/queries/runs.ts';
import { delegationsOf, raiseCost } from '../../support/queries/tool-calls.ts';

describe('A look at what works for a run', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  it('fails a delegation that cannot be begun, and begins the others of the same answer', async () => {
    const worker = `worker ${newId()}`;
    await engine.agent({ name: worker });
    const boss = await engine.agent({ name: newId(), tools: ['delegate'] });
    const part = (description: string) => ({ name: 'delegate', input: { description, agent: worker } });
    engine.say([use(part('one'), part('two')), text('done')]);
    const { run } = await engine.start(boss, 'two parts');
    assert.equal(await engine.drive(run), 'dormant');
    // As a build took it that had no limit for it.
    await raiseCost(engine, run, { place: 0, tokens: 1e16 });
    await lookNow(engine.context, { tenantId: engine.tenantId, runId: run });
    const calls = await delegationsOf(engine, run);
    assert.deepEqual(
      calls.map(({ status, code }) => [status, code]),
      [
        ['failed', 'internal'],
        ['running', null],
      ],
    );
    assert.equal(calls[1]?.children, 1);
  });

  it('lets a delegation that cannot be begun keep no other waiting that has to be looked at again', async () => {
    const boss = await engine.agent({ name: newId(), tools: ['delegate'] });
    const part = (who: object) => ({ name: 'delegate', input: { description: 'a part', ...who } });
    // What nobody has called so is looked up before anybody is chosen.
    engine.say([use(part({ agent: newId() }), part({ capability: newId() })), text('done')]);
    const { run } = await engine.start(boss, 'two parts');
    assert.equal(await engine.drive(run), 'dormant');
    const sent: OutboxRow[] = [];
    const send: Context['outbox']['send'] = (of, position, rows) => {
      sent.push(...rows);
      return engine.context.outbox.send(of, position, rows);
    };
    const context = { ...engine.context, outbox: { ...engine.context.outbox, send } };
    await lookNow(context, { tenantId: engine.tenantId, runId: run });
    assert.deepEqual(
      (await delegationsOf(engine, run)).map(({ status }) => status),
      ['failed', 'running'],
    );
    assert.deepEqual(sent.map(({ queue }) => queue).toSorted(), ['subtasks', 'turns']);
  });

  it('reads in its own transaction who writes the answer: an embedded database has no second one', async () => {
    const { context, tenantId } = engine;
    const planner = await engine.agent();
    const id = await startWorkflow(engine, [subtask('a'), subtask('b')], { agentId: planner });
    engine.say(() => text('done'));
    await lookNow(context, { tenantId, runId: id });
    for (const { id: child } of await childrenOfRun(engine, id)) await engine.finish(child);
    const none = createDefinitionCache({ ...context.db, withTenant: () => assert.fail('a second transaction') });
    assert.equal(await lookNow({ ...context, definitions: none }, { tenantId, runId: id }), 'advanced');
  });
});
