/** Plain HTTP tools (docs/tools.md). */
import type { ToolAttempt, ToolOutcome } from '../core/tool.ts';
import { EgressError, outcomeOfEgressError } from './egress-error.ts';
import type { Egress, EgressResponse } from './egress.ts';
import { evaluateJsonata } from './evaluate-jsonata.ts';
import { buildRequest } from './http-request.ts';
import type { HttpTransport } from './http-request.ts';
import { decodeBody } from './response-body.ts';
import { retryAfter } from './retry-after.ts';
import type { SecretValues } from './secret-values.ts';

export interface HttpRuntime {
  egress: Egress;
  secrets: SecretValues;
}

/** Makes one attempt of a plain HTTP tool. Never throws for a failure of the tool, the network or the guard. */
export async function callHttp(
  transport: HttpTransport,
  attempt: ToolAttempt,
  runtime: HttpRuntime,
): Promise<ToolOutcome> {
  const request = buildRequest(transport, attempt, runtime.secrets);
  if ('fault' in request)
    return { kind: 'error', origin: 'drover', unsent: true, code: 'invalid-arguments', message: request.fault };
  const startedMs = performance.now();
  try {
    const outcome = outcomeOf(await runtime.egress.fetch(request.url, request.init));
    const leftMs = attempt.timeoutMs - (performance.now() - startedMs);
    return await mapped(transport, outcome, { tenantId: attempt.tenantId, secrets: runtime.secrets, leftMs });
  } catch (error) {
    if (error instanceof EgressError) return outcomeOfEgressError(error);
    throw error;
  }
}

/** The least time for a mapping, however late the answer came, in ms: less than the grace of a call in `execute-tool.ts`. */
const MAPPING_MS = 500;

/**
 * Maps the answer to the tool's output. The expression gets no secret, which it could write so that nobody finds it. The call
 * has been made, so a failed mapping is never retried.
 */
async function mapped(
  transport: HttpTransport,
  outcome: ToolOutcome,
  { tenantId, secrets, leftMs }: { tenantId: string; secrets: SecretValues; leftMs: number },
): Promise<ToolOutcome> {
  if (transport.response === undefined || outcome.kind !== 'succeeded') return outcome;
  const { expression: text } = transport.response;
  const timeoutMs = Math.max(leftMs, MAPPING_MS);
  const answer = redacted(outcome.output, secrets);
  if (!answer) return notMapped(outcome.output, 'the answer is nested too deeply');
  const evaluated = await evaluateJsonata({ text, data: answer.data, tenantId }, timeoutMs);
  return 'result' in evaluated
    ? { kind: 'succeeded', output: evaluated.result }
    : notMapped(outcome.output, evaluated.message);
}

/** Undefined for an answer that is nested too deeply to be walked. */
function redacted(output: unknown, secrets: SecretValues): { data: unknown } | undefined {
  try {
    return { data: secrets.redact(output) };
  } catch {
    return undefined;
  }
}

function notMapped(output: unknown, why: string): ToolOutcome {
  const message = `The tool has answered, but its response.expression fails: ${why}`;
  return { kind: 'error', origin: 'drover', code: 'response-mapping', message, output };
}

const LOST_STATUSES = [408, 425, 502, 503, 504];

function outcomeOf(response: EgressResponse): ToolOutcome {
  const { status } = response;
  const body = decodeBody(response);
  if (status >= 200 && status < 300) {
    if ('output' in body) return { kind: 'succeeded', output: body.output };
    return { kind: 'error', origin: 'drover', ...body.fault };
  }
  const code = `http-${status}`;
  const words = 'output' in body ? excerpt(body.output) : '';
  const message = `HTTP ${status}${words}`;
  const quotes = words !== '' && { quotes: true };
  const retryAfterMs = retryAfter(response.headers.get('retry-after'));
  if (status === 429 || (status === 503 && retryAfterMs !== undefined)) {
    return { kind: 'unreached', code, message, ...(retryAfterMs === undefined ? {} : { retryAfterMs }), ...quotes };
  }
  if (LOST_STATUSES.includes(status)) return { kind: 'lost', code, message, ...quotes };
  const origin = quotes ? {} : ({ origin: 'drover' } as const);
  return { kind: 'error', ...origin, code, message, ...('output' in body ? { output: body.output } : {}) };
}

function excerpt(output: unknown): string {
  if (output === null || output === '') return '';
  try {
    return `: ${typeof output === 'string' ? output : JSON.stringify(output)}`;
  } catch {
    // Nested too deeply to be walked.
    return '';
  }
}
