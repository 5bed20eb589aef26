/** Evaluates JSONata within limits of time and size. Runs in the process of `child.ts`. */
import jsonata from 'jsonata';
import { LIMITS } from '../../core/limits.ts';
import { holdsMoreValues } from '../../lib/json-size.ts';
import { isTimeLimit, runBounded } from '../run-bounded.ts';
import type { ApartAnswer } from './apart-answer.ts';
import { messageOf } from './message-of.ts';

const MAX_STACK = 400;
const MAX_SEQUENCE = 200_000;
/** JSONata's own code for an evaluation whose time is over. */
const OVERTIME = 'D1012';

export interface Expression {
  text: string;
  /** The data, as JSON. */
  json: string;
}

/** The value of a JSONata 2 expression over JSON. */
export async function evaluateExpression({ text, json }: Expression, limitMs: number): Promise<ApartAnswer> {
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
    if ((error as { code?: unknown }).code === OVERTIME) return { fault: 'too-slow', message: messageOf(error) };
    return { fault: 'failed', message: messageOf(error) };
  }
}

function fitting(json: string): ApartAnswer {
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
