/** Tools' own JSON Schemas (draft 2020-12 and draft-07): checked at registration, then applied to every call. */
import { beginningOf } from '../core/content.ts';
import type { ErrorObject } from 'ajv';
import { LRUCache } from 'lru-cache';
import type { FieldError } from '../core/errors.ts';
import { sha256 } from '../core/ids.ts';
import { ARGUMENT_DEPTH } from '../core/tool.ts';
import { createCompiler, TOO_SLOW, type CompileSchema } from './compile-schema.ts';
import { isTimeLimit, runOnCpu } from './run-bounded.ts';
import { isSmall } from './schema-size.ts';

const MAX_SCHEMA_BYTES = 256 * 1024;
const MAX_SCHEMA_DEPTH = 64;
const MAX_PATTERN_LENGTH = 500;
const MAX_CACHED = 500;
const MAX_ERRORS = 20;
/** How long a schema that took too long to compile is not tried again: the machine may just have been busy. */
const SLOW_MS = 60_000;
/** Some patterns make one match take hours, as do long lists held against each other; no honest call needs this long. */
const VALIDATE_MS = 1000;
/** Values of a schema times those that it checks, below which a check needs no time limit (60 µs): a few ms at most. */
const SMALL_WORK = 100_000;
/** Of CPU, for all that is checked together, such as the calls of an answer: one by one, they block the process. */
const TOGETHER_MS = 2000;

interface Checks {
  /** The faults of `args`; empty if they fit. Nothing is coerced, filled in or removed. Never throws. */
  validateArguments: (schema: Record<string, unknown>, args: unknown) => FieldError[];
  /** The faults of a tool's `input_schema`; empty if it is an object schema that compiles, within limits. */
  checkSchema: (schema: unknown) => FieldError[];
  /** The faults of an answer by any schema, and those of such a schema; empty if there are none. */
  validateAnswer: (schema: Record<string, unknown>, value: unknown) => FieldError[];
  checkAnswerSchema: (schema: unknown) => FieldError[];
}

export interface ArgumentValidator extends Checks {
  /** The same checks for what belongs together and shares a time limit: what is left when it is over gets a fault. */
  together: (limitMs?: number) => Checks;
}

/** Caches compiled schemas by content, so that equal ones of many tools and versions share a validator. */
export function createArgumentValidator(options: { compileMs?: number } = {}): ArgumentValidator {
  const compileAnew = createCompiler(options.compileMs);
  const cache = new LRUCache<string, ReturnType<CompileSchema>>({ max: MAX_CACHED });
  // Cached definitions keep the same schema objects from call to call.
  const keys = new WeakMap<object, string>();
  const keyOf = (schema: object) => {
    const key = keys.get(schema) ?? sha256(JSON.stringify(schema)).toString('base64');
    keys.set(schema, key);
    return key;
  };
  const compile: CompileSchema = (schema) => {
    const key = keyOf(schema);
    const known = cache.get(key);
    if (known) return known;
    const compiled = compileAnew(schema);
    const isTooSlow = 'fault' in compiled && compiled.fault === TOO_SLOW;
    cache.set(key, compiled, isTooSlow ? { ttl: SLOW_MS } : {});
    return compiled;
  };
  const checks: Checks = {
    validateArguments: (schema, args) => faultsOf(compile, schema, { what: 'arguments', value: args }),
    checkSchema: (schema) => faultsOfSchema(compile, schema, 'object'),
    validateAnswer: (schema, value) => faultsOf(compile, schema, { what: 'answer', value }),
    checkAnswerSchema: (schema) => faultsOfSchema(compile, schema, 'any'),
  };
  return { ...checks, together: (limitMs = TOGETHER_MS) => sharingTime(checks, limitMs) };
}

function sharingTime(checks: Checks, limitMs: number): Checks {
  let leftMs = limitMs;
  const inTime =
    <A extends unknown[]>(check: (...args: A) => FieldError[]) =>
    (...args: A): FieldError[] => {
      if (leftMs <= 0)
        return [{ path: '', message: '/: was not checked, as what came before it took too long to check' }];
      const before = process.cpuUsage();
      try {
        return check(...args);
      } finally {
        // Not by the clock: on a busy machine, or a stopped one, checks take long that have done next to nothing.
        const { user, system } = process.cpuUsage(before);
        leftMs -= (user + system) / 1000;
      }
    };
  return {
    validateArguments: inTime(checks.validateArguments),
    checkSchema: inTime(checks.checkSchema),
    validateAnswer: inTime(checks.validateAnswer),
    checkAnswerSchema: inTime(checks.checkAnswerSchema),
  };
}

