/** Streams the one file of a `multipart/form-data` request, with only the chunks in transit in memory. */
import busboy from 'busboy';
import { z } from 'zod';
import { badRequest, DroverError, messageOf, tooLarge } from '../../core/errors.ts';
import type { Caller } from '../../core/caller.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Context } from '../../modules/governance/context.ts';
import type { Upload } from '../../modules/files/upload-file.ts';
import { threadIdParam, withIds } from '../kit/external-ids.ts';
import type { ApiContext } from '../kit/state.ts';
import { checkPart } from '../kit/validate.ts';

/** Fields that may accompany the file. */
export const uploadFields = z.strictObject({
  thread_id: threadIdParam.optional(),
  trust: z
    .enum(['trusted', 'untrusted'])
    .optional()
    .describe(
      'Whether its sender vouches for what it says: `untrusted` if left out; `trusted` needs `approvals:write`.',
    ),
});

const MOST_FIELDS = 8;
/** Bytes that may be buffered before they are examined. */
const AHEAD_BYTES = 128 * 1024;

type Fields = z.output<typeof uploadFields>;
type UploadedFile = Pick<Upload, 'source' | 'filename' | 'mimeType'>;

/** A promise with its settling functions. */
interface Pending<T> {
  promise: Promise<T>;
  resolve: (value: T) => void;
  reject: (reason: unknown) => void;
}

interface Asked {
  ctx: ApiContext;
  caller: Caller;
  context: Context;
}

interface Reading {
  ctx: ApiContext;
  parser: busboy.Busboy;
  file: Pending<UploadedFile>;
  /** The other fields, once the whole request is read. */
  fields: Pending<Fields>;
  /** Fires with the fault that ended the reading. */
  stopped: AbortController;
}

/**
 * Passes the file to `work` as soon as it begins, and returns its result. Throws, or rejects `upload.fields`: 400 for a
 * body that is no multipart, has no file or several, or breaks off; 408 for a stall; 413 for too much besides the file;
 * 415 for another content type. Names in the fields are replaced by ids (`withIds`).
 */
export async function receiveUpload<T>(asked: Asked, work: (upload: Upload) => Promise<T>): Promise<T> {
  const { ctx } = asked;
  if (!ctx.request.is('multipart/form-data')) {
    const message = 'A file comes as multipart/form-data, in the part "file".';
    throw new DroverError('unsupported-media-type', 415, message);
  }
  const reading: Reading = {
    ctx,
    parser: openParser(ctx),
    file: pending(),
    fields: pending(),
    stopped: new AbortController(),
  };
  const stopWatching = watch(reading);
  collect(reading, (given) => withIds(asked.context, asked.caller, async () => fieldsOf(given)));
  ctx.req.pipe(reading.parser);
  try {
    const file = await reading.file.promise;
    return await work({ ...file, fields: reading.fields.promise, signal: reading.stopped.signal });
  } finally {
    stopWatching();
    fail(reading, new Error('the upload is over'));
  }
}

function openParser(ctx: ApiContext): busboy.Busboy {
  try {
    return busboy({
      headers: ctx.req.headers,
      defParamCharset: 'utf8',
      limits: { files: 1, fields: MOST_FIELDS, fieldNameSize: 100, fieldSize: 1000, headerPairs: 100 },
    });
  } catch (error) {
    throw badRequest(`The body is no multipart: ${messageOf(error)}.`);
  }
}

/** Ends the reading with a fault, unless it has ended; the rest of the body is discarded. */
function fail({ ctx, parser, file, fields, stopped }: Reading, fault: Error): void {
  ctx.req.unpipe(parser);
  ctx.req.resume();
  file.reject(fault);
  fields.reject(fault);
  stopped.abort(fault);
}

/** Watches for stalls, broken connections, and too much data besides the file. Returns a function that stops watching. */
function watch(reading: Reading): () => void {
  const { req } = reading.ctx;
  let beside = 0;
  let inFile = false;
  reading.parser.on('file', (_name, source) => {
    inFile = true;
    source.once('close', () => {
      inFile = false;
    });
  });
  const stall = setTimeout(() => {
    // What is waited for after its end is not its sender's doing.
    if (!req.complete) fail(reading, new DroverError('request-timeout', 408, 'The upload stands still.'));
  }, LIMITS.uploadStallSeconds * 1000);
  const onData = (chunk: Buffer) => {
    stall.refresh();
    beside += inFile ? 0 : chunk.length;
    if (beside > LIMITS.uploadFieldBytes + AHEAD_BYTES) fail(reading, tooLarge('There is too much beside the file.'));
  };
  const onClose = () => {
    if (!req.complete) fail(reading, badRequest('The upload broke off.'));
  };
  req.on('data', onData);
  req.once('close', onClose);
  return () => {
    clearTimeout(stall);
    req.off('data', onData);
    req.off('close', onClose);
  };
}

function collect(reading: Reading, read: (given: readonly [string, string][]) => Promise<Fields>): void {
  const { parser, file, fields, stopped } = reading;
  const given: [string, string][] = [];
  parser.on('file', (name, source, { filename, mimeType }) => {
    // An early end destroys it, which without a listener would crash the process.
    source.on('error', () => undefined);
    stopped.signal.addEventListener('abort', () => source.destroy(asError(stopped.signal.reason)), { once: true });
    if (name === 'file') file.resolve({ source, filename, mimeType });
    else fail(reading, badRequest(`The part "${name.slice(0, 100)}" is a file; the one to store is "file".`));
  });
  parser.on('field', (name, value, { valueTruncated, nameTruncated }) => {
    if (valueTruncated || nameTruncated) fail(reading, tooLarge('A field beside the file is too long.'));
    if (name === 'file') fail(reading, badRequest('The part "file" is no file without a filename.'));
    given.push([name, value]);
  });
  parser.on('filesLimit', () => fail(reading, badRequest('There is more than one file.')));
  parser.on('fieldsLimit', () => fail(reading, badRequest('There are too many fields beside the file.')));
  parser.once('error', (error) => fail(reading, badRequest(`The body is no whole multipart: ${messageOf(error)}.`)));
  parser.once('close', () => {
    file.reject(badRequest('There is no file: it comes in the part "file".'));
    void read(given).then(fields.resolve, fields.reject);
  });
}

/** Throws 400 for an unknown or repeated field. */
function fieldsOf(given: readonly [string, string][]): Fields {
  const twice = given.find(([name], index) => given.findIndex(([other]) => other === name) < index);
  if (twice) throw badRequest(`The field "${twice[0]}" is there twice.`);
  return checkPart(uploadFields, Object.fromEntries(given), 'body');
}

function pending<T>(): Pending<T> {
  let settle: Omit<Pending<T>, 'promise'> = { resolve: () => undefined, reject: () => undefined };
  const promise = new Promise<T>((resolve, reject) => {
    settle = { resolve, reject };
  });
  // It may reject before anybody waits, or without.
  promise.catch(() => undefined);
  return { promise, ...settle };
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason));
}
