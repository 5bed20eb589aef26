/** Requests to a remote agent (A2A 1.0, JSON-RPC over HTTP), through the egress guard. */
import { A2A_VERSION_HEADER } from '@a2a-js/sdk';
import { z } from 'zod';
import { parseKeepingDigits } from '../../lib/json-integers.ts';
import { LIMITS } from '../../core/limits.ts';
import type { ToolAttempt, ToolOutcome, TransportTypes } from '../../core/tool.ts';
import { EgressError, outcomeOfEgressError } from '../egress-error.ts';
import type { Egress, EgressInit } from '../egress.ts';
import { hasTooManyValues, TOO_MANY_VALUES, unknownEncodingOf } from '../response-body.ts';
import { retryAfter } from '../retry-after.ts';
import { secretNamesIn, type SecretValues } from '../secret-values.ts';

export type A2aTransport = TransportTypes['a2a'];

/** The remote agent, and the means to reach it. */
export interface Remote {
  transport: A2aTransport;
  secrets: SecretValues;
  egress: Egress;
}

interface Question {
  method: 'SendMessage' | 'GetTask' | 'CancelTask';
  params: object;
}

/** The result of a request: an answer, a refusal with the protocol's code, or an outcome without either. */
export type Answer =
  | { result: unknown }
  | { refused: { code: number; message: string } }
  | { missing: Exclude<ToolOutcome, { kind: 'succeeded' | 'elsewhere' }> };

const VERSION = '1.0';
const LOST_STATUSES = [408, 425, 500, 502, 503, 504];

const answer = z.union([
  z.object({ error: z.object({ code: z.int(), message: z.string() }) }),
  z.object({ result: z.unknown() }),
]);

/** Sends one request. Network failures are data; `attempt` has the time limit and signal. */
export async function ask(remote: Remote, { method, params }: Question, attempt: ToolAttempt): Promise<Answer> {
  const { transport, egress } = remote;
  const own = sentHeaders(remote);
  const tenant = transport.tenant !== undefined && { tenant: transport.tenant };
  try {
    const response = await egress.fetch(transport.endpoint, {
      method: 'POST',
      headers: {
        ...own.headers,
        'content-type': 'application/json',
        accept: 'application/json',
        [A2A_VERSION_HEADER.toLowerCase()]: VERSION,
        ...(attempt.traceparent === undefined ? {} : { traceparent: attempt.traceparent }),
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: attempt.toolCallId, method, params: { ...tenant, ...params } }),
      confidential: own.confidential,
      maxBytes: LIMITS.toolOutputBytes,
      maxRedirects: 0,
      timeoutMs: attempt.timeoutMs,
      maySend: attempt.maySend,
      signal: attempt.signal,
    });
    const { status, body, headers } = response;
    if (status !== 200) return { missing: refusedBy(status, headers.get('retry-after')) };
    const unreadable = unknownEncodingOf(response);
    if (unreadable) return { missing: { kind: 'error', origin: 'drover', ...unreadable } };
    const text = body.toString();
    if (hasTooManyValues(text)) return { missing: { kind: 'error', origin: 'drover', ...TOO_MANY_VALUES } };
    const parsed = answer.safeParse(jsonOf(text));
    if (!parsed.success)
      return { missing: { kind: 'error', origin: 'drover', code: 'bad-answer', message: 'It does not speak A2A.' } };
    return 'error' in parsed.data ? { refused: parsed.data.error } : { result: parsed.data.result };
  } catch (error) {
    if (error instanceof EgressError) return { missing: egressFault(error) };
    throw error;
  }
}

/** The transport's own headers; those with secrets go to its origin alone. */
export function sentHeaders({
  transport,
  secrets,
}: Omit<Remote, 'egress'>): Required<Pick<EgressInit, 'headers' | 'confidential'>> {
  const own = Object.entries(transport.headers ?? {}).map(([name, text]) => [name.toLowerCase(), text] as const);
  const held = own.filter(([, text]) => secretNamesIn([text]).length > 0).map(([name]) => name);
  return {
    headers: Object.fromEntries(own.map(([name, text]) => [name, secrets.fill(text)])),
    confidential: { headers: held, body: false, refuseUrl: secrets.refuseUrl },
  };
}

function egressFault(error: EgressError): Extract<Answer, { missing: unknown }>['missing'] {
  const outcome = outcomeOfEgressError(error);
  if (outcome.kind === 'succeeded' || outcome.kind === 'elsewhere')
    throw new Error('a request that failed has no answer');
  return outcome;
}

/** Only a 429, or a 503 that says when to come again, means that nothing has happened; after another 5xx this is unknown. */
function refusedBy(status: number, header: string | null): Extract<Answer, { missing: unknown }>['missing'] {
  const about = { code: `http-${status}`, message: `The remote agent answered with HTTP ${status}.` };
  const retryAfterMs = retryAfter(header);
  if (status === 429 || (status === 503 && retryAfterMs !== undefined))
    return { kind: 'unreached', ...about, ...(retryAfterMs !== undefined && { retryAfterMs }) };
  return LOST_STATUSES.includes(status) ? { kind: 'lost', ...about } : { kind: 'error', origin: 'drover', ...about };
}

function jsonOf(text: string): unknown {
  try {
    return parseKeepingDigits(text);
  } catch {
    return undefined;
  }
}
