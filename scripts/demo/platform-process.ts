/** Runs Drover as a separate process in embedded mode, so that it can be killed and restarted on the same data. */
import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { closeSync, openSync } from 'node:fs';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { answers, freePort, hasEnded, tailOf } from '../kit/child-process.ts';
import { NODE_ARGS, programOf } from '../kit/programs.ts';

const READY_MS = 180_000;
const STOP_MS = 10_000;

export interface PlatformProcess {
  readonly url: string;
  readonly key: string;
  /** The log of all its starts. */
  readonly logFile: string;
  /** Starts it and waits until it is ready; returns its process id and the time that took. Throws with the end of its log. */
  start(): Promise<{ pid: number; ms: number }>;
  /** Sends SIGKILL: the process gets no warning. */
  kill(): Promise<void>;
  /** Sends SIGTERM, then SIGKILL if that takes too long. It cannot be restarted. */
  stop(): Promise<void>;
  /** Sends SIGKILL without waiting, when this process exits. */
  killNow(): void;
}

/** Prepares a platform with its data in `dir`. It inherits `env` without variables that would end embedded mode. */
export async function createPlatformProcess(dir: string, env: NodeJS.ProcessEnv): Promise<PlatformProcess> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const key = `demo_${randomBytes(16).toString('hex')}`;
  const logFile = join(dir, 'drover.log');
  const own = { PORT: String(port), HOST: '127.0.0.1', DROVER_API_KEY: key, DROVER_DATA_DIR: join(dir, 'data') };
  let child: ChildProcess | undefined;
  let stopped = false;

  const end = async (signal: NodeJS.Signals) => {
    if (!child || hasEnded(child)) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    const deadline = setTimeout(() => child?.kill('SIGKILL'), STOP_MS);
    await ended;
    clearTimeout(deadline);
  };

  return {
    url,
    key,
    logFile,
    async start() {
      if (stopped) throw new Error('Drover was stopped.');
      const since = performance.now();
      child = spawnPlatform({ ...embedded(env), ...own }, logFile);
      await untilReady(child, { url, logFile });
      return { pid: child.pid ?? 0, ms: Math.round(performance.now() - since) };
    },
    kill: () => end('SIGKILL'),
    stop() {
      stopped = true;
      return end('SIGTERM');
    },
    killNow: () => child?.kill('SIGKILL'),
  };
}

function spawnPlatform(env: NodeJS.ProcessEnv, logFile: string): ChildProcess {
  const main = programOf('scripts/demo/start-as-child');
  const log = openSync(logFile, 'a');
  try {
    return spawn(process.execPath, [...NODE_ARGS, main], { env, stdio: ['ignore', log, log, 'ipc'] });
  } finally {
    closeSync(log);
  }
}

/** The demo sets Drover's variables; model keys and `DROVER_MODEL` stay the user's. */
function embedded(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = Object.entries(env).filter(
    ([name]) => name === 'DROVER_MODEL' || !/^(DATABASE_URL|REDIS_URL|LOG_LEVEL|DROVER_\w+)$/.test(name),
  );
  return Object.fromEntries(kept);
}

async function untilReady(child: ChildProcess, { url, logFile }: { url: string; logFile: string }): Promise<void> {
  const endsAt = Date.now() + READY_MS;
  while (!(await answers(url, '/readyz'))) {
    if (hasEnded(child)) throw new Error(`Drover did not start:\n${tailOf(logFile)}`);
    if (Date.now() > endsAt) {
      const said = tailOf(logFile) || 'It has logged nothing yet: the machine may be busy with something else.';
      throw new Error(`Drover was not ready within ${READY_MS / 1000} s:\n${said}`);
    }
    await delay(50);
  }
}
