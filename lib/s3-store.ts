import { createReadStream, createWriteStream } from 'node:fs';
import { open, unlink, type FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { GetObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { Disk } from 'flydrive';
import { S3Driver } from 'flydrive/drivers/s3';
import {
  ContentGoneError,
  FileStoreError,
  type ByteRange,
  type FileStore,
  type FileStoreAddress,
} from './file-store.ts';
import { newId } from './new-id.ts';

const CONNECT_MS = 5000;
/** The longest time without a byte. */
const STALL_MS = 60_000;

/** Failures are thrown; callers log them, as they know what the call was for. */
const SILENT = { debug: ignore, info: ignore, warn: ignore, error: ignore };

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
    requestHandler: { connectionTimeout: CONNECT_MS, requestTimeout: STALL_MS, socketTimeout: STALL_MS },
  });
  const disk = new Disk(new S3Driver({ client, bucket, visibility: 'private', supportsACL: false }));
  return {
    write: (key, content, signal) =>
      spooled(content, signal, async (file, bytes) => {
        const body =
          bytes === 0 ? Readable.from([]) : createReadStream('', { fd: file.fd, start: 0, autoClose: false });
        const options = { contentLength: bytes, contentType: 'application/octet-stream' };
        await (bytes === 0 ? disk.put(prefix + key, '', options) : disk.putStream(prefix + key, body, options));
      }),
    read: (key, range) => read(client, { bucket, key: prefix + key }, range),
    async delete(key) {
      await disk.delete(prefix + key).catch((error: unknown) => {
        throw new FileStoreError('delete', error);
      });
    },
    close() {
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

async function read(
  client: S3Client,
  { bucket, key }: { bucket: string; key: string },
  range: ByteRange | undefined,
): Promise<Readable> {
  const part = range && { Range: `bytes=${range.start}-${range.end}` };
  try {
    const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key: key, ...part }));
    if (Body instanceof Readable) return Body;
    throw new Error('an object without a body');
  } catch (error) {
    const isGone = error instanceof Error && error.name === 'NoSuchKey';
    throw isGone ? new ContentGoneError('read', error) : new FileStoreError('read', error);
  }
}

function ignore(): void {}
