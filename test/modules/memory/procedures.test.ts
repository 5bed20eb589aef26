import assert from 'node:assert/strict';
import { consolidateShortTerm } from '../../../modules/memory/consolidate-short-term.ts';
import { eraseRun } from '../../../modules/runs/erase-run.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { memoriesOf } from '../../support/queries/memory.ts';

describe('What an agent does again and again', () => {
  let engine: Engine;
  let agent: string;
  const tools = ['look', 'note'].map((name) => ({ name, risk_level: 'READ_ONLY' as const }));
  const procedural = { enabled: true, min_frequency: 2 };

  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());
  beforeEach(async () => {
    engine.toolsAnswer(() => Promise.resolve({ status: 200, body: {} }));
    agent = await engine.agent({ memory_config: { procedural }, tools: ['recall', 'calculator'] }, tools);
  });

  /** A run in which the model asks for these one after the other, and then answers, or gets no answer. */
  const act = async (names: string[], isAnswered = true) => {
    engine.say((request, n) => {
      const name = names[n];
      if (name === undefined)
        return isAnswered ? text('done') : { error: { status: 401, type: 'authentication_error' } };
      const input = { recall: { query: 'What?' }, calculator: { expression: '1+1' } }[name] ?? {};
      return use({ name: offered(request, name), input });
    });
    const { run } = await engine.start(agent, 'Go.');
    await engine.finish(run);
    return run;
  };
  const consolidate = (config: object = procedural) =>
    consolidateShortTerm(
      engine.context,
      {
        tenantId: engine.tenantId,
        workspaceId: engine.platform.workspaceId,
        agentId: agent,
        definition: { name: 'a', memory_config: { procedural: config } },
        strategy: 'age',
        maxEntries: 100,
        at: new Date(),
        keyId: null,
      },
      new AbortController().signal,
    );

  it('becomes a procedure when it was seen often enough, with the runs that show it, once', async () => {
    const first = await act(['look', 'note']);
    assert.equal((await consolidate()).procedural, 0);
    const second = await act(['look', 'note']);
    assert.equal((await consolidate({ enabled: false })).procedural, 0);
    const { id, procedural: added } = await consolidate();
    assert.equal(added, 1);
    const [entry, ...more] = await memoriesOf(engine, agent);
    assert.deepEqual([entry?.memory_type, entry?.origin, more], ['PROCEDURAL', 'agent', []]);
    assert.match(entry?.content ?? '', /look\S* → note/);
    assert.deepEqual(entry?.metadata, { evidence: { times: 2, runs: [second, first] } });
    assert.equal(typeof id, 'string');
    await act(['look', 'note']);
    assert.equal((await consolidate()).procedural, 0, 'the same is not learnt anew');
  });

  it('is seen in turns alone that came to their end, in their order, and not in what was remembered or erased', async () => {
    await act(['look', 'note']);
    await act(['look', 'note'], false);
    await act(['note', 'look']);
    await act(['look', 'recall']);
    await act(['look', 'recall']);
    await act(['look']);
    await act(['look']);
    assert.equal((await consolidate()).procedural, 0);
    const gone = await act(['look', 'note']);
    await eraseRun(engine.context, engine.caller, { id: gone, dependents: true });
    assert.equal((await consolidate()).procedural, 0);
  });
});
