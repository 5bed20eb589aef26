/**
 * Expressions in CEL (https://cel.dev) over JSON, made safe for authors who are not trusted. No library can be stopped by
 * a clock, so everything is bounded ahead: the source, its tree, the functions it may call, and, from the tree and the
 * size of the input, the work of an evaluation.
 */
import { messageOf } from './errors.ts';
import { Environment, type ASTNode } from '@marcbachmann/cel-js';
import { RE2JS } from 're2js';
import { LIMITS } from './limits.ts';

export type CelOutcome<T> = { ok: true; value: T } | { ok: false; error: string };

/** A condition: evaluates to true or false, or to an error, and never throws. */
export interface Condition {
  test(input: Record<string, unknown>): CelOutcome<boolean>;
}

/** An expression of any type: evaluates to JSON, or to an error, and never throws. */
export interface Expression {
  evaluate(input: Record<string, unknown>): CelOutcome<unknown>;
}

/** What a variable of two readings is given as. */
export interface TwoReadings {
  /** Where it is asked for as such: `output == "yes"`. */
  plain: unknown;
  /** Where one of its fields is asked for: `output.message`. */
  fields: unknown;
}

export interface CelVariables {
  /** Names of variables that hold JSON objects. */
  objects: readonly string[];
  /** Names of variables that hold text. */
  texts: readonly string[];
  /** Names of variables that hold lists of numbers. */
  lists?: readonly string[];
  /** Names of variables that hold numbers. */
  numbers?: readonly string[];
  /** Names of variables of two readings. */
  readings?: readonly string[];
  /** An object that stands for one of its own fields where no field is asked of it: `tool == "pay"`. */
  bare?: Readonly<Record<string, string>>;
}

export type CompileCondition = (source: string) => CelOutcome<Condition>;
export type CompileExpression = (source: string) => CelOutcome<Expression>;

/** Whatever makes text or lists that grow with each use is left out: no `map`, `join`, `split`, `bind`. */
const FUNCTIONS: ReadonlySet<string> = new Set(
  (
    'has size type dyn int uint double string bool ' +
    'contains startsWith endsWith matches indexOf substring trim lowerAscii upperAscii'
  ).split(' '),
);
const MACROS = new Set(['all', 'exists', 'exists_one', 'filter']);

/** Prepares the compiler for these variables. Conditions are compiled once and tested often. */
export function celCompiler(variables: CelVariables): CompileCondition {
  const compile = compilerOf(variables);
  return (source) => {
    const compiled = compile(source);
    if (!compiled.ok) return compiled;
    const { type, evaluate } = compiled.value;
    if (type !== 'bool' && type !== 'dyn') return fault(`gives ${type} instead of bool`);
    return {
      ok: true,
      value: {
        test(input) {
          const outcome = evaluate(input);
          if (!outcome.ok) return outcome;
          const { value } = outcome;
          return typeof value === 'boolean' ? { ok: true, value } : fault(`gives ${typeof value} instead of bool`);
        },
      },
    };
  };
}

/** The same for expressions whose value is JSON of any type. */
export function celExpressions(variables: CelVariables): CompileExpression {
  const compile = compilerOf(variables);
  return (source) => {
    const compiled = compile(source);
    if (!compiled.ok) return compiled;
    const { evaluate } = compiled.value;
    const asJson = (outcome: CelOutcome<unknown>) => (outcome.ok ? toJson(outcome.value) : outcome);
    return { ok: true, value: { evaluate: (input) => asJson(evaluate(input)) } };
  };
}

interface Compiled {
  type: string;
  evaluate: (input: Record<string, unknown>) => CelOutcome<unknown>;
}

function compilerOf(variables: CelVariables): (source: string) => CelOutcome<Compiled> {
  const running: Running = { regexSteps: 0, patterns: new Map() };
  const environment = prepare(variables, running);
  return (source) => {
    if (source.length > LIMITS.celSourceChars) return fault(`is longer than ${LIMITS.celSourceChars} characters`);
    try {
      const parsed = environment.parse(source);
      const shape = examine(parsed.ast, variables);
      const checked = parsed.check();
      if (!checked.valid) return fault(describe(checked.error));
      const evaluate = (given: Record<string, unknown>): CelOutcome<unknown> => {
        const input = { ...given, ...readingsOf(variables, given) };
        const tooMuch = excess(shape, input);
        if (tooMuch) return fault(tooMuch);
        running.regexSteps = LIMITS.celRegexSteps;
        running.patterns = shape.patterns;
        try {
          return { ok: true, value: parsed({ ...input, ...bareValues(variables, given) }) as unknown };
        } catch (error) {
          return fault(describe(error));
        }
      };
      return { ok: true, value: { type: String(checked.type), evaluate } };
    } catch (error) {
      return fault(describe(error));
    }
  };
}

