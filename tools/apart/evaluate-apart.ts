/**
 * Evaluates foreign expressions in child processes: while one takes its second, this process goes on, and one step of JSONata
 * can make a text of any length or a list of any size (`$pad`, `$split`), which no time limit stops. A thread would not do: one
 * that runs out of memory ends its whole process.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createOneByOne } from '../../lib/one-by-one.ts';
import type { ApartAnswer } from './apart-answer.ts';
import type { ApartRequest, ApartWork } from './child.ts';
import { messageOf } from './message-of.ts';

const MAX_MS = 1000;
/** Time beyond an evaluation's limit until its process is killed, and time for that process to start, and to begin with one. */
const GRACE_MS = 1000;
const START_MS = 10_000;
/** The most processes: while one tenant's expressions take their second, others' go on. */
const PROCESSES = ['first', 'second'];
/** The process's heap; data and result of 10 MiB each take half of it. */
const MAX_MB = 128;

const SELF = import.meta.url;
/** If nothing is built, the child is told to load the loader. */
const PROGRAM = SELF.endsWith('.ts')
  ? [
      '--eval',
      `import(${JSON.stringify(import.meta.resolve('tsx/esm/api'))}).then(({ tsImport }) =>
         tsImport('./child.ts', ${JSON.stringify(SELF)}));`,
    ]
  : [fileURLToPath(new URL('./child.js', SELF))];

const TOO_SLOW = { fault: 'too-slow', message: 'it takes too long' } as const;
const TOO_LARGE = { fault: 'failed', message: `it takes more than ${MAX_MB} MB` } as const;

const ofTenants = createOneByOne();
const ofProcesses = createOneByOne();

interface Apart {
  work: ApartWork;
  tenantId: string;
}

/**
 * Evaluates for at most a second; a tenant's expressions one by one. Resolves within `timeoutMs`, however many others wait, if
 * need be with `too-slow`, and never throws.
 */
export async function evaluateApart({ work, tenantId }: Apart, timeoutMs: number): Promise<ApartAnswer> {
  const endsAt = performance.now() + timeoutMs;
  const evaluated = ofTenants.run(tenantId, () => {
    const process = PROCESSES.toSorted((a, b) => ofProcesses.countOf(a) - ofProcesses.countOf(b))[0] ?? '';
    return ofProcesses.run(process, async () => {
      if (performance.now() >= endsAt) return TOO_SLOW;
      const limitMs = Math.max(1, Math.min(timeoutMs, MAX_MS));
      return ask(await readyChild(process), { work, limitMs });
    });
  });
  const failed = (error: unknown): ApartAnswer => ({ fault: 'failed', message: messageOf(error) });
  const ended = new AbortController();
  const late = sleep(timeoutMs, TOO_SLOW, { signal: ended.signal, ref: false });
  try {
    return await Promise.race([evaluated.catch(failed), late]);
  } finally {
    ended.abort();
  }
}

/** How many of a tenant's expressions are evaluated or wait for it. */
export const countApart = (tenantId: string): number => ofTenants.countOf(tenantId);

const children = new Map<string, ChildProcess>();

/** Starts the child with the first evaluation, and after one that has ended it. */
async function readyChild(name: string): Promise<ChildProcess> {
  const kept = children.get(name);
  if (kept?.connected === true) return kept;
  const flags = [`--max-old-space-size=${MAX_MB}`, '--max-semi-space-size=8'];
  const child = spawn(process.execPath, [...flags, ...PROGRAM], {
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    serialization: 'advanced',
    // It must not have secrets.
    env: {},
  });
  // Its end is reported to the caller.
  child.on('error', () => undefined);
  const signal = AbortSignal.timeout(START_MS);
  const ended = once(child, 'exit', { signal }).then(() => {
    throw new Error('The process for expressions has ended before it began.');
  });
  try {
    await Promise.race([once(child, 'message', { signal }), ended]);
  } catch (error) {
    child.kill('SIGKILL');
    throw error;
  }
  holdUp(child, false);
  children.set(name, child);
  return child;
}

/**
 * Rejects if the request cannot be sent. The evaluation's time begins when the child has loaded what it needs for it, and
 * again where the child begins anew, as it had not had the CPU.
 */
async function ask(child: ChildProcess, request: ApartRequest): Promise<ApartAnswer> {
  let isLate = false;
  const kill = () => {
    isLate = true;
    child.kill('SIGKILL');
  };
  let timer = setTimeout(kill, START_MS);
  holdUp(child, true);
  try {
    return await new Promise<ApartAnswer>((resolve, reject) => {
      child.on('message', (said: 'begun' | ApartAnswer) => {
        if (said !== 'begun') return resolve(said);
        clearTimeout(timer);
        timer = setTimeout(kill, request.limitMs + GRACE_MS);
      });
      child.once('exit', () => resolve(isLate ? TOO_SLOW : TOO_LARGE));
      child.send(request, (error) => {
        if (error) reject(error);
      });
    });
  } finally {
    clearTimeout(timer);
    child.removeAllListeners('message').removeAllListeners('exit');
    holdUp(child, false);
  }
}

/** An idle child does not keep this process alive; one that a caller waits for does. */
function holdUp(child: ChildProcess, isWaitedFor: boolean): void {
  if (isWaitedFor) {
    child.ref();
    child.channel?.ref();
  } else {
    child.unref();
    child.channel?.unref();
  }
}
