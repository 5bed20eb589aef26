import type { ToolAttempt, ToolOutcome } from '../../core/tool.ts';
import { evaluateJsonata } from '../evaluate-jsonata.ts';
import { READS, toolError, type Builtin } from './builtin-type.ts';

const MAX_QUERY_LENGTH = 4000;

export const JSON_QUERY: Builtin = {
  name: 'json_query',
  display_name: 'JSON query',
  description:
    'Selects, filters, sorts, groups and aggregates JSON data with a JSONata expression. Examples: "orders[status=\'open\'].total" (filter), "$sum(orders.total)" (aggregate), "orders^(>total)[0]" (largest), "orders{country: $sum(total)}" (group).',
  input_schema: {
    type: 'object',
    properties: {
      data: { description: 'The JSON value to query.' },
      query: { type: 'string', minLength: 1, maxLength: MAX_QUERY_LENGTH, description: 'A JSONata expression.' },
    },
    required: ['data', 'query'],
    additionalProperties: false,
  },
  output_schema: {
    type: 'object',
    properties: { result: { description: 'What the query selects; null if nothing.' } },
    required: ['result'],
  },
  ...READS,
};

/** `{data, query} -> {result}`, by JSONata 2. Stopped after a second, or if it takes too much memory. */
export async function queryJson(attempt: ToolAttempt<{ data: unknown; query: string }>): Promise<ToolOutcome> {
  const { data, query } = attempt.arguments;
  const evaluated = await evaluateJsonata({ text: query, data, tenantId: attempt.tenantId }, attempt.timeoutMs);
  if ('result' in evaluated) return { kind: 'succeeded', output: evaluated };
  if (evaluated.fault === 'failed') return toolError('query-failed', `The query failed: ${evaluated.message}`);
  return toolError('too-slow', 'The query takes too long.');
}
