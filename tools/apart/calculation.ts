/** Evaluates a mathematical expression by mathjs, with listed functions and plain syntax alone. */
import { createRequire } from 'node:module';
import type * as mathjs from 'mathjs';
import type { MathJsInstance, MathNode } from 'mathjs';
import type { ToolOutcome } from '../../core/tool.ts';
import { toolError } from '../builtin/builtin-type.ts';
import { isTimeLimit, runBounded } from '../run-bounded.ts';
import type { ApartAnswer } from './apart-answer.ts';

export interface Calculation {
  expression: string;
}

const MAX_RESULT_BYTES = 10_000;

/** The tool's outcome as JSON. To be called with mathjs loaded: the time for that is not the calculation's. */
export function calculateWithin({ expression }: Calculation, limitMs: number): ApartAnswer {
  try {
    return { json: JSON.stringify(runBounded(() => calculation(expression), limitMs)) };
  } catch (error) {
    if (isTimeLimit(error)) return { fault: 'too-slow', message: 'it takes too long' };
    throw error;
  }
}

/** The tool's outcome, however long it takes. */
export function calculation(expression: string): ToolOutcome {
  try {
    return evaluate(loadMath(), expression);
  } catch (error) {
    if (isTimeLimit(error)) throw error;
    return toolError('bad-expression', error instanceof Error ? error.message.slice(0, 500) : 'The expression is bad.');
  }
}

let loaded: MathJsInstance | undefined;

/** Loads mathjs with the first calculation, as its one bundled file: 0.2 s, where its thousand modules take 2 to 3 s. */
export function loadMath(): MathJsInstance {
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
