/** Helpers for starting Drover as a separate process: whether it has ended or is ready, and its last output. */
import type { ChildProcess } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';

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

/**
 * A loopback port that was free a moment ago, from below the kernel's ephemeral range: one of that range may be taken
 * before it is listened on.
 */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 100; tries++) {
    const port = randomInt(20_000, 32_000);
    const server = createServer().listen(port, '127.0.0.1');
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
  throw new Error('no port of 127.0.0.1 is free');
}
