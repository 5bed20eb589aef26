import { randomUUID } from 'node:crypto';
import {
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/** The holder of a data directory. A pid alone says little: it is reused, and in a container it is always 1. */
interface Holder {
  token: string;
  pid: number;
  /** Start of the process in clock ticks since boot; null if the system does not say. */
  startTime: string | null;
  bootId: string | null;
  /** Its namespace of pids (pid_namespaces(7)): of another container's pids nothing can be said. Absent in older locks. */
  pidNamespace?: string | null;
  host: string;
  since: string;
}

/** How often a holder shows that it lives, and for how long it must not have, where its pid says nothing. */
const BEAT_MS = 2000;
const SILENCE_MS = 15_000;
const LOOK_MS = 250;

export interface DataDirLock {
  /** Whether a dead process had left it. */
  readonly tookOver: boolean;
  release(): void;
}

/** The data directory is in use; the message says by whom. */
export class DataDirLockedError extends Error {
  constructor(dataDir: string, holder: Pick<Holder, 'pid' | 'host' | 'since'>) {
    super(
      `The data directory ${dataDir} is in use by process ${holder.pid} on ${holder.host} since ${holder.since}. ` +
        `Stop that process, or choose another directory with DROVER_DATA_DIR.`,
    );
    this.name = 'DataDirLockedError';
  }
}

interface Locking {
  /** Another process has it now, since this one stood still for so long: nothing may be written any more. */
  onLost?: () => void;
  /** Called once, with a sentence for people, if the lock's holder can only be told dead by its silence. */
  onWait?: (message: string) => void;
}

/**
 * Locks the directory for this process, and creates it (0700) if missing: PGlite does not notice if two processes write the
 * same files.
 * @throws DataDirLockedError if a live process holds it.
 */
export async function lockDataDir(dataDir: string, { onLost, onWait }: Locking = {}): Promise<DataDirLock> {
  makeDataDir(dataDir);
  const path = join(dataDir, 'lock');
  const mine = describeSelf();
  const isMine = () => readHolder(path)?.token === mine.token;
  const tookOver = await acquire({ path, dataDir, mine, onWait });
  const beat = () => {
    try {
      if (isMine()) return writeFileSync(beatOf(path), mine.token, { mode: 0o600 });
    } catch {
      // No space, or too many open files: the next beat looks again.
      return;
    }
    clearInterval(beating);
    onLost?.();
  };
  const beating = setInterval(beat, BEAT_MS).unref();
  return {
    tookOver,
    release() {
      clearInterval(beating);
      if (!isMine()) return;
      rmSync(beatOf(path), { force: true });
      rmSync(path, { force: true });
    },
  };
}

/** The file whose time shows that the holder lives: the file system's time, so that two machines need not agree on it. */
const beatOf = (path: string): string => `${path}.beat`;

/** One level at a time: Node's recursive mkdir hangs on file systems without folders, such as /proc. */
function makeDataDir(dataDir: string): void {
  const missing: string[] = [];
  for (let at = resolve(dataDir); !existsSync(at) && dirname(at) !== at; at = dirname(at)) missing.unshift(at);
  try {
    for (const folder of missing) makeFolder(folder);
    if (!statSync(dataDir).isDirectory()) throw new Error('it is a file');
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(`DROVER_DATA_DIR is ${dataDir}, which cannot be used as a directory: ${why}.`, { cause: error });
  }
}

/** Another process may create it at the same time. */
function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if (!existsSync(folder)) throw error;
  }
}

interface Claim {
  path: string;
  dataDir: string;
  mine: Holder;
  onWait: Locking['onWait'];
}

/** Returns whether the lock was taken over from a dead holder. */
async function acquire(claim: Claim): Promise<boolean> {
  for (;;) {
    if (create(claim)) return false;
    const holder = readHolder(claim.path);
    if (holder === undefined) continue;
    if (saysItsPid(holder) ? isAlive(holder) : await isHeard(claim, holder))
      throw new DataDirLockedError(claim.dataDir, holder);
    if (await takeOver(claim, holder)) return true;
  }
}

/** Whether the holder's pid is one of ours: not that of another container, machine or boot. */
function saysItsPid({ bootId, pidNamespace = null }: Holder): boolean {
  const [boot, namespace] = [readBootId(), readPidNamespace()];
  if (boot !== null && bootId !== null && boot !== bootId) return false;
  return namespace === null || pidNamespace === null || namespace === pidNamespace;
}

