import assert from 'node:assert/strict';
import { setSuspension } from '../../../modules/governance/suspend.ts';
import { openEngine, text, use, type Engine } from '../../support/engine.ts';
import { ODD_SERVER } from '../../support/odd-server.ts';
import { ledgerOfRun, resultsOf } from '../../support/queries/tool-calls.ts';

describe('A resource that a tool result links to', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  const LINK = 'file:///page.html';
  const screenshot = {
    name: 'screenshot',
    risk_level: 'READ_ONLY' as const,
    transport: { type: 'mcp_stdio' as const, ...ODD_SERVER, tool: 'screenshot' },
  };

  /** What the model is told of the reads that it asks for after it has seen the result with the link. */
  async function readAfter(reads: { tool_use_id: string; uri: string }[], between?: (toolId: string) => Promise<void>) {
    const agent = await engine.agent({ tools: ['read_resource'] }, [screenshot]);
    engine.say((asked, n) => {
      if (n === 0) {
        const offered = asked.tools?.find(({ name }) => name.startsWith('screenshot'))?.name ?? assert.fail();
        return use({ name: offered, id: 'toolu_shot' });
      }
      return n === 1 ? use(...reads.map((input) => ({ name: 'read_resource', input }))) : text('done');
    });
    const { run } = await engine.start(agent, 'go');
    assert.equal(await engine.drive(run), 'yielded');
    await engine.makeCalls(run);
    const [call] = await ledgerOfRun(engine, run);
    assert.ok(call);
    await between?.(call.tool_id);
    await engine.finish(run);
    return resultsOf(engine, run, 'read_resource');
  }

  it('is read at the server that said so', async () => {
    const [read] = await readAfter([{ tool_use_id: 'toolu_shot', uri: LINK }]);
    assert.deepEqual(read?.output, '<p>of the page, undefined</p>');
  });

  it('is none where no result of the conversation has the link', async () => {
    const [other, unknown] = await readAfter([
      { tool_use_id: 'toolu_shot', uri: 'file:///etc/passwd' },
      { tool_use_id: 'toolu_none', uri: LINK },
    ]);
    assert.deepEqual([other?.error?.code, unknown?.error?.code], ['unknown-link', 'unknown-link']);
  });

  it('is not read at a server that is suspended', async () => {
    const suspend = (id: string, suspended: boolean) =>
      setSuspension(engine.context, engine.caller, { kind: 'tool', id, suspended });
    const [read] = await readAfter([{ tool_use_id: 'toolu_shot', uri: LINK }], (id) => suspend(id, true));
    assert.equal(read?.error?.code, 'tool_suspended');
  });
});
