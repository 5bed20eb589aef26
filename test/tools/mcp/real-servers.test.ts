import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ToolAttempt, ToolProgress } from '../../../core/tool.ts';
import { createEgress } from '../../../tools/egress.ts';
import { createTools, type Tools } from '../../../tools/execute-tool.ts';
import type { ImportedTool } from '../../../tools/transport-kind.ts';
import type { McpServer } from '../../../tools/mcp/server.ts';
import { programOf, startEverything, type EverythingServer } from '../../support/mcp-server-everything.ts';
import { attemptOf, briefly, outputOf, toolOf } from '../../support/tool-attempt.ts';
import { waitUntil } from '../../support/wait-until.ts';

const NODE = process.execPath;
const egress = createEgress({ allow: [], allowLoopback: true });

const KINDS = ['mcp_stdio', 'mcp_http', 'mcp_sse'] as const;

for (const kind of KINDS) {
  describe(`server-everything over ${kind}`, () => {
    let tools: Tools;
    let remote: EverythingServer | undefined;
    let server: McpServer;
    let imported: ImportedTool[];

    before(async () => {
      tools = createTools({ egress, stdioCommands: [NODE] });
      if (kind === 'mcp_stdio') {
        server = { type: kind, command: NODE, args: [programOf('server-everything'), 'stdio'] };
      } else {
        remote = await startEverything(kind === 'mcp_http' ? 'streamableHttp' : 'sse');
        server = { type: kind, endpoint: remote.url };
      }
      imported = await tools.listTools('tenant-1', server, true);
    });
    after(async () => {
      await tools.close();
      await remote?.kill();
    });

    const call = (name: string, args: Record<string, unknown>, more: Partial<ToolAttempt> = {}) => {
      const tool = imported.find((each) => each.name === name);
      assert.ok(tool, `there is ${name}`);
      return tools.execute({ ...toolOf(tool.transport), ...tool }, attemptOf(args, more));
    };

    it('lists its tools with their schemas and annotations', () => {
      const echo = imported.find(({ name }) => name === 'echo');
      assert.deepEqual(echo?.input_schema['required'], ['message']);
      assert.equal(echo?.risk_level, 'READ_ONLY');
      assert.ok(imported.find(({ name }) => name === 'get-structured-content')?.output_schema);
    });

    it('answers with text, data and images', async () => {
      assert.equal(outputOf(await call('echo', { message: 'hello' })), 'Echo: hello');
      const weather = outputOf(await call('get-structured-content', { location: 'Chicago' })) as object;
      assert.deepEqual(Object.keys(weather).toSorted(), ['conditions', 'humidity', 'temperature']);
      assert.match(JSON.stringify(outputOf(await call('get-tiny-image', {}))), /"image\/png"/);
      assert.equal(briefly(await call('get-structured-content', { location: 'Atlantis' })), 'error tool-error');
    });

    it('shares one connection among calls at the same time, and gives each its own answer', async () => {
      const sums = await Promise.all([1, 2, 3, 4, 5].map((a) => call('get-sum', { a, b: 10 })));
      assert.deepEqual(
        sums.map((sum) => /\b1[1-5]\b/.exec(String(outputOf(sum)))?.[0]),
        ['11', '12', '13', '14', '15'],
      );
    });

    it('tells how far it is', async () => {
      const seen: ToolProgress[] = [];
      const onProgress = (progress: ToolProgress) => void seen.push(progress);
      await call('trigger-long-running-operation', { duration: 0.3, steps: 3 }, { onProgress });
      const told = seen.map(({ progress, total }) => `${progress}/${total}`);
      // The last may come together with the answer.
      assert.deepEqual(told.slice(0, 2), ['1/3', '2/3']);
    });

    it('stops waiting when the time is up or the caller stops', async () => {
      const long = { duration: 30, steps: 30 };
      assert.equal(briefly(await call('trigger-long-running-operation', long, { timeoutMs: 300 })), 'lost timeout');
      const controller = new AbortController();
      const stopped = call('trigger-long-running-operation', long, { signal: controller.signal });
      controller.abort();
      assert.equal(briefly(await stopped), 'aborted aborted');
      assert.equal(outputOf(await call('echo', { message: 'still here' })), 'Echo: still here');
    });

    if (kind !== 'mcp_stdio') {
      it('loses a call that is on when the server ends, and introduces itself again to the next one', async () => {
        let far = false;
        const onProgress = () => {
          far = true;
        };
        const running = call('trigger-long-running-operation', { duration: 60, steps: 600 }, { onProgress });
        await waitUntil('the call is on', () => far);
        await remote?.kill();
        const outcome = await running;
        assert.equal(outcome.kind, 'lost', JSON.stringify(outcome));
        assert.equal(briefly(await call('echo', { message: 'x' })).split(' ')[0], 'unreached');
        remote = await startEverything(kind === 'mcp_http' ? 'streamableHttp' : 'sse', remote?.port);
        assert.equal(outputOf(await call('echo', { message: 'again' })), 'Echo: again');
      });

      it('goes on at once with a server that has restarted between two calls', async () => {
        await call('echo', { message: 'before' });
        await remote?.kill();
        remote = await startEverything(kind === 'mcp_http' ? 'streamableHttp' : 'sse', remote?.port);
        // The old transport learns of the end from its stream.
        const outcome = await call('echo', { message: 'after' });
        assert.equal(outputOf(outcome), 'Echo: after');
      });
    }
  });
}

describe('server-filesystem and server-memory', () => {
  let folder: string;
  let tools: Tools;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'drover-mcp-'));
    tools = createTools({ egress, stdioCommands: [NODE] });
  });
  after(async () => {
    await tools.close();
    rmSync(folder, { recursive: true });
  });

  async function importAll(server: McpServer) {
    const imported = await tools.listTools('tenant-1', server, true);
    return (name: string, args: Record<string, unknown>) => {
      const tool = imported.find((each) => each.name === name);
      assert.ok(tool, `there is ${name} in ${imported.map((each) => each.name).join()}`);
      return tools.execute({ ...toolOf(tool.transport), ...tool }, attemptOf(args));
    };
  }

  it('read and write files within a folder, and nowhere else', async () => {
    const call = await importAll({ type: 'mcp_stdio', command: NODE, args: [programOf('server-filesystem'), folder] });
    writeFileSync(join(folder, 'in.txt'), 'from outside');
    assert.match(
      JSON.stringify(outputOf(await call('read_text_file', { path: join(folder, 'in.txt') }))),
      /from outside/,
    );
    assert.equal((await call('write_file', { path: join(folder, 'out.txt'), content: 'written' })).kind, 'succeeded');
    assert.equal(readFileSync(join(folder, 'out.txt'), 'utf8'), 'written');
    assert.equal(briefly(await call('read_text_file', { path: '/etc/passwd' })), 'error tool-error');
  });

  it('remember what they were told', async () => {
    const env = { MEMORY_FILE_PATH: join(folder, 'memory.jsonl') };
    const call = await importAll({ type: 'mcp_stdio', command: NODE, args: [programOf('server-memory')], env });
    const entities = [{ name: 'Ada', entityType: 'person', observations: ['writes programs'] }];
    assert.equal((await call('create_entities', { entities })).kind, 'succeeded');
    assert.match(JSON.stringify(outputOf(await call('search_nodes', { query: 'Ada' }))), /writes programs/);
  });
});
