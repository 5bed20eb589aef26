/**
 * Records what Node does to the files of a folder, to say what a power cut at some moment could have left of them: all that
 * was synced, any of the other writes, and the names up to any moment since they were last synced, as a journal has them.
 */
import fs, { constants, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { dirname, join, relative, resolve, sep } from 'node:path';

type Act =
  | { is: 'written'; file: number; at: number; bytes: Buffer }
  | { is: 'cut'; file: number; length: number }
  | { is: 'made'; file: number; path: string }
  | { is: 'folder'; path: string }
  | { is: 'renamed'; path: string; to: string }
  | { is: 'removed'; path: string }
  /** Came to its end; the acts before `since` are on the disk. */
  | { is: 'synced'; file: number; path: string; since: number };

interface Recording {
  root: string;
  acts: Act[];
  /** The numbers of files by their present paths. */
  numbers: Map<string, number>;
  /** Where each file was when the recording began; undefined: nowhere. */
  origins: (string | undefined)[];
  opened: Map<number, { file: number; path: string }>;
}

export interface RecordedDisk {
  /** How many acts there were so far. */
  length(): number;
  /** Files with writes that no sync has covered. */
  unsynced(): string[];
  /** How many acts there were each time that a sync of this file had ended. */
  syncsOf(file: string): number[];
  /** Makes `folder` what a cut after so many acts may have left; `isKept` tells which unsynced ones came through. */
  leave(folder: string, length: number, isKept: (act: number) => boolean): void;
  /** Records no more: what comes after a cut is none of it. */
  end(): void;
  /** Removes what it has kept. */
  remove(): void;
}

/** What the folder has at first counts as synced. */
export function recordDisk(root: string): RecordedDisk {
  const before = `${root}.before`;
  cpSync(root, before, { recursive: true });
  const recording: Recording = { root, acts: [], numbers: new Map(), origins: [], opened: new Map() };
  const restore = patch(recording);
  return {
    length: () => recording.acts.length,
    unsynced() {
      const syncedTo = lastSyncs(recording.acts);
      const ofFile = new Map([...recording.numbers].map(([path, file]) => [file, relative(root, path)]));
      const late = recording.acts.flatMap((act, at) =>
        isOfContent(act) && at >= (syncedTo.get(act.file) ?? 0) ? (ofFile.get(act.file) ?? []) : [],
      );
      return [...new Set(late)].toSorted();
    },
    syncsOf: (file) =>
      recording.acts.flatMap((act, at) => (act.is === 'synced' && act.path === join(root, file) ? [at + 1] : [])),
    leave(folder, length, isKept) {
      rmSync(folder, { recursive: true, force: true });
      cpSync(before, folder, { recursive: true });
      replay({ ...recording, acts: recording.acts.slice(0, length) }, folder, isKept);
    },
    end: restore,
    remove: () => rmSync(before, { recursive: true, force: true }),
  };
}

function numberOf({ numbers, origins }: Recording, path: string, isNew = false): number {
  const known = isNew ? undefined : numbers.get(path);
  if (known !== undefined) return known;
  const file = origins.push(isNew ? undefined : path) - 1;
  numbers.set(path, file);
  return file;
}

type Call = (...given: unknown[]) => unknown;
type Told = (error: Error | null) => void;

/** Puts a recorder before each function; they are looked up at each call by PGlite, and as live bindings by others. */
function patch(recording: Recording): () => void {
  const real = new Map<string, Call>();
  const functions = fs as unknown as Record<string, Call>;
  for (const [name, record] of Object.entries({ ...nameCalls(recording), ...fileCalls(recording) })) {
    const call = functions[name];
    if (!call) throw new Error(`Node has no ${name}`);
    real.set(name, call);
    functions[name] = (...given) => record(call, given);
  }
  syncBuiltinESMExports();
  return () => {
    for (const [name, call] of real) functions[name] = call;
    syncBuiltinESMExports();
  };
}

type Recorder = (call: Call, given: unknown[]) => unknown;

function nameCalls(recording: Recording): Record<string, Recorder> {
  const { root, acts, numbers } = recording;
  const onPath =
    (record: (path: string, second: unknown) => void): Recorder =>
    (call, given) => {
      const result = call(...given);
      const path = resolve(String(given[0]));
      if (path.startsWith(root + sep)) record(path, given[1]);
      return result;
    };
  const removed = (path: string) => {
    numberOf(recording, path);
    numbers.delete(path);
    acts.push({ is: 'removed', path });
  };
  return {
    unlinkSync: onPath(removed),
    rmdirSync: onPath((path) => void acts.push({ is: 'removed', path })),
    mkdirSync: onPath((path) => void acts.push({ is: 'folder', path })),
    renameSync: onPath((path, second) => {
      const to = resolve(String(second));
      numbers.set(to, numberOf(recording, path));
      numbers.delete(path);
      acts.push({ is: 'renamed', path, to });
    }),
    truncateSync: onPath((path, length) => {
      acts.push({ is: 'cut', file: numberOf(recording, path), length: Number(length) });
    }),
    /** Emscripten's way to make a file. */
    writeFileSync: onPath((path, content) => {
      const file = numberOf(recording, path, true);
      acts.push({ is: 'made', file, path }, { is: 'written', file, at: 0, bytes: Buffer.from(String(content)) });
    }),
  };
}

function fileCalls(recording: Recording): Record<string, Recorder> {
  const { root, acts, opened } = recording;
  const onSynced = (fd: unknown) => {
    const synced = opened.get(Number(fd));
    const since = acts.length;
    return () => synced && acts.push({ is: 'synced', ...synced, since });
  };
  const sync: Recorder = (call, given) => {
    const done = onSynced(given[0]);
    call(...given);
    done();
  };
  const syncLater: Recorder = (call, [fd, told]) => {
    const done = onSynced(fd);
    call(fd, (error: Error | null) => {
      if (!error) done();
      (told as Told)(error);
    });
  };
  return {
    openSync(call, given) {
      const path = resolve(String(given[0]));
      const isNew = !existsSync(path);
      const fd = Number(call(...given));
      if (!path.startsWith(root + sep)) return fd;
      const file = numberOf(recording, path, isNew);
      opened.set(fd, { file, path });
      if (isNew) acts.push({ is: 'made', file, path });
      if (typeof given[1] === 'number' && (given[1] & constants.O_TRUNC) !== 0)
        acts.push({ is: 'cut', file, length: 0 });
      return fd;
    },
    closeSync(call, given) {
      opened.delete(Number(given[0]));
      return call(...given);
    },
    writeSync(call, given) {
      const [fd, view, offset, , position] = given as [number, Uint8Array, number, number, number];
      const length = Number(call(...given));
      const to = opened.get(fd);
      const bytes = () => Buffer.from(view.slice(offset, offset + length));
      if (to) acts.push({ is: 'written', file: to.file, at: position, bytes: bytes() });
      return length;
    },
    ftruncateSync(call, given) {
      call(...given);
      const of = opened.get(Number(given[0]));
      if (of) acts.push({ is: 'cut', file: of.file, length: Number(given[1]) });
    },
    fsyncSync: sync,
    fdatasyncSync: sync,
    fsync: syncLater,
    fdatasync: syncLater,
  };
}

const isOfContent = (act: Act): act is Extract<Act, { is: 'written' | 'cut' }> =>
  act.is === 'written' || act.is === 'cut';
const isOfNames = (act: Act): act is Extract<Act, { path: string }> => !isOfContent(act) && act.is !== 'synced';

/** The number of acts that the last sync of each file covers. */
function lastSyncs(acts: readonly Act[]): Map<number, number> {
  const syncedTo = new Map<number, number>();
  for (const act of acts) {
    if (act.is === 'synced') syncedTo.set(act.file, Math.max(act.since, syncedTo.get(act.file) ?? 0));
  }
  return syncedTo;
}

function replay({ root, acts, origins }: Recording, folder: string, isKept: (act: number) => boolean): void {
  const place = (path: string) => join(folder, relative(root, path));
  const contents = contentsLeft({ acts, isKept, before: (file) => readOrigin(origins[file], place) });
  const names = new Map(origins.flatMap((path, file) => (path === undefined ? [] : [[path, file] as const])));
  const gone = new Set<string>();
  for (const act of namesLeft(acts, isKept)) {
    if (act.is === 'folder') mkdirSync(place(act.path), { recursive: true });
    if (act.is === 'made') names.set(act.path, act.file);
    if (act.is !== 'renamed' && act.is !== 'removed') continue;
    const file = names.get(act.path);
    if (act.is === 'renamed' && file !== undefined) names.set(act.to, file);
    names.delete(act.path);
    gone.add(act.path);
  }
  const written = [...names].map(([path, file]) => {
    const isAsBefore = contents.get(file) === undefined && origins[file] === path;
    return { path, bytes: isAsBefore ? undefined : (contents.get(file) ?? readOrigin(origins[file], place)) };
  });
  for (const path of gone) rmSync(place(path), { recursive: true, force: true });
  for (const { path, bytes } of written)
    if (bytes && existsSync(dirname(place(path)))) writeFileSync(place(path), bytes);
}

const readOrigin = (path: string | undefined, place: (path: string) => string): Buffer =>
  path === undefined || !existsSync(place(path)) ? Buffer.alloc(0) : readFileSync(place(path));

interface Left {
  acts: readonly Act[];
  isKept: (act: number) => boolean;
  before: (file: number) => Buffer;
}

function contentsLeft({ acts, isKept, before }: Left): Map<number, Buffer> {
  const syncedTo = lastSyncs(acts);
  const contents = new Map<number, Content>();
  for (const [at, act] of acts.entries()) {
    if (!isOfContent(act) || (at >= (syncedTo.get(act.file) ?? 0) && !isKept(at))) continue;
    const first = contents.has(act.file) ? undefined : before(act.file);
    const now = contents.get(act.file) ?? { bytes: first ?? Buffer.alloc(0), length: first?.length ?? 0 };
    contents.set(act.file, act.is === 'cut' ? cut(now, act.length) : add(now, act));
  }
  return new Map([...contents].map(([file, { bytes, length }]) => [file, bytes.subarray(0, length)]));
}

interface Content {
  /** With room, since files grow by small pieces. */
  bytes: Buffer;
  length: number;
}

function cut({ bytes, length }: Content, to: number): Content {
  if (to > length) return add({ bytes, length }, { at: to, bytes: Buffer.alloc(0) });
  bytes.fill(0, to);
  return { bytes, length: to };
}

function add(now: Content, { at, bytes: added }: { at: number; bytes: Buffer }): Content {
  const length = Math.max(now.length, at + added.length);
  const bytes = length > now.bytes.length ? Buffer.concat([now.bytes], length * 2) : now.bytes;
  added.copy(bytes, at);
  return { bytes, length };
}

/** In their order up to the last one that a sync covers, and then up to the first one that did not come through. */
function namesLeft(acts: readonly Act[], isKept: (act: number) => boolean): Extract<Act, { path: string }>[] {
  const lastOf = new Map<string, number>();
  let sure = 0;
  for (const [at, act] of acts.entries()) {
    if (act.is === 'synced') sure = Math.max(sure, lastOf.get(act.path) ?? 0, lastOf.get(`of ${act.file}`) ?? 0);
    if (!isOfNames(act)) continue;
    if (act.is === 'made') lastOf.set(`of ${act.file}`, at + 1);
    for (const path of act.is === 'renamed' ? [act.path, act.to] : [act.path]) lastOf.set(dirname(path), at + 1);
  }
  const end = acts.findIndex((act, at) => at >= sure && isOfNames(act) && !isKept(at));
  return acts.slice(0, end === -1 ? undefined : end).filter(isOfNames);
}
