/** Maps errors of the SDKs to the kinds of `ModelError` that the engine tells apart. */
import { beginningOf, cleanText } from '../core/content.ts';
import { ModelError, promptTokens } from '../core/model.ts';
import type { ModelErrorKind, TokenUsage } from '../core/model.ts';
import type { CutOff } from './call-guard.ts';
import { baseUrlVariable } from './response-form.ts';

/** The fields that both SDKs' errors share; any may be missing, as in a mid-stream error event. */
interface ProviderFailure {
  message: string;
  status?: number | undefined;
  type?: string | undefined;
  code?: string | undefined;
  headers?: Headers | undefined;
  cause?: unknown;
}

/** A provider as it was asked: at the address of its variable, if that is set. */
interface Asked {
  provider: string;
  baseUrl: string | undefined;
}

/** The `ModelError` for anything thrown during a call. `cutOff`: why we ended it ourselves. */
export function toModelError({ provider, baseUrl }: Asked, error: unknown, cutOff?: CutOff): ModelError {
  if (cutOff === 'aborted') return new ModelError('aborted', `The call to ${provider} was aborted.`);
  if (cutOff === 'timeout') return new ModelError('timeout', `${provider} gave no answer in time.`);
  if (error instanceof ModelError) return error;
  // Our own parsing failed: a retry would fail the same way, and no server is away.
  if (error instanceof TypeError && error.cause === undefined) {
    const message = `${provider}: the answer has a form that cannot be read (${error.message}).`;
    return new ModelError('invalid_request', message, { cause: error });
  }
  return modelErrorOf(provider, failureOf({ provider, baseUrl }, error));
}

/** Classifies by a type of `BEFORE_STATUS`, else by status, else by type, else as a broken connection. */
export function modelErrorOf(provider: string, failure: ProviderFailure): ModelError {
  return new ModelError(kindOf(failure), `${provider}: ${safeMessage(failure)}`, {
    retryAfterMs: retryAfterMs(failure.headers),
    cause: failure.cause,
  });
}

const CONTEXT =
  /prompt is too long|input is too long|context.?(?:length|window|limit)|maximum context|too many (?:input )?tokens|request_too_large/i;

/** Anthropic names no type of its own for used up credit. */
const NO_CREDIT = /credit balance is too low/i;

const BY_TYPE: Record<string, ModelErrorKind> = {
  overloaded_error: 'overloaded',
  server_overloaded: 'overloaded',
  rate_limit_error: 'rate_limited',
  rate_limit_exceeded: 'rate_limited',
  timeout_error: 'timeout',
  authentication_error: 'authentication',
  permission_error: 'authentication',
  billing_error: 'authentication',
  // OpenAI sends 429 if credit is used up, but waiting does not help.
  insufficient_quota: 'authentication',
  not_found_error: 'unknown_model',
  model_not_found: 'unknown_model',
  invalid_request_error: 'invalid_request',
  request_too_large: 'context_too_long',
  context_length_exceeded: 'context_too_long',
  api_error: 'unavailable',
  server_error: 'unavailable',
};

const BY_STATUS: Record<number, ModelErrorKind> = {
  401: 'authentication',
  402: 'authentication',
  403: 'authentication',
  404: 'unknown_model',
  408: 'timeout',
  409: 'unavailable',
  413: 'context_too_long',
  425: 'unavailable',
  429: 'rate_limited',
  504: 'timeout',
  529: 'overloaded',
};

/** Kinds for which an error's type is more exact than its status. */
const BEFORE_STATUS: readonly ModelErrorKind[] = ['overloaded', 'authentication', 'context_too_long', 'unknown_model'];

function kindOf(failure: ProviderFailure): ModelErrorKind {
  const named = BY_TYPE[failure.code ?? ''] ?? BY_TYPE[failure.type ?? ''];
  if (named !== undefined && BEFORE_STATUS.includes(named)) return named;
  const asked = failure.status === undefined ? named === 'invalid_request' : failure.status < 500;
  if (asked && NO_CREDIT.test(failure.message)) return 'authentication';
  if (asked && CONTEXT.test(failure.message)) return failure.status === 429 ? 'rate_limited' : 'context_too_long';
  if (failure.status !== undefined) return kindOfStatus(failure.status, failure.message);
  return named ?? (/timed? ?out/i.test(failure.message) ? 'timeout' : 'unavailable');
}

