import assert from 'node:assert/strict';
import type { CommitChange } from '../../../modules/run-log/group-commit.ts';
import { openEngine, text, type Engine } from '../../support/engine.ts';
import { toolsOfAgent } from '../../support/queries/agents.ts';
import { statusOfRun } from '../../support/queries/runs.ts';

const IDEMPOTENT = { annotations: { idempotentHint: true } };

describe('A run in a graph whose driver dies', () => {
  let engine: Engine;
  let agent: string;

  before(async () => {
    engine = await openEngine();
    const owner = await engine.agent({}, [
      { name: 'note', ...IDEMPOTENT },
      { name: 'record', execution: { inline: true }, ...IDEMPOTENT },
    ]);
    const [note = '', record = ''] = await toolsOfAgent(engine, owner);
    const call = (name: string, tool: string, input = {}) => ({ name, type: 'tool' as const, config: { tool, input } });
    const edge = (from: string, to: string | string[], condition: string | null = null) => ({ from, to, condition });
    agent = await engine.agent({
      workflow_graph: {
        entry_point: 'draft',
        nodes: [
          { name: 'draft', type: 'llm', config: {}, writes: { said: '{{output}} {{iteration}}' } },
          call('sum', 'calculator', { expression: '{{iteration}} + 1' }),
          call('note', note),
          call('record', record),
          { name: 'again', type: 'router', config: {} },
          { name: 'final', type: 'llm', config: { prompt: 'You said {{state.custom.said}}.' } },
        ],
        edges: [
          edge('draft', ['sum', 'note']),
          edge('sum', 'record'),
          edge('note', 'record'),
          edge('record', 'again'),
          edge('again', 'draft', 'iteration < 2'),
          edge('again', 'final'),
        ],
      },
    });
  });
  after(() => engine.close());

  it('goes on at any point, before a commit was written or after, with the same conversation and no call repeated', async () => {
    const undisturbed = await undergo(Number.POSITIVE_INFINITY, false);
    assert.equal(undisturbed.nodes.length, 11, undisturbed.nodes.join(' '));
    assert.ok(undisturbed.count >= 8, `${undisturbed.count} commits`);
    assert.equal(engine.tools.seen.length, 4);
    for (let dieAt = 1; dieAt <= undisturbed.count; dieAt++) {
      for (const written of [false, true]) {
        const at = `at commit ${dieAt} of ${undisturbed.count}, ${written ? 'written' : 'not written'}`;
        const { status, nodes, conversation } = await undergo(dieAt, written);
        assert.equal(status, 'completed', at);
        assert.deepEqual(nodes, undisturbed.nodes, at);
        assert.deepEqual(conversation, undisturbed.conversation, at);
        // An idempotent call may be sent once more, under its own key.
        const keys = engine.tools.seen.map(({ headers }) => headers['idempotency-key']);
        assert.equal(new Set(keys).size, 4, at);
        assert.ok(keys.length <= 5, `${keys.length} calls ${at}`);
        assert.ok(engine.model.requests.length <= 4, `${engine.model.requests.length} model calls ${at}`);
      }
    }
  });

  async function undergo(dieAt: number, written: boolean) {
    engine.say(() => text('so it is'));
    engine.toolsAnswer(() => undefined);
    const { run } = await engine.start(agent, 'do it all');
    let count = 0;
    const commit: CommitChange = async (change) => {
      count += 1;
      if (count < dieAt) return engine.context.commit(change);
      if (count === dieAt && written) await engine.context.commit(change);
      throw new Error('the process died');
    };
    const mortal = { ...engine.context, commit };
    for (let round = 0; round < 30; round++) {
      const end = await engine.drive(run, count < dieAt ? mortal : engine.context).catch(() => 'died');
      if (end === 'died') await engine.everyoneDies();
      else if ((await engine.makeCalls(run)).length === 0) break;
    }
    const log = await engine.log(run);
    const nodes = log.flatMap((event) => (event.type === 'node.entered' ? [event.payload.node] : []));
    return { count, nodes, status: await statusOfRun(engine, run), conversation: await engine.conversation(run) };
  }
});
