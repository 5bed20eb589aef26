/** Plain HTTP tools (api.md, "What a plain HTTP tool sees"). */
import { LIMITS } from '../core/limits.ts';
import type { ToolAttempt, ToolOutcome, ToolTransport } from '../core/tool.ts';
import { EgressError, outcomeOfEgressError } from './egress-error.ts';
import type { Egress, EgressInit, EgressResponse } from './egress.ts';
import { decodeBody } from './response-body.ts';
import type { SecretValues } from './secret-values.ts';

export type HttpTransport = Extract<ToolTransport, { type: 'http' }>;

export interface HttpRuntime {
  egress: Egress;
  secrets: SecretValues;
}

/** One attempt of a plain HTTP tool. Never throws for what the tool, the network or the guard does. */
export async function callHttp(
  transport: HttpTransport,
  attempt: ToolAttempt,
  runtime: HttpRuntime,
): Promise<ToolOutcome> {
  const { url, init } = requestOf(transport, attempt, runtime.secrets);
  try {
    return outcomeOf(await runtime.egress.fetch(url, init));
  } catch (error) {
    if (error instanceof EgressError) return outcomeOfEgressError(error);
    throw error;
  }
}

function requestOf(
  transport: HttpTransport,
  attempt: ToolAttempt,
  { fill }: SecretValues,
): { url: string; init: EgressInit } {
  const method = transport.method ?? 'POST';
  const inQuery = method === 'GET' || method === 'DELETE';
  const own = Object.fromEntries(Object.entries(transport.headers ?? {}).map(([name, text]) => [name, fill(text)]));
  const init: EgressInit = {
    method,
    headers: headersOf(attempt, { own, hasBody: !inQuery }),
    body: inQuery ? undefined : JSON.stringify(attempt.arguments),
    maxBytes: LIMITS.toolOutputBytes,
    timeoutMs: attempt.timeoutMs,
    signal: attempt.signal,
  };
  return { url: inQuery ? withQuery(transport.endpoint, attempt.arguments) : transport.endpoint, init };
}

/** The tool's own headers may change how the body is described, never who is calling. */
function headersOf(
  attempt: ToolAttempt,
  { own, hasBody }: { own: Record<string, string>; hasBody: boolean },
): Record<string, string> {
  const lower = Object.fromEntries(Object.entries(own).map(([name, value]) => [name.toLowerCase(), value]));
  return {
    accept: 'application/json, text/*;q=0.9, */*;q=0.1',
    ...(hasBody ? { 'content-type': 'application/json' } : {}),
    ...lower,
    'idempotency-key': attempt.idempotencyKey,
    'x-drover-tool-call-id': attempt.toolCallId,
    ...(attempt.runId === '' ? {} : { 'x-drover-run-id': attempt.runId }),
    ...(attempt.traceparent === undefined ? {} : { traceparent: attempt.traceparent }),
  };
}

/** Lists become repeated parameters, objects JSON; what is null is left out. */
function withQuery(endpoint: string, args: Record<string, unknown>): string {
  if (!URL.canParse(endpoint)) return endpoint;
  const url = new URL(endpoint);
  for (const [name, value] of Object.entries(args)) {
    const items: unknown[] = Array.isArray(value) ? value : [value];
    for (const item of items) {
      if (item === null || item === undefined) continue;
      url.searchParams.append(name, typeof item === 'string' ? item : JSON.stringify(item));
    }
  }
  return url.href;
}

const LOST_STATUSES = [408, 425, 502, 503, 504];

function outcomeOf(response: EgressResponse): ToolOutcome {
  const { status } = response;
  const body = decodeBody(response);
  if (status >= 200 && status < 300) {
    if ('output' in body) return { kind: 'succeeded', output: body.output };
    return {
      kind: 'error',
      code: 'not-text',
      message: `The tool answered with ${body.binary}, neither JSON nor text.`,
    };
  }
  const code = `http-${status}`;
  const message = `HTTP ${status}${'output' in body ? excerpt(body.output) : ''}`;
  const retryAfterMs = retryAfter(response.headers.get('retry-after'));
  if (status === 429 || (status === 503 && retryAfterMs !== undefined)) {
    return { kind: 'unreached', code, message, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
  }
  if (LOST_STATUSES.includes(status)) return { kind: 'lost', code, message };
  return { kind: 'error', code, message, ...('output' in body ? { output: body.output } : {}) };
}

function excerpt(output: unknown): string {
  if (output === null || output === '') return '';
  return `: ${typeof output === 'string' ? output : JSON.stringify(output)}`;
}

/** Seconds or an HTTP date (RFC 9110, 10.2.3), in ms from now. */
function retryAfter(header: string | null): number | undefined {
  if (header === null) return undefined;
  const ms = /^\d{1,9}$/.test(header.trim()) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}
