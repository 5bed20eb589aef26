import { LIMITS } from '../../core/limits.ts';
import type { ToolAttempt, ToolOutcome } from '../../core/tool.ts';
import { EgressError, outcomeOfEgressError } from '../egress-error.ts';
import { HEADERS_OF_CALLS } from '../http-request.ts';
import { decodeText, isTextual, mediaType, NO_SUCH_TEXT, unknownEncodingOf } from '../response-body.ts';
import { READS, toolError, type Builtin, type BuiltinRuntime } from './builtin-type.ts';

const DEFAULT_MAX_BYTES = 1024 * 1024;
/** Half: in a JSON value, escapes make the body longer. */
const MAX_BYTES = LIMITS.toolOutputBytes / 2;

export const HTTP_GET: Builtin = {
  name: 'http_get',
  display_name: 'HTTP GET',
  description:
    'Fetches a public http or https URL and returns status, content type and body as text. Private and local addresses are refused. A status such as 404 is part of the result, not a failure.',
  input_schema: {
    type: 'object',
    properties: {
      url: { type: 'string', minLength: 1, maxLength: 8000, description: 'Absolute http or https URL.' },
      headers: {
        type: 'object',
        additionalProperties: { type: 'string', maxLength: 4000 },
        maxProperties: 50,
        description: 'Request headers, such as {"accept": "application/json"}.',
      },
      max_bytes: {
        type: 'integer',
        minimum: 1,
        maximum: MAX_BYTES,
        description: `A longer body is an error. ${DEFAULT_MAX_BYTES} if left out.`,
      },
    },
    required: ['url'],
    additionalProperties: false,
  },
  output_schema: {
    type: 'object',
    properties: { status: { type: 'integer' }, content_type: { type: 'string' }, body: { type: 'string' } },
    required: ['status', 'content_type', 'body'],
  },
  ...READS,
};

type Wanted = { url: string; headers?: Record<string, string>; max_bytes?: number };

/** `{url, headers?, max_bytes?} -> {status, content_type, body}`, through the egress guard. */
export async function httpGet(attempt: ToolAttempt<Wanted>, runtime: BuiltinRuntime): Promise<ToolOutcome> {
  const { url, headers = {}, max_bytes } = attempt.arguments;
  const forged = Object.keys(headers).find((name) => HEADERS_OF_CALLS.test(name));
  try {
    if (forged !== undefined)
      throw new EgressError('bad-request', `the header ${forged} cannot be set`, { sent: false });
    const response = await runtime.egress.fetch(url, {
      headers: { ...headers, ...(attempt.traceparent === undefined ? {} : { traceparent: attempt.traceparent }) },
      maxBytes: max_bytes ?? DEFAULT_MAX_BYTES,
      timeoutMs: attempt.timeoutMs,
      signal: attempt.signal,
    });
    const unreadable = unknownEncodingOf(response);
    if (unreadable) return toolError(unreadable.code, unreadable.message);
    const type = mediaType(response);
    const body = decodeText(response);
    if (body === undefined) {
      const why = isTextual(type) ? `whose bytes are ${NO_SUCH_TEXT}` : 'not text';
      return toolError('not-text', `The URL holds ${type || 'binary data'}, ${why}.`);
    }
    return { kind: 'succeeded', output: { status: response.status, content_type: type, body } };
  } catch (error) {
    if (error instanceof EgressError) return outcomeOfEgressError(error);
    throw error;
  }
}
