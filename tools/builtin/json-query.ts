import jsonata from 'jsonata';
import type { ToolAttempt, ToolOutcome } from '../../core/tool.ts';
import { isTimeLimit, runBounded } from '../run-bounded.ts';
import { toolError } from './builtin-type.ts';
import type { Builtin } from './builtin-type.ts';

const MAX_QUERY_LENGTH = 4000;
/** It blocks the process for that long at worst. */
const MAX_MS = 1000;
const MAX_STACK = 400;
const MAX_SEQUENCE = 200_000;

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
};

/** `{data, query} -> {result}`, by JSONata 2. Stops after a second: the evaluation never yields to a timer. */
export async function queryJson(attempt: ToolAttempt): Promise<ToolOutcome> {
  const { data, query } = attempt.arguments as { data: unknown; query: string };
  const timeoutMs = Math.max(1, Math.min(attempt.timeoutMs, MAX_MS));
  try {
    const expression = jsonata(query, {
      timeout: timeoutMs,
      stack: MAX_STACK,
      sequence: MAX_SEQUENCE,
      RegexEngine: boundedRegExp(performance.now() + timeoutMs),
    });
    // By way of JSON: JSONata marks its sequences with hidden properties and may return functions.
    const text = JSON.stringify(await expression.evaluate(data)) as string | undefined;
    return { kind: 'succeeded', output: { result: text === undefined ? null : (JSON.parse(text) as unknown) } };
  } catch (error) {
    if (isTimeLimit(error)) return toolError('too-slow', 'A regular expression of the query takes too long.');
    return toolError('query-failed', `The query failed: ${messageOf(error)}`);
  }
}

/** JSONata checks its time between steps only; one match of a bad pattern would never come back. */
function boundedRegExp(endsAt: number): RegExpConstructor {
  class BoundedRegExp extends RegExp {
    override exec(text: string): RegExpExecArray | null {
      return runBounded(() => super.exec(text), endsAt - performance.now());
    }
  }
  return BoundedRegExp as unknown as RegExpConstructor;
}

/** JSONata throws plain objects with a message and a position. */
function messageOf(error: unknown): string {
  const { message, position } = error as { message?: unknown; position?: unknown };
  const text = typeof message === 'string' ? message.slice(0, 500) : 'unknown reason';
  return typeof position === 'number' ? `${text} (at character ${position})` : text;
}
