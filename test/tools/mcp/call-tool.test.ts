import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { env } from 'node:process';
import type { ToolAttempt, ToolTransport } from '../../../core/tool.ts';
import { createMcpPool } from '../../../tools/mcp/pool.ts';
import type { McpPool } from '../../../tools/mcp/pool.ts';
import { callMcpTool } from '../../../tools/mcp/call-tool.ts';
import { createArgumentValidator } from '../../../tools/validate-arguments.ts';
import { createEgress } from '../../../tools/egress.ts';
import type { McpServer } from '../../../tools/mcp/server.ts';
import { compiledOf } from '../../support/processes.ts';
import { attemptOf, briefly, messageOf, outputOf } from '../../support/tool-attempt.ts';
import { isAlive, waitUntil } from '../../support/wait-until.ts';
import { ODD_SERVER } from '../../support/odd-server.ts';

type StdioTransport = Extract<ToolTransport, { type: 'mcp_stdio' }>;

const egress = createEgress({ allow: [], allowLoopback: true });

describe('callMcpTool', () => {
  let folder: string;
  let pool: McpPool;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'drover-mcp-'));
    pool = createMcpPool({ egress });
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
    callAt({ ...ODD_SERVER, env: { ODD_LOG: logFile() }, ...transport }, transport.tool ?? name, {
      attempt: attemptOf(more.arguments ?? {}, more),
    });
  const callAt = (
    { tool: _tool, ...rest }: Partial<StdioTransport>,
    name: string,
    { attempt, from = pool }: { attempt: ToolAttempt; from?: McpPool },
  ) => {
    const server: McpServer = { ...ODD_SERVER, ...rest, type: 'mcp_stdio' };
    return callMcpTool({ target: { tenantId: attempt.tenantId, server }, name }, attempt, from);
  };
  const pidOf = async (transport: Partial<StdioTransport> = {}) => Number(outputOf(await call('pid', {}, transport)));

  it('prefers structured output, then JSON, then text, then the blocks as they are', async () => {
    assert.deepEqual(outputOf(await call('structured')), { for: 'machines' });
    assert.deepEqual(outputOf(await call('json')), { a: [1, 2] });
    assert.equal(outputOf(await call('text')), 'plain words');
    assert.deepEqual(outputOf(await call('image')), {
      content: [{ type: 'image', data: 'AA==', mimeType: 'image/png' }],
    });
  });

  it('shows a model every block in its own form, and what repeats the structured output once', async () => {
    const outcome = await call('screenshot');
    assert.ok(outcome.kind === 'succeeded');
    assert.deepEqual(outcome.content, [
      { type: 'text', text: '{"width":1}' },
      { type: 'text', text: 'as it looks now' },
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } },
      { type: 'text', text: '[resource file:///page.html: page.html, text/html]' },
      { type: 'text', text: 'of the file' },
      { type: 'text', text: '[audio/wav of 4 characters in base64 left out]' },
    ]);
    const whole = outcome.output as { structuredContent: unknown; content: unknown[] };
    assert.deepEqual(whole.structuredContent, { width: 1 });
    assert.equal(whole.content.length, 6);
    const structured = await call('structured');
    assert.ok(structured.kind === 'succeeded');
    assert.deepEqual(structured.content, [
      { type: 'text', text: '{"for":"machines"}' },
      { type: 'text', text: 'for people' },
    ]);
    const plain = await call('text');
    assert.ok(plain.kind === 'succeeded' && plain.content === undefined);
  });

  it("calls a tool by its server's own name for it", async () => {
    const outcome = await call('renamed', { arguments: { a: 1 } }, { tool: 'odd name/1' });
    assert.deepEqual(outputOf(outcome), { a: 1 });
  });

  it('passes on the idempotency key and whose call it is', async () => {
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
    assert.match(messageOf(missing), /ENOENT|EACCES/);
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
    const idle = createMcpPool({ egress, idleMs: 50 });
    const transport: StdioTransport = { type: 'mcp_stdio', ...ODD_SERVER };
    const pid = Number(outputOf(await callAt(transport, 'pid', { attempt: attemptOf({}), from: idle })));
    await waitUntil('the process is gone', () => !isAlive(pid));
    await idle.close();
  });

  it('does not lose sight of a server when the one before it ends late', async () => {
    const idle = createMcpPool({ egress, idleMs: 50 });
    const transport: StdioTransport = { type: 'mcp_stdio', ...ODD_SERVER, env: { ODD_LOG: logFile(), ODD_DEAF: '1' } };
    const first = Number(outputOf(await callAt(transport, 'pid', { attempt: attemptOf({}), from: idle })));
    await waitUntil('it is being stopped', () => logged().includes('deaf to SIGTERM'));
    const hanging = callAt(transport, 'hang', { attempt: attemptOf({}, { timeoutMs: 8000 }), from: idle });
    await waitUntil('the next one works and the first is gone', () => logged().includes('hanging') && !isAlive(first));
    const second = Number(outputOf(await callAt(transport, 'pid', { attempt: attemptOf({}), from: idle })));
    assert.equal(logged().split('started').length - 1, 2);
    assert.match(logged(), new RegExp(`started ${second}`));
    await idle.close();
    assert.equal(briefly(await hanging), 'lost server-died');
    await waitUntil('both are gone', () => !isAlive(second));
  });

  it('does not stop a server for idleness while a call is on', async () => {
    const idle = createMcpPool({ egress, idleMs: 50 });
    const busy: StdioTransport = { type: 'mcp_stdio', ...ODD_SERVER, env: { ODD_LOG: logFile() } };
    const stop = new AbortController();
    const hanging = callAt(busy, 'hang', { attempt: attemptOf({}, { signal: stop.signal }), from: idle });
    await waitUntil('the call is on', () => logged().includes('hanging'));
    // Another server of the same pool, used later than this one, is stopped.
    const used = await callAt({ type: 'mcp_stdio', ...ODD_SERVER }, 'pid', { attempt: attemptOf({}), from: idle });
    await waitUntil('the idle server is gone', () => !isAlive(Number(outputOf(used))));
    stop.abort();
    assert.equal(briefly(await hanging), 'aborted aborted');
    await idle.close();
  });

  it('leaves no process behind when it is closed, not even one that listens to nothing', async () => {
    const plain = await pidOf();
    const deaf = await pidOf({ env: { ODD_LOG: logFile(), ODD_DEAF: '1' } });
    const sinceMs = performance.now();
    await pool.close();
    assert.ok(performance.now() - sinceMs < 3500, 'within the time that a process has for closing');
    assert.match(logged(), /deaf to SIGTERM/);
    await waitUntil('both are gone', () => !isAlive(plain) && !isAlive(deaf));
    assert.equal(briefly(await call('text')), 'unreached server-start');
  });

  it('leaves nothing behind that a server has started, whether it is stopped or killed', async () => {
    const [pid, child] = outputOf(await call('family')) as [number, number];
    const others = { env: { ODD_LOG: logFile(), ANOTHER: '1' } };
    const [killed, orphan] = outputOf(await call('family', {}, others)) as [number, number];
    process.kill(killed, 'SIGKILL');
    await waitUntil('the child of the killed one is gone', () => !isAlive(orphan));
    assert.ok(isAlive(child));
    await pool.close();
    await waitUntil('all are gone', () => !isAlive(pid) && !isAlive(child));
  });

  it('refuses what a server asks of a model or a person, and says so', async () => {
    const [sampling, elicitation] = outputOf(await call('sample')) as string[];
    assert.match(sampling ?? '', /Drover does not do sampling\/createMessage/);
    assert.match(elicitation ?? '', /Drover does not do elicitation\/create/);
  });

  it('takes an answer that breaks its output schema for an error, which keeps the answer', async () => {
    const server: McpServer = { type: 'mcp_stdio', ...ODD_SERVER };
    const { validateArguments } = createArgumentValidator();
    const checked = (schema: Record<string, unknown>) => (content: unknown) => validateArguments(schema, content);
    const outputSchema = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] };
    const outcome = await callMcpTool(
      { target: { tenantId: 't', server }, name: 'misfit', checkOutput: checked(outputSchema) },
      attemptOf({}),
      pool,
    );
    assert.equal(briefly(outcome), 'error output-invalid');
    assert.deepEqual(outcome.kind === 'error' && outcome.output, { n: 'seven' });
    const fitting = { ...outputSchema, properties: { n: { type: 'string' } } };
    const fits = await callMcpTool(
      { target: { tenantId: 't', server }, name: 'misfit', checkOutput: checked(fitting) },
      attemptOf({}),
      pool,
    );
    assert.deepEqual(outputOf(fits), { n: 'seven' });
  });

  it('gives each tenant a server of its own', async () => {
    assert.notEqual(outputOf(await call('pid', { tenantId: 'a' })), outputOf(await call('pid', { tenantId: 'b' })));
  });

  it('backs off from a server that keeps failing, longer each time, and tries it again', async () => {
    const patient = createMcpPool({ egress, backoffMs: 200 });
    const target = { tenantId: 't', server: { type: 'mcp_stdio' as const, command: 'no-such-command-anywhere' } };
    const attempt = () => callMcpTool({ target, name: 'x' }, attemptOf({}), patient);
    /** How long it is not started yet; undefined if it was started, in vain. */
    const restOf = async () => {
      const outcome = await attempt();
      assert.equal(briefly(outcome), 'unreached server-start');
      return outcome.kind === 'unreached' ? outcome.retryAfterMs : undefined;
    };
    assert.deepEqual([await restOf(), await restOf()], [undefined, undefined]);
    const first = await restOf();
    assert.ok(first !== undefined && first <= 200);
    await waitUntil('it is started again', async () => (await restOf()) === undefined);
    assert.ok(((await restOf()) ?? 0) > 200, 'twice as long the next time');
    await patient.close();
  });

  /** A process of ours that has started a server, as its program. */
  const startParent = async (variables: Record<string, string>, atEnd = '') => {
    const script = `
      import { createEgress } from '${await compiledOf('tools/egress.ts')}';
      import { createMcpPool } from '${await compiledOf('tools/mcp/pool.ts')}';
      const server = { type: 'mcp_stdio', ...${JSON.stringify(ODD_SERVER)}, env: ${JSON.stringify(variables)} };
      const pool = createMcpPool({ egress: createEgress({ allow: [], allowLoopback: true }) });
      await pool.acquire({ tenantId: 't', server });
      ${atEnd}
    `;
    return spawn(process.execPath, ['--input-type=module', '--eval', script], { stdio: 'inherit' });
  };
  const startedPid = () => Number(/started (\d+)/.exec(logged())?.[1]);

  it('leaves no process behind when we are killed', async () => {
    const parent = await startParent({ ODD_LOG: logFile() });
    await waitUntil('the server has started', () => logged().includes('started'));
    const pid = startedPid();
    assert.ok(isAlive(pid));
    parent.kill('SIGKILL');
    await once(parent, 'exit');
    await waitUntil('the server has gone too', () => !isAlive(pid));
  });

  it('leaves no process behind when we end, not even one that listens to nothing and was not waited for', async () => {
    const parent = await startParent({ ODD_LOG: logFile(), ODD_DEAF: '1' }, 'void pool.close(); process.exit(0);');
    await once(parent, 'exit');
    await waitUntil('the server has gone too', () => !isAlive(startedPid()));
  });
});