function kindOfStatus(status: number, message: string): ModelErrorKind {
  const known = BY_STATUS[status];
  if (known) return known;
  if (status >= 500) return /overloaded/i.test(message) ? 'overloaded' : 'unavailable';
  return 'invalid_request';
}

/** The same error with the usage reported for an answer that broke off. */
export function withUsage(error: ModelError, usage: TokenUsage, tiers = error.tiers): ModelError {
  if (promptTokens(usage) + usage.output === 0) return error;
  const { kind, message, retryAfterMs: after, cause } = error;
  return new ModelError(kind, message, { retryAfterMs: after, cause, usage, tiers });
}

/** Shorter keys may be ordinary words of a message: local servers accept any key. */
const SHORTEST_KEY = 8;

/**
 * The same error without the API key, which some servers repeat when they refuse it; each provider's keys have their
 * own form.
 */
export function withoutKey(error: unknown, apiKey: string): unknown {
  if (!(error instanceof ModelError) || apiKey.length < SHORTEST_KEY || !error.message.includes(apiKey)) return error;
  const { kind, message, retryAfterMs: after, usage, tiers } = error;
  return new ModelError(kind, message.replaceAll(apiKey, '[key]'), { retryAfterMs: after, usage, tiers });
}

/** Milliseconds from `retry-after-ms` or `retry-after` (seconds or a date); undefined if neither is usable. */
function retryAfterMs(headers: Headers | undefined): number | undefined {
  const ms = Number.parseFloat(headers?.get('retry-after-ms') ?? '');
  if (ms >= 0) return ms;
  const after = headers?.get('retry-after') ?? '';
  const parsed = /^\d+(\.\d+)?$/.test(after) ? Number(after) * 1000 : Date.parse(after) - Date.now();
  return Number.isFinite(parsed) ? Math.max(0, parsed) : undefined;
}

function failureOf(asked: Asked, error: unknown): ProviderFailure {
  if (!(error instanceof Error)) return { message: String(error) };
  const fields = error as Error & Record<string, unknown>;
  const status = typeof fields['status'] === 'number' ? fields['status'] : undefined;
  return {
    message: messageOf(asked, fields),
    status,
    type: stringOf(fields['type']) ?? stringOf(nested(fields['error'], 'type')),
    code: stringOf(fields['code']),
    headers: fields['headers'] instanceof Headers ? fields['headers'] : undefined,
    // A provider's answer is explained by its message; a broken connection by its cause (ECONNREFUSED and the like).
    cause: status === undefined ? error : undefined,
  };
}

/** Codes of connections that did not come about, as where an address is wrong; they may also pass. */
const UNREACHED = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
  'UND_ERR_CONNECT_TIMEOUT',
  'ERR_SSL_WRONG_VERSION_NUMBER',
]);

function messageOf({ provider, baseUrl }: Asked, fields: Error & Record<string, unknown>): string {
  const told = stringOf(fields['apiMessage']) ?? stringOf(nested(fields['error'], 'message'));
  if (told) return told;
  const code = rootCode(fields.cause);
  if (!code) return fields.message;
  const said = `${fields.message} (${code})`;
  if (baseUrl === undefined || !UNREACHED.has(code)) return said;
  // Host and port alone: an address may hold a password.
  return `${said} Check ${baseUrlVariable(provider)}: it leads to ${new URL(baseUrl).host}.`;
}

function rootCode(cause: unknown, depth = 0): string | undefined {
  if (!(cause instanceof Error) || depth > 4) return undefined;
  return stringOf((cause as Error & Record<string, unknown>)['code']) ?? rootCode(cause.cause, depth + 1);
}

function nested(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[key] : undefined;
}

function stringOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** Masks keys: providers repeat parts of a wrong one (`withoutKey`: all of it). */
function safeMessage(failure: ProviderFailure): string {
  const message = cleanText(beginningOf(failure.message.replace(/\b(?:sk|pk)-[\w*.-]+/g, '[key]'), 1000));
  return failure.status === undefined ? message : `${message} (status ${failure.status})`;
}
