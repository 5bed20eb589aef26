/** Plain HTTP tools (docs/tools.md). */
import { z } from 'zod';
import { LIMITS } from '../../core/limits.ts';
import { HIDDEN, isCredential, redact, redactJson, redactRemote } from '../redact.ts';
import { checkHttpTransport, templatesOf, type HttpTransport } from '../http-request.ts';
import { callHttp } from '../http.ts';
import type { TransportKind } from '../transport-kind.ts';
import { endpoint, headers, HIDDEN_MESSAGE, shownText } from './fields.ts';

const MAX_BODY_TEMPLATE = 64 * 1024;

const schema = z.strictObject({
  type: z.literal('http'),
  endpoint,
  method: z.enum(['GET', 'POST', 'PUT', 'PATCH', 'DELETE']).optional(),
  headers,
  path: z.string().max(2000).optional().describe('Template, appended to the path of the endpoint.'),
  query: z.record(z.string().min(1).max(200), shownText(8000)).optional().describe('Templates.'),
  // Not `json()`, whose schema refers to itself: generators of types refuse that. What arrives here was parsed from JSON.
  body: z
    .unknown()
    .refine((value) => Buffer.byteLength(JSON.stringify(value)) <= MAX_BODY_TEMPLATE, 'is too large')
    .refine((value) => !JSON.stringify(value).includes(JSON.stringify(HIDDEN)), HIDDEN_MESSAGE)
    .optional()
    .describe('JSON in which every text is a template, in place of the input.'),
  response: z
    .strictObject({ expression: z.string().min(1).max(4000) })
    .optional()
    .describe('JSONata over the answer: its result is the output.'),
  max_bytes: z.int().min(1).max(LIMITS.toolOutputBytes).optional(),
  max_redirects: z.int().min(0).max(10).optional(),
});

export const HTTP: TransportKind<HttpTransport> = {
  schemas: { http: schema },
  check: checkHttpTransport,
  secretTexts: templatesOf,
  destinationOf: ({ endpoint: url }) => url,
  present: (transport) => ({
    ...redactRemote(transport),
    ...(transport.query && { query: redact(transport.query, isCredential) }),
    ...(transport.body !== undefined && { body: redactJson(transport.body) }),
  }),
  open: ({ egress }) => ({
    call: ({ transport, secrets }, attempt) => callHttp(transport, attempt, { egress, secrets }),
  }),
};
