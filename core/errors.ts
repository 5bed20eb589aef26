/** All errors made by Drover, each with a stable code and an HTTP status. */

export interface FieldError {
  /** Dotted path, starting at the part of the request: `body.config.max_turns`. */
  path: string;
  message: string;
}

/** An error that a client may see. `detail` never holds SQL, stacks or secrets. */
export class DroverError extends Error {
  readonly code: string;
  readonly status: number;
  readonly errors: FieldError[] | undefined;
  readonly retryAfterSeconds: number | undefined;
  /** Extra members of the problem document, such as the id of a conflicting object. */
  readonly extra: Record<string, unknown>;

  constructor(
    code: string,
    status: number,
    detail: string,
    more: {
      errors?: FieldError[] | undefined;
      retryAfterSeconds?: number | undefined;
      extra?: Record<string, unknown>;
      cause?: unknown;
    } = {},
  ) {
    super(detail, { cause: more.cause });
    this.name = 'DroverError';
    this.code = code;
    this.status = status;
    this.errors = more.errors;
    this.retryAfterSeconds = more.retryAfterSeconds;
    this.extra = more.extra ?? {};
  }
}

export const badRequest = (detail: string, errors?: FieldError[]) =>
  new DroverError('bad-request', 400, detail, { errors });
export const unauthorized = (detail: string) => new DroverError('unauthorized', 401, detail);
export const forbidden = (detail: string) => new DroverError('forbidden', 403, detail);
export const notFound = (what: string) => new DroverError('not-found', 404, `${what} does not exist.`);
export const conflict = (detail: string, extra: Record<string, unknown> = {}) =>
  new DroverError('conflict', 409, detail, { extra });
/** The request needs content that was erased. */
export const erased = (what: string) => new DroverError('erased', 409, `${what} is erased.`);
export const tooLarge = (detail: string) => new DroverError('too-large', 413, detail);
export const impossible = (detail: string, errors?: FieldError[]) =>
  new DroverError('impossible', 422, detail, { errors });
export const unavailable = (detail: string, cause?: unknown) =>
  new DroverError('unavailable', 503, detail, { retryAfterSeconds: 2, cause });

/** The message of anything thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
