import jsonata from 'jsonata';
import { beginningOf } from '../core/content.ts';
import { isTimeLimit, runBounded } from './run-bounded.ts';

/** It blocks the process for that long at worst. */
const MAX_MS = 1000;
const MAX_STACK = 400;
const MAX_SEQUENCE = 200_000;

/** JSON (null for nothing), or what went wrong. */
type Evaluated = { result: unknown } | { fault: 'too-slow' | 'failed'; message: string };

/** Evaluates a JSONata 2 expression over JSON, for at most a second: the evaluation never yields to a timer. */
export async function evaluateJsonata(text: string, data: unknown, timeoutMs: number): Promise<Evaluated> {
  const limitMs = Math.max(1, Math.min(timeoutMs, MAX_MS));
  try {
    const expression = jsonata(text, {
      timeout: limitMs,
      stack: MAX_STACK,
      sequence: MAX_SEQUENCE,
      RegexEngine: boundedRegExp(performance.now() + limitMs),
    });
    // By way of JSON: JSONata marks its sequences with hidden properties and may return functions.
    const json = JSON.stringify(await expression.evaluate(data)) as string | undefined;
    return { result: json === undefined ? null : (JSON.parse(json) as unknown) };
  } catch (error) {
    if (isTimeLimit(error)) return { fault: 'too-slow', message: 'a regular expression takes too long' };
    return { fault: 'failed', message: messageOf(error) };
  }
}

/** What is wrong with an expression; undefined if it can be evaluated. */
export function jsonataFault(text: string): string | undefined {
  try {
    jsonata(text);
    return undefined;
  } catch (error) {
    return messageOf(error);
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
  const text = typeof message === 'string' ? beginningOf(message, 500) : 'unknown reason';
  return typeof position === 'number' ? `${text} (at character ${position})` : text;
}
