import assert from 'node:assert/strict';
import type { BusMessage } from '../../../bus/bus.ts';
import { newId } from '../../../lib/new-id.ts';
import { createPolicy } from '../../../modules/governance/write-policy.ts';
import type { AnthropicReply } from '../../support/fake-anthropic.ts';
import { offered, openEngine, text, type Engine } from '../../support/engine.ts';
import { waitUntil } from '../../support/wait-until.ts';

type CallPiece = Extract<BusMessage, { kind: 'call_piece' }>;

describe('Calls that a model is writing', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  interface Answered {
    content: (tool: string) => AnthropicReply['content'];
    definition?: Parameters<Engine['agent']>[0];
  }

  /** What watchers are told of the calls of a run's first answer, and the ids of its calls in the log. */
  async function watch({ content, definition }: Answered): Promise<{ pieces: CallPiece[]; ids: string[] }> {
    const agent = await engine.agent(definition, [{ name: 'look', risk_level: 'READ_ONLY' }]);
    engine.say((request, n) => (n === 0 ? { content: content(offered(request, 'look')) ?? [] } : text('I see')));
    const { run } = await engine.start(agent, 'look');
    const pieces: CallPiece[] = [];
    const { bus } = engine.context;
    const last = newId();
    let isOver = false;
    const stop = bus.watch(run, (message) => {
      if (message.kind === 'call_piece') pieces.push(message);
      if (message.kind === 'delta' && message.turnId === last) isOver = true;
    });
    await engine.finish(run);
    // What watchers are sent arrives in the order in which it was sent.
    bus.publish({ subject: run, kind: 'delta', turnId: last, step: 1, delta: { type: 'text', text: 'over' } });
    await waitUntil('all of it has come', () => isOver);
    stop();
    const ids = (await engine.log(run)).flatMap((event) =>
      event.type === 'tool.requested' ? event.payload.tool_call_id : [],
    );
    return { pieces, ids };
  }

  const call = (name: string, input: object = { what: 'the sky' }) => {
    return { type: 'tool_use', id: `toolu_${newId()}`, name, input };
  };
  const written = (pieces: readonly CallPiece[], id: string | undefined) => {
    const own = pieces.filter(({ callId }) => callId === id);
    let at = 0;
    for (const piece of own) {
      assert.equal(piece.at, at);
      at += piece.text.length;
    }
    return own.map((piece) => piece.text).join('');
  };

  it('are told under the ids that they have in the log, after the text before them', async () => {
    const said = { type: 'text', text: 'I look.' };
    const { pieces, ids } = await watch({ content: (tool) => [said, call(tool), call(tool, { what: 'the sea' })] });
    assert.deepEqual(
      ids.map((id) => written(pieces, id)),
      ['{"what":"the sky"}', '{"what":"the sea"}'],
    );
    assert.ok(pieces.every(({ after }) => after === said.text.length));
    assert.deepEqual([...new Set(pieces.map(({ place }) => place))], [0, 1]);
  });

  it('are told from the first on that may be shown to no further than one that may not', async () => {
    const { pieces, ids } = await watch({ content: (tool) => [call(tool), call('unknown_tool'), call(tool)] });
    assert.equal(ids.length, 3);
    assert.deepEqual(new Set(pieces.map(({ callId }) => callId)), new Set(ids.slice(0, 1)));
  });

  it('are told in the log alone where the answer goes on with a text', async () => {
    const { pieces, ids } = await watch({ content: (tool) => [call(tool), { type: 'text', text: 'So.' }, call(tool)] });
    assert.equal(ids.length, 2);
    assert.ok(pieces.length > 0 && pieces.every(({ callId, place }) => !ids.includes(callId) && place === 0));
  });

  it('are not told where a rule may rewrite arguments, nor where the agent may not call the tool', async () => {
    const rails = { guardrail_config: { tool_rails: { allowed_tools: ['other'] } } };
    const refused = await watch({ content: (tool) => [call(tool)], definition: rails });
    assert.deepEqual([refused.pieces, refused.ids.length], [[], 1]);
    const most = { guardrail_config: { tool_rails: { max_calls_per_turn: 1 } } };
    const tooMany = await watch({ content: (tool) => [call(tool), call(tool)], definition: most });
    assert.deepEqual(new Set(tooMany.pieces.map(({ callId }) => callId)), new Set(tooMany.ids.slice(0, 1)));
    const rewrite = { arguments: { what: 'nothing' } };
    const rule = {
      name: newId(),
      priority: 1,
      when: 'tool.name == "x"',
      decision: 'rewrite' as const,
      reason: 'no',
      rewrite,
    };
    await engine.context.db.withTenant(engine.tenantId, (tx) => createPolicy(tx, engine.caller, rule));
    const rewritten = await watch({ content: (tool) => [call(tool)] });
    assert.deepEqual([rewritten.pieces, rewritten.ids.length], [[], 1]);
  });
});
