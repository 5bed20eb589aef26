import { createReadStream, createWriteStream, type ReadStream } from 'node:fs';
import { open, unlink, type FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { whileItGetsOn } from './deadline.ts';
import {
  ContentGoneError,
  FileStoreError,
  type ByteRange,
  type FileStore,
  type FileStoreAddress,
} from './file-store.ts';
import { newId } from './new-id.ts';
import { withoutStall } from './without-stall.ts';

const CONNECT_MS = 5000;
/** The longest time in which a call gets nowhere, with all its attempts, and in which a content brings nothing to who waits for it. */
const QUIET_MS = 12_000;
/** What the system has taken to send lies in its buffers, in bytes, and is given time as if it went at this rate. */
const BUFFERED_BYTES = 8 * 1024 * 1024;
const LEAST_BYTES_PER_MS = 128;

/** Failures are thrown; callers log them, as they know what the call was for. */
const SILENT = { debug: ignore, info: ignore, warn: ignore, error: ignore };

interface Bucket {
  client: S3Client;
  bucket: string;
  /** Fires when the store is closed: nobody waits for its calls then. */
  closing: AbortSignal;
}

/** Stores contents as objects of a bucket, at Amazon or any server that speaks its protocol. */
export function s3Store(address: Extract<FileStoreAddress, { kind: 's3' }>): FileStore {
  const { bucket, prefix, endpoint, region, pathStyle, credentials } = address;
  const client = new S3Client({
    region,
    forcePathStyle: pathStyle,
    ...(endpoint !== undefined && { endpoint }),
    ...(credentials && { credentials }),
    // Servers other than Amazon's do not know checksums in trailers.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    logger: SILENT,
    // No `requestTimeout`: a server that does not say 100 would be waited for as long. No `socketTimeout`: it would take a
    // reader that is slow for a store that is.
    requestHandler: { connectionTimeout: CONNECT_MS, socketTimeout: 0 },
  });
  const closing = new AbortController();
  const of = { client, bucket, closing: closing.signal };
  return {
    write: (key, content, signal) =>
      spooled(content, signal, (file, bytes) => write(of, prefix + key, { file, bytes })),
    read: (key, range) => read(of, prefix + key, range),
    has: (key) => has(of, prefix + key),
    async delete(key) {
      const command = new DeleteObjectCommand({ Bucket: bucket, Key: prefix + key });
      await whileItGetsOn({ quietMs: QUIET_MS, parent: closing.signal }, (abortSignal) =>
        client.send(command, { abortSignal }),
      ).catch((error: unknown) => {
        throw new FileStoreError('delete', error);
      });
    },
    close() {
      closing.abort(new DOMException('the store is closed', 'AbortError'));
      client.destroy();
      return Promise.resolve();
    },
  };
}

/** A bucket needs the length first: the content is spooled to an unlinked file, which goes when the process ends. */
async function spooled(
  content: Readable,
  signal: AbortSignal,
  send: (file: FileHandle, bytes: number) => Promise<void>,
): Promise<void> {
  const path = join(tmpdir(), `drover-upload-${newId()}`);
  const file = await open(path, 'wx+', 0o600).catch((error: unknown) => {
    throw new FileStoreError('spool', error);
  });
  // Streams made of the handle would keep it from closing, so they take its descriptor.
  try {
    await unlink(path);
    const spool = createWriteStream('', { fd: file.fd, start: 0, autoClose: false });
    await pipeline(content, spool, { signal }).catch((error: unknown) => {
      throw new FileStoreError('spool', error);
    });
    const { size } = await file.stat();
    signal.throwIfAborted();
    await send(file, size).catch((error: unknown) => {
      throw new FileStoreError('write', error);
    });
  } finally {
    await file.close();
  }
}

async function write(
  { client, bucket, closing }: Bucket,
  key: string,
  { file, bytes }: { file: FileHandle; bytes: number },
): Promise<void> {
  const body = createReadStream('', { fd: file.fd, start: 0, autoClose: false });
  const command = new PutObjectCommand({
    Bucket: bucket,
    Key: key,
    Body: bytes === 0 ? '' : body,
    ContentLength: bytes,
    ContentType: 'application/octet-stream',
  });
  const limits = { quietMs: QUIET_MS, parent: closing, progress: progressOf(body, bytes) };
  try {
    await whileItGetsOn(
      limits,
      (abortSignal) =>
        new Promise<void>((resolve, reject) => {
          body.on('error', reject);
          client.send(command, { abortSignal }).then(() => resolve(), reject);
        }),
    );
  } finally {
    // Destroyed, it would close the descriptor of the file, which is not its own.
    body.unpipe();
  }
}

/** How much of a content has been sent, as far as can be known: see `BUFFERED_BYTES`. */
function progressOf(body: ReadStream, bytes: number): () => number {
  let takenMs: number | undefined;
  return () => {
    if (body.bytesRead < bytes) return body.bytesRead;
    takenMs ??= performance.now();
    return bytes + Math.min(bytes, BUFFERED_BYTES, (performance.now() - takenMs) * LEAST_BYTES_PER_MS);
  };
}

async function read({ client, bucket, closing }: Bucket, key: string, range: ByteRange | undefined): Promise<Readable> {
  const part = range && { Range: `bytes=${range.start}-${range.end}` };
  const command = new GetObjectCommand({ Bucket: bucket, Key: key, ...part });
  const limits = { quietMs: QUIET_MS, parent: closing };
  try {
    const { Body } = await whileItGetsOn(limits, (abortSignal) => client.send(command, { abortSignal }));
    if (Body instanceof Readable) return withoutStall(Body, limits);
    throw new Error('an object without a body');
  } catch (error) {
    const isGone = error instanceof Error && error.name === 'NoSuchKey';
    throw isGone ? new ContentGoneError('read', error) : new FileStoreError('read', error);
  }
}

async function has({ client, bucket, closing }: Bucket, key: string): Promise<boolean> {
  const command = new HeadObjectCommand({ Bucket: bucket, Key: key });
  try {
    await whileItGetsOn({ quietMs: QUIET_MS, parent: closing }, (abortSignal) => client.send(command, { abortSignal }));
    return true;
  } catch (error) {
    // An answer without a body has no error's name.
    if (error instanceof Error && ['NotFound', 'NoSuchKey'].includes(error.name)) return false;
    throw new FileStoreError('look', error);
  }
}

function ignore(): void {}
