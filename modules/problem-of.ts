/** An error as an RFC 9457 document for a client. */
import { STATUS_CODES } from 'node:http';
import type { DroverError, FieldError } from '../core/errors.ts';

interface Problem {
  type: 'about:blank';
  title: string;
  status: number;
  detail: string;
  instance: string;
  /** Stable name of the error. */
  code: string;
  request_id: string;
  errors?: FieldError[];
  [extra: string]: unknown;
}

/** The problem document of an error. */
export function problemOf(error: DroverError, { path, requestId }: { path: string; requestId: string }): Problem {
  return {
    ...error.extra,
    type: 'about:blank',
    title: STATUS_CODES[error.status] ?? 'Error',
    status: error.status,
    detail: error.message,
    instance: shortPath(path),
    code: error.code,
    request_id: requestId,
    ...(error.errors === undefined ? {} : { errors: error.errors }),
  };
}

/** A path, shortened for an answer. */
export function shortPath(path: string): string {
  return path.length > 200 ? `${path.slice(0, 200)}…` : path;
}
