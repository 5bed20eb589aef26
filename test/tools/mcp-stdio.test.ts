import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { env } from 'node:process';
import type { ToolAttempt } from '../../core/tool.ts';
import { createMcpPool } from '../../tools/mcp-pool.ts';
import type { McpPool } from '../../tools/mcp-pool.ts';
import { callMcpTool } from '../../tools/mcp-stdio.ts';
import type { StdioTransport } from '../../tools/mcp-stdio.ts';
import { attemptOf, briefly, messageOf, outputOf } from '../support/tool-attempt.ts';
import { isAlive, waitUntil } from '../support/wait-until.ts';

const SERVER = { command: process.execPath, args: ['--import', 'tsx', 'test/support/odd-mcp-server.ts'] };

describe('callMcpTool', () => {
  let folder: string;
  let pool: McpPool;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'drover-mcp-'));
    pool = createMcpPool();
  });
  afterEach(async () => {
    await pool.close();
    rmSync(folder, { recursive: true });
  });

  const logFile = () => join(folder, 'log');
  const logged = () => {
    try {
      return readFileSync(logFile(), 'utf8');
    } catch {
      return '';
    }
  };
  const call = (name: string, more: Partial<ToolAttempt> = {}, transport: Partial<StdioTransport> = {}) =>
    callMcpTool(
      { transport: { type: 'mcp_stdio', ...SERVER, env: { ODD_LOG: logFile() }, ...transport }, name },
      attemptOf(more.arguments ?? {}, more),
      pool,
    );
  const pidOf = async (transport: Partial<StdioTransport> = {}) => Number(outputOf(await call('pid', {}, transport)));

  it('prefers structured output, then JSON, then text, then the blocks as they are', async () => {
    assert.deepEqual(outputOf(await call('structured')), { for: 'machines' });
    assert.deepEqual(outputOf(await call('json')), { a: [1, 2] });
    assert.equal(outputOf(await call('text')), 'plain words');
    assert.deepEqual(outputOf(await call('image')), {
      content: [{ type: 'image', data: 'AA==', mimeType: 'image/png' }],
    });
  });

  it("calls a tool by its server's own name for it", async () => {
    const outcome = await call('renamed', { arguments: { a: 1 } }, { tool: 'odd name/1' });
    assert.deepEqual(outputOf(outcome), { a: 1 });
  });

  it('hands over the idempotency key and whose call it is', async () => {
    const meta = outputOf(await call('meta', { idempotencyKey: 'key-1', traceparent: '00-a-b-01' }));
    assert.deepEqual(meta, {
      idempotencyKey: 'key-1',
      'drover/idempotency-key': 'key-1',
      'drover/run-id': 'run-1',
      'drover/tool-call-id': 'call-1',
      traceparent: '00-a-b-01',
    });
  });

  it("takes the tool's own failures for errors", async () => {
    const failed = await call('fail');
    assert.equal(briefly(failed), 'error tool-error');
    assert.equal(messageOf(failed), 'the printer is on fire');
    assert.match(messageOf(await call('throw')), /an error of the protocol/);
    assert.match(briefly(await call('throw')), /^error mcp/);
    assert.match(messageOf(await call('nope')), /no tool nope/);
  });

  it('gives a server a minimal environment, never ours', async () => {
    env['DROVER_SECRET_KEY'] = 'ours';
    try {
      const given = outputOf(await call('environment', {}, { env: { OWN: 'mine' } })) as Record<string, string>;
      assert.equal(given['OWN'], 'mine');
      assert.equal(given['LANG'], 'C.UTF-8');
      assert.equal(given['PATH'], env['PATH']);
      const known = ['HOME', 'LANG', 'LOGNAME', 'OWN', 'PATH', 'SHELL', 'TERM', 'USER'];
      assert.deepEqual(
        Object.keys(given).filter((name) => !known.includes(name)),
        [],
      );
    } finally {
      delete env['DROVER_SECRET_KEY'];
    }
  });

  it('shares one process among calls, and starts another for another environment', async () => {
    const [one, two] = await Promise.all([pidOf(), pidOf()]);
    assert.equal(one, two);
    assert.notEqual(await pidOf({ env: { ODD_LOG: logFile(), X: '1' } }), one);
    assert.equal(logged().split('started').length - 1, 2);
  });

  it('ends as lost when the time is up, tells the server, and leaves it running for others', async () => {
    const pid = await pidOf();
    const outcome = await call('hang', { timeoutMs: 300 });
    assert.equal(briefly(outcome), 'lost timeout');
    await waitUntil('the server learns of it', () => logged().includes('cancelled'));
    assert.equal(await pidOf(), pid);
  });

  it('ends as aborted when the caller stops, and tells the server', async () => {
    const controller = new AbortController();
    const outcome = call('hang', { signal: controller.signal });
    await waitUntil('the call is on', () => logged().includes('hanging'));
    controller.abort();
    assert.equal(briefly(await outcome), 'aborted aborted');
    await waitUntil('the server learns of it', () => logged().includes('cancelled'));
  });

  it('ends as lost when the server dies during the call, and starts it again for the next', async () => {
    const before = await pidOf();
    const outcome = await call('crash');
    assert.equal(briefly(outcome), 'lost server-died');
    assert.match(messageOf(outcome), /out of paper/);
    assert.notEqual(await pidOf(), before);
  });

  it('loses every call that is on when the server is killed, and no later one', async () => {
    const pid = await pidOf();
    const calls = [call('hang'), call('hang')];
    await waitUntil('both calls are on', () => logged().split('hanging').length === 3);
    process.kill(pid, 'SIGKILL');
    assert.deepEqual((await Promise.all(calls)).map(briefly), ['lost server-died', 'lost server-died']);
    assert.equal(outputOf(await call('text')), 'plain words');
  });

  it('ends as unreached when the server cannot start, and says why', async () => {
    const missing = await call('text', {}, { command: 'no-such-command-anywhere' });
    assert.equal(briefly(missing), 'unreached server-start');
    assert.match(messageOf(missing), /ENOENT/);
    const refused = await call('text', {}, { env: { ODD_REFUSE: '1' } });
    assert.equal(briefly(refused), 'unreached server-start');
    assert.match(messageOf(refused), /no licence found/);
  });

  it('ends as unreached when the server does not start in time', async () => {
    const outcome = await call('text', { timeoutMs: 200 }, { command: 'sleep', args: ['60'], env: {} });
    assert.equal(briefly(outcome), 'unreached server-start');
  });

  it('takes an answer beyond every limit for an error and goes on with a new server', async () => {
    const outcome = await call('large', { arguments: { bytes: 25_000_000 } });
    assert.equal(briefly(outcome), 'error output-too-large');
    assert.equal(outputOf(await call('text')), 'plain words');
  });

  it('stops a server that nobody has used for a while', async () => {
    const idle = createMcpPool({ idleMs: 50 });
    const transport: StdioTransport = { type: 'mcp_stdio', ...SERVER };
    const pid = Number(outputOf(await callMcpTool({ transport, name: 'pid' }, attemptOf({}), idle)));
    await waitUntil('the process is gone', () => !isAlive(pid));
    await idle.close();
  });

  it('does not lose sight of a server when the one before it ends late', async () => {
    const idle = createMcpPool({ idleMs: 50 });
    const transport: StdioTransport = { type: 'mcp_stdio', ...SERVER, env: { ODD_LOG: logFile(), ODD_DEAF: '1' } };
    const first = Number(outputOf(await callMcpTool({ transport, name: 'pid' }, attemptOf({}), idle)));
    await waitUntil('it is being stopped', () => logged().includes('deaf to SIGTERM'));
    const hanging = callMcpTool({ transport, name: 'hang' }, attemptOf({}, { timeoutMs: 8000 }), idle);
    await waitUntil('the next one works and the first is gone', () => logged().includes('hanging') && !isAlive(first));
    const second = Number(outputOf(await callMcpTool({ transport, name: 'pid' }, attemptOf({}), idle)));
    assert.equal(logged().split('started').length - 1, 2);
    assert.match(logged(), new RegExp(`started ${second}`));
    await idle.close();
    assert.equal(briefly(await hanging), 'lost server-died');
    await waitUntil('both are gone', () => !isAlive(second));
  });

  it('does not stop a server for idleness while a call is on', async () => {
    const idle = createMcpPool({ idleMs: 50 });
    const transport: StdioTransport = { type: 'mcp_stdio', ...SERVER };
    const outcome = await callMcpTool({ transport, name: 'hang' }, attemptOf({}, { timeoutMs: 3000 }), idle);
    assert.equal(briefly(outcome), 'lost timeout');
    await idle.close();
  });

  it('leaves no process behind when it is closed, not even one that listens to nothing', async () => {
    const plain = await pidOf();
    const deaf = await pidOf({ env: { ODD_LOG: logFile(), ODD_DEAF: '1' } });
    await pool.close();
    assert.match(logged(), /deaf to SIGTERM/);
    await waitUntil('both are gone', () => !isAlive(plain) && !isAlive(deaf));
    assert.equal(briefly(await call('text')), 'unreached server-start');
  });

  it('leaves no process behind when we are killed', async () => {
    const script = `
      import { createMcpPool } from './tools/mcp-pool.ts';
      await createMcpPool().acquire({ ...${JSON.stringify(SERVER)}, env: { ODD_LOG: ${JSON.stringify(logFile())} } });
    `;
    const parent = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', script], {
      stdio: 'inherit',
    });
    await waitUntil('the server has started', () => logged().includes('started'));
    const pid = Number(/started (\d+)/.exec(logged())?.[1]);
    assert.ok(isAlive(pid));
    parent.kill('SIGKILL');
    await once(parent, 'exit');
    await waitUntil('the server has gone too', () => !isAlive(pid));
  });
});
