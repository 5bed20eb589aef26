import assert from 'node:assert/strict';
import { startDeadline } from '../../lib/deadline.ts';
import { openaiModel } from '../../llm/openai.ts';
import { createEgress } from '../../tools/egress.ts';
import { createTools, type Tools } from '../../tools/execute-tool.ts';
import { TOO_LATE, type ToolTransport } from '../../core/tool.ts';
import { busyFor } from '../support/busy-for.ts';
import { startServer, type LocalServer } from '../support/echo-server.ts';
import { ask, modelRequest } from '../support/model-request.ts';
import { ODD_SERVER } from '../support/odd-server.ts';
import { attemptOf, briefly, outputOf, toolOf } from '../support/tool-attempt.ts';

const LIMIT_MS = 400;
/** As much longer than the limit as the backstop of a call has beyond it. */
const STANDSTILL_MS = LIMIT_MS + 1100;

const ANSWER = {
  id: 'c',
  object: 'chat.completion',
  model: 'gpt-4.1',
  choices: [{ index: 0, message: { role: 'assistant', content: 'there' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
};

describe('After the process stood still beyond the limit of a call', () => {
  let server: LocalServer;
  let tools: Tools;
  const egress = createEgress({ allow: [], allowLoopback: true });
  beforeEach(async () => {
    // The process stands still when the answer is on its way, and has not read it.
    server = await startServer(({ path }, response) => {
      if (path !== '/silent') response.setHeader('content-type', 'application/json').end(JSON.stringify(ANSWER));
      busyFor(STANDSTILL_MS);
    });
    tools = createTools({ egress, stdioCommands: 'any' });
  });
  afterEach(async () => {
    await tools.close();
    await server.close();
  });

  const call = (transport: ToolTransport, timeoutMs = LIMIT_MS) =>
    tools.execute(toolOf(transport), attemptOf({}, { timeoutMs }));

  it("a tool's answer that arrived meanwhile counts", async () => {
    assert.deepEqual(outputOf(await call({ type: 'http', endpoint: server.url })), ANSWER);
  });

  it('so does that of an MCP server', async () => {
    const transport: ToolTransport = { type: 'mcp_stdio', ...ODD_SERVER, tool: 'json' };
    assert.equal(briefly(await call(transport, 20_000)), 'succeeded');
    const answer = call(transport);
    // By then the request is with the server, which goes on meanwhile.
    await new Promise(setImmediate);
    busyFor(STANDSTILL_MS);
    assert.deepEqual(outputOf(await answer), { a: [1, 2] });
  });

  for (const limits of [{ timeoutMs: LIMIT_MS }, { idleMs: LIMIT_MS }]) {
    it(`so does that of a model with ${Object.keys(limits).join()}`, async () => {
      const stream = openaiModel({ apiKey: 'k', baseUrl: server.url, ...limits });
      const { response } = await ask(stream, modelRequest({ model: 'gpt-4.1' }));
      assert.deepEqual(response.content, [{ type: 'text', text: 'there' }]);
    });
  }

  it('one that has not come is not waited for much longer', async () => {
    const sinceMs = performance.now();
    assert.equal(briefly(await call({ type: 'http', endpoint: `${server.url}/silent` })), 'lost timeout');
    assert.ok(performance.now() - sinceMs < 30_000);
  });

  it('a request that has not been sent is not sent any more', async () => {
    const lookup = async () => {
      busyFor(STANDSTILL_MS);
      return [{ address: '127.0.0.1' }];
    };
    const resolving = createEgress({ allow: ['tool.test'], allowLoopback: true, lookup });
    const signal = new AbortController().signal;
    const late = resolving.fetch(`http://tool.test:${server.port}/`, { maxBytes: 1000, timeoutMs: LIMIT_MS, signal });
    await assert.rejects(late, { code: 'too-late', sent: false });
    // So the call is made again, whatever its tool allows.
    const over = createTools({ egress: resolving, stdioCommands: 'any' });
    const tool = toolOf({ type: 'http', endpoint: `http://tool.test:${server.port}/` });
    assert.deepEqual(await over.execute(tool, attemptOf({}, { timeoutMs: LIMIT_MS })), TOO_LATE);
    await over.close();
    assert.equal(server.seen.length, 0);
  });

  it('work that a caller stops ends at once', async () => {
    const caller = new AbortController();
    const deadline = startDeadline(LIMIT_MS, caller.signal);
    busyFor(STANDSTILL_MS);
    await new Promise(setImmediate);
    assert.equal(deadline.ended(), undefined);
    caller.abort();
    assert.equal(deadline.ended(), 'aborted');
    deadline.clear();
  });
});