/** Whether the holder shows that it lives, or did within `SILENCE_MS`. */
async function isHeard({ path, dataDir, mine, onWait }: Claim, holder: Holder): Promise<boolean> {
  const first = lastSignOf(path);
  let told = false;
  for (;;) {
    // Released, or taken over: the caller looks again, and takes over nothing of this holder's.
    if (readHolder(path)?.token !== holder.token) return false;
    const sign = lastSignOf(path);
    if (sign > first) return true;
    if (timeOf(path, mine) - sign >= SILENCE_MS) return false;
    if (!told) onWait?.(sayWait(dataDir, holder));
    told = true;
    await delay(LOOK_MS);
  }
}

const sayWait = (dataDir: string, { pid, host, since }: Holder) =>
  `the data directory ${dataDir} was last in use by process ${pid} on ${host}, in another container or on another machine, ` +
  `since ${since}: waiting up to ${SILENCE_MS / 1000} s for a sign that it lives`;

/** In ms, by the clock of the file system. */
function lastSignOf(path: string): number {
  const times = [path, beatOf(path)].map((file) => statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0);
  return Math.max(...times);
}

/** The present time, by the clock of the file system. */
function timeOf(path: string, { token }: Holder): number {
  const probe = `${path}.${token}.probe`;
  writeFileSync(probe, '');
  try {
    return statSync(probe).mtimeMs;
  } finally {
    rmSync(probe, { force: true });
  }
}

/** Links are created atomically, so nobody reads a half-written lock. */
function create({ path, mine }: Claim): boolean {
  const draft = `${path}.${mine.token}.draft`;
  writeFileSync(draft, JSON.stringify(mine), { mode: 0o600 });
  try {
    linkSync(draft, path);
    return true;
  } catch (error) {
    if (isCode(error, 'EEXIST')) return false;
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

/**
 * Several processes may find the same dead holder. A second lock, named after it, decides who replaces it; under that lock the
 * first one is read again, since another process may have been quicker. False: look again.
 */
async function takeOver(claim: Claim, dead: Holder): Promise<boolean> {
  const guard: Claim = { ...claim, path: `${claim.path}.${dead.token}` };
  await acquire(guard);
  try {
    if (readHolder(claim.path)?.token !== dead.token) return false;
    const draft = `${claim.path}.${claim.mine.token}.draft`;
    writeFileSync(draft, JSON.stringify(claim.mine), { mode: 0o600 });
    renameSync(draft, claim.path);
    return true;
  } finally {
    rmSync(guard.path, { force: true });
  }
}

/** Undefined if there is no lock. An unreadable file counts as a dead holder's. */
function readHolder(path: string): Holder | undefined {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (isCode(error, 'ENOENT')) return undefined;
    throw error;
  }
  const unknown: Holder = { token: 'unreadable', pid: 0, startTime: null, bootId: null, host: '', since: '' };
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === 'object' && parsed !== null ? { ...unknown, ...parsed } : unknown;
  } catch {
    return unknown;
  }
}

/** By its pid. */
function isAlive(holder: Holder): boolean {
  const bootId = readBootId();
  const startTime = readStartTime(holder.pid);
  if (startTime !== null && holder.startTime !== null) return startTime === holder.startTime;
  if (bootId !== null && startTime === null) return false;
  return answersSignals(holder.pid);
}

/** For systems without /proc. */
function answersSignals(pid: number): boolean {
  if (pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return isCode(error, 'EPERM');
  }
}

function describeSelf(): Holder {
  return {
    token: randomUUID(),
    pid: process.pid,
    startTime: readStartTime(process.pid),
    bootId: readBootId(),
    pidNamespace: readPidNamespace(),
    host: hostname(),
    since: new Date().toISOString(),
  };
}

function readBootId(): string | null {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return null;
  }
}

function readPidNamespace(): string | null {
  try {
    return readlinkSync('/proc/self/ns/pid');
  } catch {
    return null;
  }
}

/** Field 22 of /proc/PID/stat (proc(5)). The second field is the program's name, which may hold spaces and brackets. */
function readStartTime(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // A zombie has ended; only its parent has not noticed yet.
    return fields[0] === 'Z' || fields[0] === 'X' ? null : (fields[19] ?? null);
  } catch {
    return null;
  }
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}
