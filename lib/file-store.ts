/** Stores contents of files on a filesystem or in a bucket, under keys that are never used twice. */
import type { Readable } from 'node:stream';

/** Bytes from `start` to `end`, both included. */
export interface ByteRange {
  start: number;
  end: number;
}

export interface FileStore {
  /**
   * Writes under an unused key; resolves when the bytes would survive a crash. `delete` removes what a failed write
   * left. A content that breaks off fails like a store that does: its owner can tell.
   */
  write: (key: string, content: Readable, signal: AbortSignal) => Promise<void>;
  /** Reads the content, or a part of it. Throws `ContentGoneError`; a stream that breaks off fails. */
  read: (key: string, range?: ByteRange) => Promise<Readable>;
  /** Whether there is anything under the key. */
  has: (key: string) => Promise<boolean>;
  /** Deleting a missing key is no error. */
  delete: (key: string) => Promise<void>;
  close: () => Promise<void>;
}

const LASTING: readonly string[] = [
  'AccessDenied',
  'InvalidAccessKeyId',
  'SignatureDoesNotMatch',
  'NoSuchBucket',
  'EACCES',
  'EPERM',
];

/** Of a filesystem, its quotas, and servers of buckets. */
const FULL: readonly string[] = ['ENOSPC', 'EDQUOT', 'QuotaExceeded', 'XMinioStorageFull'];

/** A failed store operation, in words that hold neither the store's address nor its credentials. */
export class FileStoreError extends Error {
  /** Whether it will not pass by itself: credentials, bucket or folder are wrong. */
  readonly isLasting: boolean;
  /** Whether the store has no room left; false where only the place for spooling has none. */
  readonly isFull: boolean;
  constructor(what: string, cause: unknown) {
    const { name, code } = (rootOf(cause) ?? {}) as { name?: unknown; code?: unknown };
    super(`The file store could not ${what}: ${[name, code].filter((part) => typeof part === 'string').join(' ')}`);
    this.name = 'FileStoreError';
    const isOneOf = (known: readonly string[]) => known.includes(String(name)) || known.includes(String(code));
    this.isLasting = isOneOf(LASTING);
    this.isFull = what !== 'spool' && isOneOf(FULL);
  }
}

/** The innermost cause: outer errors say what was attempted, it says why that failed, such as a full disk. */
function rootOf(error: unknown): unknown {
  return error instanceof Error && error.cause !== undefined ? rootOf(error.cause) : error;
}

/** The store has nothing under this key. */
export class ContentGoneError extends FileStoreError {
  override readonly name = 'ContentGoneError';
}

/** The parsed `DROVER_FILES_URL`. */
export type FileStoreAddress =
  | { kind: 'file'; path: string }
  | {
      kind: 's3';
      bucket: string;
      /** Prepended to every key; empty, or ends in a slash. */
      prefix: string;
      endpoint: string | undefined;
      region: string;
      pathStyle: boolean;
      /** Undefined: the AWS SDK finds them. */
      credentials: { accessKeyId: string; secretAccessKey: string } | undefined;
    };

/** Reads `file:PATH` and `s3://[KEY:SECRET@]BUCKET[/PREFIX][?endpoint=…&region=…&path_style=…]`; undefined for anything else. */
export function parseFilesUrl(text: string): FileStoreAddress | undefined {
  if (/^file:./.test(text)) {
    const path = decode(text.replace(/^file:(\/\/(localhost)?(?=\/))?/, ''));
    return path === undefined || path === '' || path.startsWith('//') ? undefined : { kind: 'file', path };
  }
  if (!text.startsWith('s3://') || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  const names = [...url.searchParams.keys()];
  const [endpoint, style] = [url.searchParams.get('endpoint'), url.searchParams.get('path_style')];
  const [accessKeyId, secretAccessKey] = [decode(url.username), decode(url.password)];
  const isWrong =
    !/^[a-z0-9][a-z0-9.-]{1,62}$/.test(url.hostname) ||
    url.port !== '' ||
    names.some((name) => !['endpoint', 'region', 'path_style'].includes(name)) ||
    (endpoint !== null && !(/^https?:\/\//.test(endpoint) && URL.canParse(endpoint))) ||
    (style !== null && style !== 'true' && style !== 'false') ||
    (accessKeyId === '') !== (secretAccessKey === '');
  if (isWrong) return undefined;
  const prefix = decode(url.pathname)?.replace(/^\/+|\/+$/g, '');
  if (prefix === undefined || accessKeyId === undefined || secretAccessKey === undefined) return undefined;
  // The prefix becomes part of each key, and some servers read other characters differently.
  if (!/^[\w./-]*$/.test(prefix) || prefix.split('/').includes('..')) return undefined;
  return {
    kind: 's3',
    bucket: url.hostname,
    prefix: prefix === '' ? '' : `${prefix}/`,
    endpoint: endpoint ?? undefined,
    region: url.searchParams.get('region') ?? 'us-east-1',
    // Servers other than Amazon's seldom have a host name for each bucket.
    pathStyle: style === null ? endpoint !== null : style === 'true',
    credentials: accessKeyId === '' ? undefined : { accessKeyId, secretAccessKey },
  };
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
