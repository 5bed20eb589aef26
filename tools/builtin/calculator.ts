import { createRequire } from 'node:module';
import type * as mathjs from 'mathjs';
import type { MathJsInstance, MathNode } from 'mathjs';
import type { ToolAttempt, ToolOutcome } from '../../core/tool.ts';
import { isTimeLimit, runBounded } from '../run-bounded.ts';
import { READS, toolError, type Builtin } from './builtin-type.ts';

const MAX_EXPRESSION_LENGTH = 1000;
const MAX_RESULT_BYTES = 10_000;
const MAX_MS = 1000;

/** Plain arithmetic takes microseconds, so it runs without a time limit, which costs a thread each time. */
const PLAIN = /^[\d\s.+\-*/()]{1,200}$/;

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

/** `{expression} -> {result}`, by mathjs. Allows only listed functions and plain syntax. */
export async function calculate(attempt: ToolAttempt<{ expression: string }>): Promise<ToolOutcome> {
  const { expression } = attempt.arguments;
  const math = loadMath();
  try {
    if (PLAIN.test(expression)) return evaluate(math, expression);
    return runBounded(() => evaluate(math, expression), Math.min(MAX_MS, attempt.timeoutMs));
  } catch (error) {
    if (isTimeLimit(error)) return toolError('too-slow', 'The calculation takes too long.');
    return toolError('bad-expression', error instanceof Error ? error.message.slice(0, 500) : 'The expression is bad.');
  }
}

let loaded: MathJsInstance | undefined;

/** Loads mathjs with the first calculation, as its one bundled file: 0.2 s, where its thousand modules take 2 to 3 s. */
function loadMath(): MathJsInstance {
  if (!loaded) {
    const require = createRequire(import.meta.url);
    const { all, create } = require('mathjs/lib/browser/math.js') as typeof mathjs;
    loaded = create(all ?? {});
    // The first use builds the parser, which must not count against a calculation's time.
    loaded.parse('0');
  }
  return loaded;
}

function evaluate(math: MathJsInstance, expression: string): ToolOutcome {
  const tree = math.parse(expression);
  const fault = faultOf(math, tree);
  if (fault) return toolError('not-allowed', fault);
  const result = toJson(math, tree.compile().evaluate({}) as unknown);
  if (result === undefined) return toolError('no-value', 'The expression has no finite value (division by zero?).');
  if (Buffer.byteLength(JSON.stringify(result)) > MAX_RESULT_BYTES) {
    return toolError('too-large', `The result is larger than ${MAX_RESULT_BYTES} bytes.`);
  }
  return { kind: 'succeeded', output: { result } };
}

/** An allow-list: mathjs also has functions that evaluate text, change the library or build matrices of any size. */
const FUNCTIONS = new Set(
  `abs acos acosh acot acoth acsc add and arg asec asin asinh atan atan2 atanh bitAnd bitNot bitOr bitXor cbrt ceil
  combinations compare complex conj cos cosh cot coth count cov cross csc csch cube cumsum det distance divide dot
  equal erf exp expm1 factorial fix floor gamma gcd hypot im intersect inv isInteger isNaN isNegative isPositive isPrime
  isZero larger largerEq lcm leftShift lgamma log log10 log1p log2 mad max mean median min mod mode multiply norm not
  nthRoot number or permutations pow prod quantileSeq re rightArithShift rightLogShift round sec sech sign sin sinh
  smaller smallerEq sort sqrt square std subtract sum tan tanh to transpose unaryMinus unequal unit variance xgcd
  xor`.split(/\s+/),
);
const NODES = new Set(
  `ArrayNode AssignmentNode BlockNode ConditionalNode ConstantNode FunctionNode OperatorNode ParenthesisNode
  RelationalNode SymbolNode`.split(/\s+/),
);

function faultOf(math: MathJsInstance, tree: MathNode): string | undefined {
  let fault: string | undefined;
  tree.traverse((node, path) => {
    fault ??= nodeFault(node) ?? (path === 'fn' ? undefined : valueFault(math, node));
  });
  return fault;
}

function nodeFault(node: MathNode): string | undefined {
  if (!NODES.has(node.type)) return `Not allowed here: ${node.type.replace(/Node$/, '').toLowerCase()} syntax.`;
  if ('name' in node && node.type === 'FunctionNode' && !FUNCTIONS.has(String(node.name))) {
    return `The function "${String(node.name)}" is not available.`;
  }
  return undefined;
}

/** A function used as a value could be handed to another one and called: `sort(["…"], evaluate)`. */
function valueFault(math: MathJsInstance, node: MathNode): string | undefined {
  if (node.type !== 'SymbolNode' || !('name' in node)) return undefined;
  const name = String(node.name);
  if (typeof Reflect.get(math, name) !== 'function') return undefined;
  return FUNCTIONS.has(name) ? `"${name}" is a function: call it with arguments.` : `"${name}" is not available.`;
}

/** The value as JSON, or undefined if it is not finite. Numbers lose the noise of the 16th digit (0.1 + 0.2). */
function toJson(math: MathJsInstance, value: unknown): unknown {
  if (typeof value === 'number') return Number.isFinite(value) ? tidy(value) : undefined;
  if (typeof value === 'boolean' || typeof value === 'string') return value;
  if (math.isMatrix(value)) return toJson(math, value.toArray());
  if (Array.isArray(value)) {
    const items = value.map((item) => toJson(math, item));
    return items.includes(undefined) ? undefined : items;
  }
  if (math.isResultSet(value)) return toJson(math, value.entries.at(-1));
  if (typeof value === 'object' && value !== null) return math.format(value, { precision: 14 });
  return undefined;
}

function tidy(value: number): number {
  // Adding zero turns -0 into 0: JSON has no -0.
  return (Number.isSafeInteger(value) ? value : Number(value.toPrecision(15))) + 0;
}
