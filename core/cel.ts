/**
 * CEL expressions (https://cel.dev) over JSON, safe for untrusted authors. No library can be stopped by a clock, so everything
 * is bounded beforehand: the source, its tree, the functions, and, from the tree and the input's size, the work of an
 * evaluation.
 */
import { messageOf } from './errors.ts';
import { Environment } from '@marcbachmann/cel-js';
import type { RE2JS } from 're2js';
import { bareName, examine, excess, LINEAR_MATCHES, type CelVariables, type TwoReadings } from './cel-shape.ts';
import { placeName, placesIn } from './cel-scale.ts';
import { LIMITS } from './limits.ts';

export type CelOutcome<T> = { ok: true; value: T } | { ok: false; error: string };

/** Evaluates to true, false or an error; never throws. */
export interface Condition {
  test(input: Record<string, unknown>): CelOutcome<boolean>;
}

/** Evaluates to JSON or an error; never throws. */
export interface Expression {
  evaluate(input: Record<string, unknown>): CelOutcome<unknown>;
}

type CompileCondition = (source: string) => CelOutcome<Condition>;
type CompileExpression = (source: string) => CelOutcome<Expression>;

/** Creates a compiler for these variables. Conditions are compiled once and tested often. */
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

/** Creates a compiler for expressions that give JSON of any type. */
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
          const places = variables.scale && placesIn(variables.scale, given);
          return { ok: true, value: parsed({ ...input, ...bareValues(variables, given), ...places }) as unknown };
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

/** Converts CEL values to JSON: its integers are bigints, and its map keys may be of other types. */
function toJson(value: unknown): CelOutcome<unknown> {
  try {
    const text = JSON.stringify(value, (_key, item: unknown) => (typeof item === 'bigint' ? Number(item) : item));
    return text === undefined ? fault('gives no JSON') : { ok: true, value: JSON.parse(text) as unknown };
  } catch (error) {
    return fault(describe(error));
  }
}

/** State of the running evaluation. Only one runs at a time, without a pause. */
interface Running {
  /** Steps left for its patterns. */
  regexSteps: number;
  patterns: Patterns;
}

/** Compiled patterns of a condition. */
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
  for (const path of variables.scale?.paths ?? []) environment.registerVariable(placeName(path), 'int');
  for (const name of variables.numbers ?? []) environment.registerVariable(name, 'dyn');
  for (const name of variables.readings ?? []) {
    environment.registerVariable(name, 'dyn');
    environment.registerVariable(bareName(name), 'dyn');
  }
  const test = (text: string, pattern: string) => testPattern(text, pattern, running);
  environment.registerFunction(`string.${LINEAR_MATCHES}(string): bool`, test);
  // JSON has one kind of number, so integers and fractions can be mixed in arithmetic.
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

/** Matches a pattern. Patterns are literals and were compiled with the expression, so each is known here. */
function testPattern(text: string, pattern: string, running: Running): boolean {
  const compiled = running.patterns.get(pattern);
  if (!compiled) throw new Error('the pattern of matches() must be a text in quotes');
  running.regexSteps -= (text.length + 1) * compiled.programSize();
  if (running.regexSteps < 0) throw new Error('matches() would take too long on a text of this length');
  return compiled.matcher(text).find();
}

/** Both readings of variables that have two, for measuring; identical ones count once. */
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

function fault(error: string): { ok: false; error: string } {
  return { ok: false, error };
}

function describe(error: unknown): string {
  const summary = (error as { summary?: unknown } | undefined)?.summary;
  const text = typeof summary === 'string' ? summary : messageOf(error);
  return text.replaceAll(LINEAR_MATCHES, 'matches').replaceAll('bare_', '').slice(0, 300);
}
