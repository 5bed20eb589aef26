import { spawn } from 'node:child_process';
import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { getDefaultEnvironment } from '@modelcontextprotocol/sdk/client/stdio.js';
import { deserializeMessage, serializeMessage } from '@modelcontextprotocol/sdk/shared/stdio.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { LIMITS } from '../../core/limits.ts';
import { holdsMoreValues } from '../../lib/json-size.ts';
import type { MessageLimits } from './message-limits.ts';
import type { McpServer } from './server.ts';

type StdioServer = Extract<McpServer, { type: 'mcp_stdio' }>;

/** Pauses between the end of its input, SIGTERM and SIGKILL: together less than a process has for closing. */
const PATIENCE_MS = 1000;
/** Far more than is shown, so that the cut never hides a part of a secret from redaction. */
const STDERR_CHARS = LIMITS.secretBytes + 10_000;

/**
 * MCP over a child process's standard streams (spec 2025-11-25, stdio). Not the SDK's: the child leads its own process
 * group, so that all its descendants end with it. It gets a minimal environment and `env`.
 */
export function createStdioTransport(
  server: StdioServer,
  most: MessageLimits,
): { transport: Transport; stderr: () => string } {
  let child: ChildProcessWithoutNullStreams | undefined;
  let ended: Promise<void> = Promise.resolve();
  let stderr = '';
  const transport: Transport = {
    async start() {
      const started = spawnLeader(server);
      child = started;
      ended = new Promise((resolve) => {
        started.on('close', () => {
          child = undefined;
          resolve();
          transport.onclose?.();
        });
      });
      started.stdin.on('error', (error) => transport.onerror?.(error));
      started.stderr.on('data', (chunk: Buffer) => {
        stderr = (stderr + chunk.toString('utf8')).slice(-STDERR_CHARS);
      });
      listen(started, transport, most);
      await new Promise((resolve, reject) => {
        started.on('spawn', resolve).on('error', reject);
      });
    },
    async send(message) {
      if (!child?.stdin.writable) throw new Error('Not connected');
      const { stdin } = child;
      if (!stdin.write(serializeMessage(message))) await drained(stdin);
    },
    async close() {
      const closing = child;
      if (!closing) return;
      closing.stdin.end();
      for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
        if (await settlesWithin(ended, PATIENCE_MS)) break;
        signalGroup(closing, signal);
      }
      await settlesWithin(ended, PATIENCE_MS);
    },
  };
  return { transport, stderr: () => stderr.trim() };
}

const leaders = new Set<ChildProcessWithoutNullStreams>();

/** At the exit of this process: a stop may have had less time than a program takes to end. */
function killAll(): void {
  for (const leader of leaders) signalGroup(leader, 'SIGKILL');
}

/** Starts the program as leader of a process group, which is killed once the leader, or this process, has ended. */
function spawnLeader({ command, args = [], env }: StdioServer): ChildProcessWithoutNullStreams {
  const leader = spawn(command, [...args], {
    env: { ...getDefaultEnvironment(), LANG: 'C.UTF-8', ...env },
    stdio: 'pipe',
    detached: true,
  });
  if (leaders.size === 0) process.on('exit', killAll);
  leaders.add(leader);
  const forget = () => {
    leaders.delete(leader);
    if (leaders.size === 0) process.off('exit', killAll);
  };
  // On `exit`, not `close`: descendants keep the streams open.
  return leader.on('error', forget).on('exit', () => {
    signalGroup(leader, 'SIGKILL');
    forget();
  });
}

function listen(
  child: ChildProcessWithoutNullStreams,
  transport: Transport,
  { maxBytes, maxValues }: MessageLimits,
): void {
  const split = lineSplitter(maxBytes);
  const receive = (line: string): void => {
    try {
      transport.onmessage?.(deserializeMessage(line));
    } catch (error) {
      transport.onerror?.(error as Error);
    }
  };
  child.stdout.on('data', (chunk: Buffer) => {
    try {
      for (const line of split(chunk)) {
        // Nobody listens any more, and a program that prints without an end would leave the process no time.
        if (!transport.onmessage) return void child.stdout.destroy();
        if (holdsMoreValues(line, maxValues)) throw tooLong(`${maxValues} values`);
        receive(line);
      }
    } catch (error) {
      // After an oversized message nothing can be read any more.
      transport.onerror?.(error as Error);
      void transport.close();
    }
  });
}

/** Splits chunks into lines. Not the SDK's buffer, which copies everything with each chunk. Throws if a line is too long. */
function lineSplitter(maxBytes: number): (chunk: Buffer) => string[] {
  let parts: Buffer[] = [];
  let bytes = 0;
  return (chunk) => {
    const lines: string[] = [];
    let from = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, from)) {
      parts.push(chunk.subarray(from, end));
      lines.push(Buffer.concat(parts).toString('utf8').replace(/\r$/, ''));
      parts = [];
      bytes = 0;
      from = end + 1;
    }
    parts.push(chunk.subarray(from));
    bytes += chunk.length - from;
    if (bytes <= maxBytes) return lines;
    parts = [];
    throw tooLong(`${maxBytes} bytes`);
  };
}

const tooLong = (most: string) => new Error(`a message exceeded maximum size of ${most}`);

/** The group's id is the leader's pid, and stays taken while any member lives. */
function signalGroup({ pid }: ChildProcessWithoutNullStreams, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, signal);
  } catch {
    // The whole group has ended.
  }
}

function drained(stream: NodeJS.WritableStream): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      stream.off('drain', done).off('close', done).off('error', done);
      resolve();
    };
    stream.on('drain', done).on('close', done).on('error', done);
  });
}

async function settlesWithin(work: Promise<void>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(resolve, ms, false);
  });
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}
