/** Runs in the child process of `evaluate-jsonata.ts`: one evaluation after the other. */
import jsonata from 'jsonata';
import { LIMITS } from '../../core/limits.ts';
import { holdsMoreValues } from '../../lib/json-size.ts';
import { isTimeLimit, runBounded } from '../run-bounded.ts';
import { messageOf } from './message-of.ts';

const MAX_STACK = 400;
const MAX_SEQUENCE = 200_000;

export interface JsonataRequest {
  text: string;
  /** The data, as JSON. */
  json: string;
  limitMs: number;
}

/** The result as JSON, or the fault. */
export type JsonataAnswer = { json: string } | { fault: 'too-slow' | 'failed'; message: string };

async function evaluate({ text, json, limitMs }: JsonataRequest): Promise<JsonataAnswer> {
  try {
    const expression = jsonata(text, {
      timeout: limitMs,
      stack: MAX_STACK,
      sequence: MAX_SEQUENCE,
      RegexEngine: boundedRegExp(performance.now() + limitMs),
    });
    // Through JSON: JSONata marks its sequences with hidden properties and may return functions.
    const result = JSON.stringify(await expression.evaluate(JSON.parse(json))) as string | undefined;
    return fitting(result ?? 'null');
  } catch (error) {
    if (isTimeLimit(error)) return { fault: 'too-slow', message: 'a regular expression takes too long' };
    return { fault: 'failed', message: messageOf(error) };
  }
}

function fitting(json: string): JsonataAnswer {
  if (Buffer.byteLength(json) > LIMITS.toolOutputBytes)
    return { fault: 'failed', message: `its result is larger than ${LIMITS.toolOutputBytes} bytes` };
  if (holdsMoreValues(json, LIMITS.jsonValues))
    return { fault: 'failed', message: `its result has more than ${LIMITS.jsonValues} values` };
  return { json };
}

/** JSONata checks its time only between steps; a match of a bad pattern might never return. */
function boundedRegExp(endsAt: number): RegExpConstructor {
  class BoundedRegExp extends RegExp {
    override exec(text: string): RegExpExecArray | null {
      return runBounded(() => super.exec(text), endsAt - performance.now());
    }
  }
  return BoundedRegExp as unknown as RegExpConstructor;
}

// Ignored: it ends with its parent, whatever signals the process group gets.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => undefined);
process.on('message', (request: JsonataRequest) => {
  void evaluate(request).then((answer) => process.send?.(answer));
});
process.send?.('ready');
