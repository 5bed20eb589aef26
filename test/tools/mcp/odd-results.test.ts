import assert from 'node:assert/strict';
import { createEgress } from '../../../tools/egress.ts';
import { createTools, type Tools } from '../../../tools/execute-tool.ts';
import { startServer, type LocalServer } from '../../support/echo-server.ts';
import { attemptOf, briefly, messageOf, toolOf } from '../../support/tool-attempt.ts';

describe('an answer of an MCP server', () => {
  let server: LocalServer;
  let tools: Tools;
  /** The result of each call, as JSON. */
  let result: string;
  let asEvents: boolean;
  beforeEach(async () => {
    asEvents = false;
    server = await startServer(({ method, body }, response) => {
      if (method !== 'POST') return response.writeHead(405).end();
      const { id, method: asked, params } = JSON.parse(body);
      if (id === undefined) return response.writeHead(202).end();
      const { protocolVersion } = params;
      const introduced = { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'odd', version: '1' } };
      const answer = `{"jsonrpc":"2.0","id":${id},"result":${asked === 'initialize' ? JSON.stringify(introduced) : result}}`;
      return asEvents
        ? response.writeHead(200, { 'content-type': 'text/event-stream' }).end(`data: ${answer}\n\n`)
        : response.writeHead(200, { 'content-type': 'application/json' }).end(answer);
    });
    tools = createTools({ egress: createEgress({ allow: [], allowLoopback: true }), stdioCommands: [] });
  });
  afterEach(async () => {
    await tools.close();
    await server.close();
  });

  const call = () =>
    tools.execute(toolOf({ type: 'mcp_http', endpoint: `${server.url}/mcp` }), attemptOf({}, { timeoutMs: 3000 }));

  for (const events of [false, true]) {
    for (const [what, content] of [
      ['alone', []],
      ['beside a text', [{ type: 'text', text: 'a great number' }]],
      ['beside a text that repeats it', [{ type: 'text', text: '{"n":1e999}' }]],
    ] as const) {
      it(`with a number that is too great ${what} is bad-output, as ${events ? 'events' : 'JSON'}`, async () => {
        asEvents = events;
        result = `{"content":${JSON.stringify(content)},"structuredContent":{"n":1e999}}`;
        const outcome = await call();
        assert.equal(briefly(outcome), 'error bad-output', messageOf(outcome));
        assert.match(messageOf(outcome), /too large/);
      });
    }
  }

  for (const answer of ['{}', '{"task":{"taskId":"t"}}', '{"resultType":"input_required"}', '{"toolResult":7}']) {
    it(`that has no part of a result (${answer}) is bad-answer: the call was made`, async () => {
      result = answer;
      const outcome = await call();
      assert.equal(briefly(outcome), 'error bad-answer');
      assert.match(messageOf(outcome), /The call was made/);
    });
  }

  it('is an empty output where it has no block, and the error of a tool that has only that to say', async () => {
    for (const [answer, brief] of [
      ['{"content":[]}', 'succeeded'],
      ['{"isError":true}', 'error tool-error'],
    ] as const) {
      result = answer;
      assert.equal(briefly(await call()), brief, answer);
    }
  });

  it('with data that is nested too deeply is bad-output also beside a text', async () => {
    const levels = 20_000;
    result = `{"content":[{"type":"text","text":"a"}],"structuredContent":{"n":${'['.repeat(levels)}${']'.repeat(levels)}}}`;
    const outcome = await call();
    assert.equal(briefly(outcome), 'error bad-output', messageOf(outcome));
    assert.match(messageOf(outcome), /deeper than 500 levels/);
  });

  for (const block of [
    '{"type":"hologram","data":"x"}',
    '{"type":"image","mimeType":"image/png","data":"no base64!"}',
  ]) {
    it(`that is no result (${block}) tells the model that the call was made`, async () => {
      result = `{"content":[${block}]}`;
      const outcome = await call();
      assert.equal(briefly(outcome), 'error bad-answer');
      assert.match(messageOf(outcome), /The call was made/);
    });
  }
});
