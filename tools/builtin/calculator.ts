import type { ToolAttempt, ToolOutcome } from '../../core/tool.ts';
import { calculation, loadMath } from '../apart/calculation.ts';
import { countApart, evaluateApart } from '../apart/evaluate-apart.ts';
import { isTimeLimit, runOnCpu } from '../run-bounded.ts';
import { READS, toolError, type Builtin } from './builtin-type.ts';

const MAX_EXPRESSION_LENGTH = 1000;
/** What takes longer goes on in another process: this one is at a standstill meanwhile. */
const MAX_MS_HERE = 50;
/** The most that a calculation waits for, its own second and those of the tenant's other calculations before it. */
const MAX_WAIT_MS = 5000;

/** Plain arithmetic takes microseconds, so it runs without a time limit, which costs a thread each time. */
const PLAIN = /^[\d\s.+\-*/()]{1,200}$/;

/** Whole numbers that may have more digits than are computed with. */
const LONG_NUMBER = /(?<![\w.])\d{16,}(?![\w.])/g;

export const CALCULATOR: Builtin = {
  name: 'calculator',
  display_name: 'Calculator',
  description:
    'Evaluates a mathematical expression exactly as written. Knows + - * / ^ % !, comparisons, parentheses, sqrt, abs, round(x, digits), floor, ceil, exp, log(x, base), sin, cos, min, max, sum, mean, median, std, variance, gcd, lcm, factorial, combinations, units ("5 inch to cm") and lists in brackets. Use it for every calculation.',
  input_schema: {
    type: 'object',
    properties: {
      expression: {
        type: 'string',
        minLength: 1,
        maxLength: MAX_EXPRESSION_LENGTH,
        description: 'For example "(1299 - 1099) / 1099 * 100" or "mean([3, 5, 10])".',
      },
    },
    required: ['expression'],
    additionalProperties: false,
  },
  output_schema: {
    type: 'object',
    properties: { result: { description: 'A number; text for units and complex numbers; a list for lists.' } },
    required: ['result'],
  },
  ...READS,
};

/** `{expression} -> {result}`, by mathjs. Allows only listed functions and plain syntax. Stopped after a second. */
export async function calculate(attempt: ToolAttempt<{ expression: string }>): Promise<ToolOutcome> {
  const { expression } = attempt.arguments;
  const rounded = expression.match(LONG_NUMBER)?.find((digits) => !Number.isSafeInteger(Number(digits)));
  if (rounded !== undefined)
    return toolError('too-precise', `${rounded} has more digits than the calculator computes with, which are 15.`);
  if (PLAIN.test(expression)) return calculation(expression);
  const here = calculateHere(expression, attempt.tenantId);
  if (here) return here;
  const apart = { work: { calculation: { expression } }, tenantId: attempt.tenantId };
  const answer = await evaluateApart(apart, Math.min(MAX_WAIT_MS, attempt.timeoutMs));
  if ('json' in answer) return JSON.parse(answer.json) as ToolOutcome;
  if (answer.fault === 'too-slow') return toolError('too-slow', 'The calculation takes too long.');
  return toolError('bad-expression', `The calculation failed: ${answer.message}`);
}

/** Undefined if it takes too long, and while others of the tenant have: many one after the other would stop the process. */
function calculateHere(expression: string, tenantId: string): ToolOutcome | undefined {
  if (countApart(tenantId) > 0) return undefined;
  loadMath();
  try {
    return runOnCpu(() => calculation(expression), MAX_MS_HERE);
  } catch (error) {
    if (isTimeLimit(error)) return undefined;
    throw error;
  }
}