/** CEL's whole numbers are bigints, and its maps may have keys of other types. */
function toJson(value: unknown): CelOutcome<unknown> {
  try {
    const text = JSON.stringify(value, (_key, item: unknown) => (typeof item === 'bigint' ? Number(item) : item));
    return text === undefined ? fault('gives no JSON') : { ok: true, value: JSON.parse(text) as unknown };
  } catch (error) {
    return fault(describe(error));
  }
}

/** Of the condition that is being tested; one is tested at a time, without a pause. */
interface Running {
  /** Steps that its patterns may still take. */
  regexSteps: number;
  patterns: Patterns;
}

/** The patterns of a condition, compiled with it. */
type Patterns = ReadonlyMap<string, RE2JS>;

function prepare(variables: CelVariables, running: Running): Environment {
  const environment = new Environment({
    homogeneousAggregateLiterals: false,
    limits: {
      maxAstNodes: LIMITS.celNodes,
      maxDepth: LIMITS.celDepth,
      maxListElements: LIMITS.celNodes,
      maxMapEntries: LIMITS.celNodes,
      maxCallArguments: 4,
    },
  });
  for (const name of variables.objects) environment.registerVariable(name, 'map');
  for (const name of variables.texts) environment.registerVariable(name, 'string');
  for (const name of variables.lists ?? []) environment.registerVariable(name, 'list');
  for (const name of Object.keys(variables.bare ?? {})) environment.registerVariable(bareName(name), 'string');
  for (const name of variables.numbers ?? []) environment.registerVariable(name, 'dyn');
  for (const name of variables.readings ?? []) {
    environment.registerVariable(name, 'dyn');
    environment.registerVariable(bareName(name), 'dyn');
  }
  const test = (text: string, pattern: string) => testPattern(text, pattern, running);
  environment.registerFunction(`string.${LINEAR_MATCHES}(string): bool`, test);
  // JSON has one kind of number, so whole and broken ones are calculated with alike.
  for (const [sign, calculate] of Object.entries(ARITHMETIC)) {
    const mixed = (left: number | bigint, right: number | bigint) => calculate(Number(left), Number(right));
    environment.registerOperator(`double ${sign} int`, mixed);
    environment.registerOperator(`int ${sign} double`, mixed);
  }
  environment.registerOperator('double % double', (left: number, right: number) => left % right);
  return environment;
}

const ARITHMETIC: Record<string, (left: number, right: number) => number> = {
  '+': (left, right) => left + right,
  '-': (left, right) => left - right,
  '*': (left, right) => left * right,
  '/': (left, right) => left / right,
  '%': (left, right) => left % right,
};

/** The library's own `matches` uses JavaScript's backtracking engine and cannot be replaced: calls are renamed to ours. */
const LINEAR_MATCHES = 'linearMatches';
const bareName = (name: string) => `bare_${name}`;

/** Patterns are literals, compiled while the expression is checked, so that none is met here for the first time. */
function testPattern(text: string, pattern: string, running: Running): boolean {
  const compiled = running.patterns.get(pattern);
  if (!compiled) throw new Error('the pattern of matches() must be a text in quotes');
  running.regexSteps -= (text.length + 1) * compiled.programSize();
  if (running.regexSteps < 0) throw new Error('matches() would take too long on a text of this length');
  return compiled.matcher(text).find();
}

function compilePattern(pattern: string): RE2JS {
  if (pattern.length > LIMITS.celPatternChars) {
    throw new Error(`a pattern of matches() is longer than ${LIMITS.celPatternChars} characters`);
  }
  return RE2JS.compile(pattern);
}

/** What the work of an evaluation follows from. */
interface Shape {
  nodes: number;
  /** How deep macros stand in each other. */
  loops: number;
  /** Elements of literal lists, and how often a list may have been lengthened by `+`. */
  literals: number;
  sums: number;
  patterns: Map<string, RE2JS>;
}

/** Walks the tree: refuses what is not allowed, and renames calls and fields to what the evaluation needs. */
function examine(root: ASTNode, variables: CelVariables): Shape {
  const shape: Shape = { nodes: 0, loops: 0, literals: 0, sums: 0, patterns: new Map() };
  const { objects, texts, lists = [], numbers = [], readings = [] } = variables;
  const known = new Set([...objects, ...texts, ...lists, ...numbers, ...readings]);
  visit({ node: root, shape, variables, known, depth: 0 });
  return shape;
}

interface Visit {
  node: ASTNode;
  shape: Shape;
  variables: CelVariables;
  known: ReadonlySet<string>;
  /** Macros around the node. */
  depth: number;
}

