/**
 * What a CEL expression may contain, and what its evaluation can cost: from its tree, before evaluation, and from the size of
 * its input.
 */
import type { ASTNode } from '@marcbachmann/cel-js';
import { RE2JS } from 're2js';
import { compareByPlace, type Scale } from './cel-scale.ts';
import { LIMITS } from './limits.ts';

/** A variable with two readings. */
export interface TwoReadings {
  /** Its value where the variable itself is used: `output == "yes"`. */
  plain: unknown;
  /** Its value where a field is used: `output.message`. */
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
  /** Names of variables with two readings. */
  readings?: readonly string[];
  /** Variables that stand for one of their own fields when no field is named: `tool == "pay"`. */
  bare?: Readonly<Record<string, string>>;
  /** Texts that are values of an ordered scale. */
  scale?: Scale;
}

/** Allowed functions. None of those whose text or lists grow with each use: no `map`, `join`, `split`, `bind`. */
const FUNCTIONS: ReadonlySet<string> = new Set(
  (
    'has size type dyn int uint double string bool ' +
    'contains startsWith endsWith matches indexOf substring trim lowerAscii upperAscii'
  ).split(' '),
);
const MACROS = new Set(['all', 'exists', 'exists_one', 'filter']);

/** Replaces the library's `matches`, which uses JavaScript's backtracking engine and cannot be overridden: calls are renamed. */
export const LINEAR_MATCHES = 'linearMatches';
/** The internal name of a variable where it stands for one of its fields, or for its plain reading. */
export const bareName = (name: string) => `bare_${name}`;

/** Figures that bound the work of an evaluation. */
interface Shape {
  nodes: number;
  /** Nesting depth of macros. */
  loops: number;
  /** Elements of literal lists, and the number of `+` that may have lengthened a list. */
  literals: number;
  sums: number;
  patterns: Map<string, RE2JS>;
}

/** Walks the tree: rejects forbidden nodes, and renames calls and fields as the evaluation needs them. */
export function examine(root: ASTNode, variables: CelVariables): Shape {
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
  if (variables.scale) compareByPlace(node, variables.scale);
  switch (node.op) {
    case 'value':
      return;
    case 'id':
      if (isReadTwice(variables, node.args)) rename(node, bareName(node.args));
      return;
    case '.':
    case '[]': {
      const [object] = node.args;
      // A field of the object, not the object itself.
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
  // `has(tool.name)` refers to the field of the object itself.
  args.forEach((part) => visit({ ...at, node: part }));
}

function compilePattern(pattern: string): RE2JS {
  if (pattern.length > LIMITS.celPatternChars) {
    throw new Error(`a pattern of matches() is longer than ${LIMITS.celPatternChars} characters`);
  }
  return RE2JS.compile(pattern);
}

function isReadTwice({ bare = {}, readings = [] }: CelVariables, name: string): boolean {
  return Object.hasOwn(bare, name) || readings.includes(name);
}

function rename(node: ASTNode, to: string): void {
  (node as { args: unknown }).args = to;
}

/** Why an evaluation would be too expensive; undefined if it may run. */
export function excess(shape: Shape, input: Record<string, unknown>): string | undefined {
  const size = measure(input);
  if (size === null) return `the input is nested more deeply than ${LIMITS.celInputDepth} levels`;
  if (size.chars > LIMITS.celInputChars) return `the input is larger than ${LIMITS.celInputChars} characters`;
  const rounds = ((size.values + shape.literals) * (shape.sums + 1)) ** shape.loops;
  const work = shape.nodes * rounds * size.chars;
  return work > LIMITS.celWork ? 'the macros would take too long on an input of this size' : undefined;
}

/** Number of values and characters of a JSON value; null if it is nested too deeply to measure. */
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
