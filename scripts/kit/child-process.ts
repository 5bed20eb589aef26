/** What starts Drover as a process of its own needs to know of it: whether it has ended, is ready, and what it said last. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';

const READY_REQUEST_MS = 2000;
const TAIL_LINES = 15;

export function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

/** Whether an API answers `path` with a 2xx. */
export async function answers(url: string, path: '/healthz' | '/readyz'): Promise<boolean> {
  const answer = await fetch(`${url}${path}`, { signal: AbortSignal.timeout(READY_REQUEST_MS) }).catch(() => undefined);
  await answer?.body?.cancel();
  return answer?.ok === true;
}

/** The last lines of a log. */
export function tailOf(file: string): string {
  return readFileSync(file, 'utf8').trimEnd().split('\n').slice(-TAIL_LINES).join('\n');
}

/** A port of the loopback interface that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