function visit(at: Visit): void {
  const { node, shape, variables, depth } = at;
  shape.nodes += 1;
  switch (node.op) {
    case 'value':
      return;
    case 'id':
      if (isReadTwice(variables, node.args)) rename(node, bareName(node.args));
      return;
    case '.':
    case '[]': {
      const [object] = node.args;
      // A field of the object, and not the object as such.
      if (object.op === 'id') shape.nodes += 1;
      else visit({ ...at, node: object });
      if (node.op === '[]') visit({ ...at, node: node.args[1] });
      return;
    }
    case 'call':
    case 'rcall':
      return visitCall(at, node);
    case 'list':
    case 'map': {
      const items = node.args.flat();
      shape.literals += items.length;
      if (depth > 0 && items.some(({ op }) => op !== 'value')) {
        throw new Error('a list within a macro may hold constants only');
      }
      return items.forEach((item) => visit({ ...at, node: item }));
    }
    case '+':
      if (depth > 0) throw new Error('"+" cannot be used within a macro');
      shape.sums += 1;
      return node.args.forEach((part) => visit({ ...at, node: part }));
    default:
      return [node.args].flat().forEach((part) => typeof part === 'object' && visit({ ...at, node: part }));
  }
}

function visitCall(at: Visit, node: Extract<ASTNode, { op: 'call' | 'rcall' }>): void {
  const { shape, depth } = at;
  const [name] = node.args;
  const receiver = node.op === 'rcall' ? node.args[1] : undefined;
  const args = node.op === 'rcall' ? node.args[2] : node.args[1];
  if (receiver) visit({ ...at, node: receiver });
  if (MACROS.has(name) && receiver) {
    const [variable, ...body] = args;
    if (variable?.op === 'id' && at.known.has(variable.args)) {
      throw new Error(`"${variable.args}" is a variable already`);
    }
    shape.loops = Math.max(shape.loops, depth + 1);
    return body.forEach((part) => visit({ ...at, node: part, depth: depth + 1 }));
  }
  if (!FUNCTIONS.has(name)) throw new Error(`there is no function "${name}"`);
  if (name === 'matches') {
    const [pattern] = args;
    if (pattern?.op !== 'value' || typeof pattern.args !== 'string') {
      throw new Error('the pattern of matches() must be a text in quotes');
    }
    shape.patterns.set(pattern.args, compilePattern(pattern.args));
    (node.args as unknown as unknown[])[0] = LINEAR_MATCHES;
  }
  // `has(tool.name)` asks for the field of the object itself.
  args.forEach((part) => visit({ ...at, node: part }));
}

function isReadTwice({ bare = {}, readings = [] }: CelVariables, name: string): boolean {
  return Object.hasOwn(bare, name) || readings.includes(name);
}

function rename(node: ASTNode, to: string): void {
  (node as { args: unknown }).args = to;
}

/** Both readings of variables that have two; those that are the same count once. */
function readingsOf({ readings = [] }: CelVariables, given: Record<string, unknown>): Record<string, unknown> {
  const entries = readings.flatMap((name): [string, unknown][] => {
    const { plain, fields } = given[name] as TwoReadings;
    return [[name, fields], ...(plain === fields ? [] : [[bareName(name), plain] as [string, unknown]])];
  });
  return Object.fromEntries(entries);
}

function bareValues(
  { bare = {}, readings = [] }: CelVariables,
  input: Record<string, unknown>,
): Record<string, unknown> {
  const entries = Object.entries(bare).map(([name, field]) => {
    const object = (input[name] ?? {}) as Record<string, unknown>;
    return [bareName(name), object[field]] as const;
  });
  const plain = readings.map((name) => [bareName(name), (input[name] as TwoReadings).plain] as const);
  return Object.fromEntries([...entries, ...plain]);
}

/** Says what is too much about an evaluation; undefined if it can be made. */
function excess(shape: Shape, input: Record<string, unknown>): string | undefined {
  const size = measure(input);
  if (size === null) return `the input is nested more deeply than ${LIMITS.celInputDepth} levels`;
  if (size.chars > LIMITS.celInputChars) return `the input is larger than ${LIMITS.celInputChars} characters`;
  const rounds = ((size.values + shape.literals) * (shape.sums + 1)) ** shape.loops;
  const work = shape.nodes * rounds * size.chars;
  return work > LIMITS.celWork ? 'the macros would take too long on an input of this size' : undefined;
}

/** Values and characters of a JSON value; null if it is nested too deeply to be looked at. */
function measure(value: unknown, depth = 0): { values: number; chars: number } | null {
  if (depth > LIMITS.celInputDepth) return null;
  if (typeof value === 'string') return { values: 1, chars: value.length + 2 };
  if (value === null || typeof value !== 'object') return { values: 1, chars: 8 };
  const total = { values: 1, chars: 2 };
  for (const [key, item] of Object.entries(value)) {
    const part = measure(item, depth + 1);
    if (!part) return null;
    total.values += part.values;
    total.chars += part.chars + key.length;
  }
  return total;
}

function fault(error: string): { ok: false; error: string } {
  return { ok: false, error };
}

function describe(error: unknown): string {
  const summary = (error as { summary?: unknown } | undefined)?.summary;
  const text = typeof summary === 'string' ? summary : messageOf(error);
  return text.replaceAll(LINEAR_MATCHES, 'matches').replaceAll('bare_', '').slice(0, 300);
}