function faultsOf(
  compile: CompileSchema,
  schema: Record<string, unknown>,
  { what, value }: { what: 'arguments' | 'answer'; value: unknown },
): FieldError[] {
  const shape = checkShape(value, { what, maxDepth: ARGUMENT_DEPTH });
  if (shape) return [shape];
  const compiled = compile(schema);
  const which = what === 'arguments' ? "The tool's input_schema" : 'The schema';
  if ('fault' in compiled) return [{ path: '', message: `${which} is unusable: ${compiled.fault}` }];
  try {
    const valid = isSmall(value, SMALL_WORK / compiled.values)
      ? compiled.validate(value)
      : runOnCpu(() => compiled.validate(value), VALIDATE_MS);
    return valid ? [] : describe(compiled.validate.errors ?? []);
  } catch (error) {
    const why = isTimeLimit(error)
      ? 'took too long to check (see the patterns and the long lists in its schema)'
      : 'could not be checked';
    return [{ path: '', message: `/: ${why}` }];
  }
}

function faultsOfSchema(compile: CompileSchema, schema: unknown, of: 'object' | 'any'): FieldError[] {
  if (!isRecord(schema)) return [{ path: '', message: 'must be a JSON Schema object' }];
  const shape = checkShape(schema, { what: 'schema', maxDepth: MAX_SCHEMA_DEPTH });
  if (shape) return [shape];
  if (Buffer.byteLength(JSON.stringify(schema)) > MAX_SCHEMA_BYTES) {
    return [{ path: '', message: `must be at most ${MAX_SCHEMA_BYTES} bytes of JSON` }];
  }
  if (of === 'object' && schema['type'] !== 'object') {
    return [{ path: 'type', message: 'must be "object": a tool takes named arguments' }];
  }
  const patterns = patternFaults(schema, '');
  if (patterns.length > 0) return patterns;
  const compiled = compile(schema);
  return 'fault' in compiled ? [{ path: '', message: compiled.fault }] : [];
}

function describe(errors: ErrorObject[]): FieldError[] {
  return errors.slice(0, MAX_ERRORS).map((error) => {
    const pointer = error.instancePath === '' ? '/' : error.instancePath;
    return { path: dotted(error.instancePath), message: `${pointer}: ${wording(error)}` };
  });
}

function wording(error: ErrorObject): string {
  const params: Record<string, unknown> = error.params;
  const text = error.message ?? 'is not valid';
  if (error.keyword === 'enum') return `must be one of ${cut(JSON.stringify(params['allowedValues']))}`;
  if (error.keyword === 'const') return `must be ${cut(JSON.stringify(params['allowedValue']))}`;
  const unknown = params['additionalProperty'] ?? params['unevaluatedProperty'];
  return typeof unknown === 'string' ? `must not have the property "${cut(unknown)}"` : cut(text);
}

function dotted(pointer: string): string {
  const parts = pointer.split('/').slice(1);
  return parts.map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~')).join('.');
}

function cut(text: string): string {
  return text.length > 300 ? `${beginningOf(text, 300)}…` : text;
}

/** Refuses too deep nesting, and `__proto__` at any depth: code that copies such objects would change prototypes. */
function checkShape(root: unknown, limit: { what: string; maxDepth: number }): FieldError | undefined {
  let level: unknown[] = [root];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > limit.maxDepth) return { path: '', message: `/: ${limit.what} nested deeper than ${limit.maxDepth}` };
    const objects = level.filter((item) => typeof item === 'object' && item !== null);
    if (objects.some((item) => Object.hasOwn(item, '__proto__'))) {
      return { path: '', message: `/: ${limit.what} must not have a property "__proto__"` };
    }
    level = objects.flatMap((item): unknown[] => Object.values(item));
  }
  return undefined;
}

/** Patterns that are too long, wherever they may stand; `checkShape` bounds the depth. */
function patternFaults(node: unknown, path: string): FieldError[] {
  if (typeof node !== 'object' || node === null) return [];
  const faults: FieldError[] = [];
  for (const [key, value] of Object.entries(node)) {
    const here = path === '' ? key : `${path}.${key}`;
    const patterns =
      key === 'pattern' ? [value] : key === 'patternProperties' && isRecord(value) ? Object.keys(value) : [];
    if (patterns.some((pattern) => typeof pattern === 'string' && pattern.length > MAX_PATTERN_LENGTH)) {
      faults.push({ path: here, message: `a pattern must be at most ${MAX_PATTERN_LENGTH} characters` });
    }
    faults.push(...patternFaults(value, here));
  }
  return faults;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
