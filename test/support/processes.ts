/** Drover's own processes, as the Procfile starts them: to be killed, frozen and started again. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { copyFile, cp } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { bundlePrograms, UNBUNDLED } from './bundle-programs.ts';
import { madeOnce } from './made-once.ts';
import { BUILD } from './repository.ts';
import { waitUntil } from './wait-until.ts';

export interface TestProcess {
  name: string;
  pid: number;
  /** All that it has written, log lines and others. */
  output: () => string;
  /** Its log lines so far. */
  log: () => Record<string, unknown>[];
  /** Sends a signal and waits for the end; answers exit code and signal. */
  end: (signal: 'SIGTERM' | 'SIGKILL') => Promise<[number | null, string | null]>;
  signal: (signal: 'SIGSTOP' | 'SIGCONT') => void;
}

const START_TIMEOUT_MS = 120_000;
const running = new Set<ChildProcess>();

/** How many of the newest processes are told of where a test fails, those that have ended, too, and how much of their output. */
const REMEMBERED = 6;
const TAIL_CHARS = 3000;
const newest: { name: string; pid: number | undefined; text: () => string; ended: () => string }[] = [];

/** The end of what the newest processes have written, for whoever looks at a failure. */
export const tailsOfProcesses = (): string =>
  newest
    .map(({ name, pid, text, ended }) => `${name} (process ${pid}, ${ended()}): ${text().slice(-TAIL_CHARS)}`)
    .join('\n');

// A test run that breaks off leaves none of them behind.
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/** What is not compiled, as in tsconfig.test.json. */
const NO_SOURCES = ['node_modules', 'dist', 'bench', 'docs', 'examples'];

/** What to run for a program of the repository, which is named by its source. Compiled it starts seconds earlier; reading source maps would cost each start a third of a second. */
export const programOf = async (file: string): Promise<string[]> => [await compiledOf(file)];

/** The program as the build makes it, module by module. */
export const unbundledOf = async (file: string): Promise<string[]> => [
  (await compiledOf(file)).replace(/\.js$/, UNBUNDLED),
];

/** The compiled file of a source, of the tests' too. */
export async function compiledOf(file: string): Promise<string> {
  return join(BUILD ?? (await compileSources()), file.replace(/\.ts$/, '.js'));
}

/** The folder of all sources, compiled: within the repository, where the packages are found. */
export function compileSources(): Promise<string> {
  const sources = readdirSync('.', { withFileTypes: true })
    .filter(({ name }) => !name.startsWith('.') && !NO_SOURCES.includes(name))
    .filter((entry) => entry.isDirectory() || /\.ts$|^tsconfig.*\.json$/.test(entry.name))
    .map(({ name }) => name);
  return madeOnce('compiled', sources, compile);
}

async function compile(folder: string): Promise<void> {
  const tsc = ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.test.json', '--outDir', folder];
  await promisify(execFile)(process.execPath, tsc, { timeout: 120_000 });
  await copyFile('package.json', join(folder, 'package.json'));
  await cp('db/functions', join(folder, 'db', 'functions'), { recursive: true });
  await copyFile('scripts/services.sh', join(folder, 'scripts', 'services.sh'));
  await bundlePrograms(folder);
}

/** Starts a program of the repository and waits until its output matches `ready`. `env` is its whole environment, PATH aside. */
export async function startProcess(
  name: string,
  program: { file: string; env: Record<string, string>; ready: RegExp },
): Promise<TestProcess> {
  const child = spawn(process.execPath, await programOf(program.file), {
    env: { PATH: process.env['PATH'] ?? '', ...program.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  running.add(child);
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
  }
  let ended = false;
  const ends = () => (ended ? `ended with ${child.exitCode ?? child.signalCode}` : 'running');
  newest.push({ name, pid: child.pid, text: () => text, ended: ends });
  if (newest.length > REMEMBERED) newest.shift();
  const exited = once(child, 'close').then(([code, signal]) => {
    ended = true;
    running.delete(child);
    return [code, signal] as [number | null, string | null];
  });
  await waitUntil(`${name} starts`, () => program.ready.test(text) || ended, START_TIMEOUT_MS);
  if (!program.ready.test(text)) throw new Error(`${name} did not start: ${text}`);
  return {
    name,
    pid: child.pid ?? 0,
    output: () => text,
    log: () => logLines(text),
    end: async (signal) => {
      child.kill(signal);
      return exited;
    },
    signal: (signal) => void child.kill(signal),
  };
}

/** Runs a program of the repository to its end. Throws with its output unless it ends with 0. */
export async function runProgram(file: string, env: Record<string, string>): Promise<void> {
  const program = await startProcess(file, { file, env, ready: /./ });
  // Signal 0 would do, but the end is what is waited for.
  await waitUntil(`${file} ends`, () => !isRunning(program.pid), START_TIMEOUT_MS);
  const [code] = await program.end('SIGTERM');
  if (code !== 0) throw new Error(`${file} ended with ${code}: ${program.output()}`);
}

function isRunning(pid: number): boolean {
  return [...running].some((child) => child.pid === pid);
}

function logLines(text: string): Record<string, unknown>[] {
  return text.split('\n').flatMap((line) => {
    if (!line.startsWith('{')) return [];
    try {
      return [JSON.parse(line) as Record<string, unknown>];
    } catch {
      return [];
    }
  });
}
