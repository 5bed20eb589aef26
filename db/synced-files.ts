/**
 * The files of an embedded database, which Emscripten's file system never syncs. Its log is synced beside the work: who
 * commits waits for it, the statements of others do not (`settle`). Postgres has to believe that it is synced at once. So
 * nothing else is written, cut or removed before the log that tells of it is on the disk: then the write itself waits.
 */
import { fsyncSync } from 'node:fs';
import type { PGlite } from '@electric-sql/pglite';
import type { NodeFS } from '@electric-sql/pglite/nodefs';
import { createLogSync, type LogSync } from './log-sync.ts';

export interface SyncedFiles {
  /** For PGlite. */
  files: NodeFS;
  /** Resolves once everything committed so far is on the disk; rejects if it may never be. */
  settle: LogSync['settle'];
}

/** `onFailed` is called if the log cannot be synced; nobody knows then what of it is on the disk. */
export async function openSyncedFiles(cluster: string, onFailed: (error: unknown) => void): Promise<SyncedFiles> {
  const { NodeFS: NodeFiles } = await import('@electric-sql/pglite/nodefs');
  const files = new NodeFiles(cluster);
  const log = createLogSync(onFailed);
  const init = files.init.bind(files);
  files.init = (pglite, options) => {
    const watch = (module: PGlite['Module']) => syncAsAsked(nodeFilesOf(module), log);
    return init(pglite, { ...options, preRun: [...(options.preRun ?? []), watch] });
  };
  return { files, settle: log.settle };
}

interface FileNode {
  readonly name: string;
}

interface Stream {
  readonly node: FileNode;
  readonly nfd: number;
}

interface Attributes {
  readonly size?: number;
}

/** Where the bytes are in the buffer, and where they go. */
type Where = [offset: number, length: number, position: number];

/** What PGlite's module does with files of Node; the part that is used here. */
interface NodeFiles {
  realPath: (node: FileNode) => string;
  /** Throws errors of Node as Postgres understands them. */
  tryFSOperation: (operation: () => void) => void;
  node_ops: {
    setattr: (node: FileNode, attributes: Attributes) => void;
    rename: (node: FileNode, folder: FileNode, name: string) => void;
    unlink: (folder: FileNode, name: string) => void;
  };
  stream_ops: {
    setattr: (stream: Stream, attributes: Attributes) => void;
    write: (stream: Stream, buffer: Int8Array, ...where: Where) => number;
    close: (stream: Stream) => void;
    fsync?: (stream: Stream) => void;
  };
}

function nodeFilesOf(module: PGlite['Module']): NodeFiles {
  return (module.FS as unknown as { filesystems: { NODEFS: NodeFiles } }).filesystems.NODEFS;
}

function syncAsAsked(nodeFiles: NodeFiles, log: LogSync): void {
  const { node_ops: nodes, stream_ops: streams, realPath, tryFSOperation } = nodeFiles;
  const { setattr, rename, unlink } = nodes;
  const { setattr: setOpen, write, close } = streams;
  const follow = (node: FileNode) => {
    if (log.isBehind() && !isApart(realPath(node))) tryFSOperation(log.settleNow);
  };

  streams.fsync = (stream) => {
    const path = realPath(stream.node);
    if (isLog(path)) log.defer(stream.nfd);
    if (isLog(path) || isNewLog(path)) return;
    follow(stream.node);
    tryFSOperation(() => fsyncSync(stream.nfd));
  };
  streams.write = (stream, buffer, ...where) => {
    if (log.isBehind() && !isUnlogged(realPath(stream.node), buffer, where)) follow(stream.node);
    return write(stream, buffer, ...where);
  };
  streams.close = (stream) => log.release(stream.nfd, () => close(stream));
  streams.setattr = (stream, attributes) => {
    if (attributes.size !== undefined) follow(stream.node);
    setOpen(stream, attributes);
  };
  nodes.setattr = (node, attributes) => {
    if (attributes.size !== undefined) follow(node);
    setattr(node, attributes);
  };
  nodes.rename = (node, folder, name) => {
    follow(node);
    rename(node, folder, name);
  };
  nodes.unlink = (folder, name) => {
    follow(folder);
    unlink(folder, name);
  };
}

/** Of a log being made: what it has is synced with the file that it becomes. */
const isNewLog = (path: string): boolean => /\/pg_wal\/xlogtemp[^/]*$/.test(path);
const isLog = (path: string): boolean => /\/pg_wal\/[0-9A-F]{24}$/.test(path);
/** What the log does not tell of: itself, and what no start reads. */
const isApart = (path: string): boolean => /\/(pg_wal|pgsql_tmp)(\/|$)/.test(path);

const PAGE_BYTES = 8192;
const LSN_BYTES = 8;

/** Whether these are pages of a table or an index that no record of the log tells of, such as empty ones by which it grows. */
function isUnlogged(path: string, buffer: Int8Array, [offset, length]: Where): boolean {
  if (!/\/(base\/\d+|global)\/\d[^/]*$/.test(path)) return false;
  for (let page = offset; page < offset + length; page += PAGE_BYTES) {
    if (buffer.subarray(page, page + LSN_BYTES).some((byte) => byte !== 0)) return false;
  }
  return true;
}
