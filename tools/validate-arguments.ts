/** Tools' own JSON Schemas (draft 2020-12 and draft-07): checked at registration, then applied to every call. */
import { beginningOf } from '../core/content.ts';
import { messageOf } from '../core/errors.ts';
import { Ajv } from 'ajv';
import type { ErrorObject, Options, ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import ajvFormats from 'ajv-formats';
import { LRUCache } from 'lru-cache';
import type { FieldError } from '../core/errors.ts';
import { sha256 } from '../core/ids.ts';
import { ARGUMENT_DEPTH } from '../core/tool.ts';
import { compilePattern } from './linear-pattern.ts';
import { isTimeLimit, runBounded } from './run-bounded.ts';

const MAX_SCHEMA_BYTES = 256 * 1024;
const MAX_SCHEMA_DEPTH = 64;
const MAX_PATTERN_LENGTH = 500;
const MAX_CACHED = 500;
const MAX_ERRORS = 20;
const COMPILE_MS = 2000;
/** Some patterns make one match take hours; no honest call needs this long. */
const VALIDATE_MS = 1000;
/** For all calls of an answer together: checking them one by one blocks the process. */
const ANSWER_MS = 2000;

export interface ArgumentValidator {
  /** The faults of `args`; empty if they fit. Nothing is coerced, filled in or removed. Never throws. */
  validateArguments: (schema: Record<string, unknown>, args: unknown) => FieldError[];
  /** The same for the calls of one answer, which share a time limit: calls left when it is over get a fault. */
  validateTogether: () => ArgumentValidator['validateArguments'];
  /** The faults of a tool's `input_schema`; empty if it is an object schema that compiles, within limits. */
  checkSchema: (schema: unknown) => FieldError[];
  /** The faults of an answer by any schema, and those of such a schema; empty if there are none. */
  validateAnswer: (schema: Record<string, unknown>, value: unknown) => FieldError[];
  checkAnswerSchema: (schema: unknown) => FieldError[];
}

/** Caches compiled schemas by content, so that equal ones of many tools and versions share a validator. */
export function createArgumentValidator(): ArgumentValidator {
  const compiler = createCompiler();
  const cache = new LRUCache<string, Compiled>({ max: MAX_CACHED });
  // Cached definitions keep the same schema objects from call to call.
  const keys = new WeakMap<object, string>();
  const keyOf = (schema: object) => {
    const key = keys.get(schema) ?? sha256(JSON.stringify(schema)).toString('base64');
    keys.set(schema, key);
    return key;
  };
  const compile: Compile = (schema) => {
    const key = keyOf(schema);
    const compiled = cache.get(key) ?? compileAnew(schema, compiler);
    // Not cached if too slow: the machine may just be busy.
    if (!('fault' in compiled && compiled.fault === TOO_SLOW)) cache.set(key, compiled);
    return compiled;
  };
  const validateArguments: ArgumentValidator['validateArguments'] = (schema, args) =>
    faultsOf(compile, schema, { what: 'arguments', value: args });
  return {
    validateArguments,
    validateTogether: () => sharingTime(validateArguments),
    checkSchema: (schema) => faultsOfSchema(compile, schema, 'object'),
    validateAnswer: (schema, value) => faultsOf(compile, schema, { what: 'answer', value }),
    checkAnswerSchema: (schema) => faultsOfSchema(compile, schema, 'any'),
  };
}

function sharingTime(validate: ArgumentValidator['validateArguments']): ArgumentValidator['validateArguments'] {
  let leftMs = ANSWER_MS;
  return (schema, args) => {
    if (leftMs <= 0)
      return [{ path: '', message: '/: was not checked, as the calls before it took too long to check' }];
    const startedAt = performance.now();
    try {
      return validate(schema, args);
    } finally {
      leftMs -= performance.now() - startedAt;
    }
  };
}

type Compile = (schema: Record<string, unknown>) => Compiled;

function faultsOf(
  compile: Compile,
  schema: Record<string, unknown>,
  { what, value }: { what: 'arguments' | 'answer'; value: unknown },
): FieldError[] {
  const shape = checkShape(value, { what, maxDepth: ARGUMENT_DEPTH });
  if (shape) return [shape];
  const compiled = compile(schema);
  const which = what === 'arguments' ? "The tool's input_schema" : 'The schema';
  if ('fault' in compiled) return [{ path: '', message: `${which} is unusable: ${compiled.fault}` }];
  try {
    const valid = compiled.isBounded
      ? compiled.validate(value)
      : runBounded(() => compiled.validate(value), VALIDATE_MS);
    return valid ? [] : describe(compiled.validate.errors ?? []);
  } catch (error) {
    const why = isTimeLimit(error) ? 'took too long to check (see the patterns in its schema)' : 'could not be checked';
    return [{ path: '', message: `/: ${why}` }];
  }
}

function faultsOfSchema(compile: Compile, schema: unknown, of: 'object' | 'any'): FieldError[] {
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

const TOO_SLOW = 'takes too long to compile';

/** `isBounded`: no part of the schema is slow to check, so it needs no time limit (60 µs a call). */
type Compiled = { validate: ValidateFunction; isBounded: boolean } | { fault: string };

/** Regular expressions, and keywords that compare items; `$ref` may recurse into them. */
const SLOW_KEYWORDS = /"(?:pattern|patternProperties|format|uniqueItems|propertyNames|\$ref|\$dynamicRef)":/;

function compileAnew(schema: Record<string, unknown>, compileAs: CompileAs): Compiled {
  const declared = schema['$schema'];
  if (declared === undefined) {
    // By default MCP uses 2020-12; many older servers mean draft-07 without declaring it.
    const modern = compileAs('2020-12', schema);
    const older = 'fault' in modern ? compileAs('draft-07', schema) : modern;
    return 'fault' in older ? modern : older;
  }
  const uri = typeof declared === 'string' ? declared : '';
  if (/^https?:\/\/json-schema\.org\/draft\/2020-12\/schema#?$/.test(uri)) {
    return compileAs('2020-12', schema);
  }
  if (/^https?:\/\/json-schema\.org\/draft-0[67]\/schema#?$/.test(uri)) {
    return compileAs('draft-07', schema);
  }
  return { fault: '$schema must be that of draft 2020-12 or draft-07' };
}

type Draft = '2020-12' | 'draft-07';

const META: Options = { strict: false, logger: false, allErrors: false };

/** Makes an instance whose meta-schema is compiled, which happens with its first schema. */
function compiledMeta(draft: Draft): Ajv {
  const meta = draft === '2020-12' ? new Ajv2020(META) : new Ajv(META);
  void meta.validateSchema({});
  return meta;
}

type CompileAs = (draft: Draft, schema: Record<string, unknown>) => Compiled;

/** Compiling a meta-schema takes 50 to 100 ms, so each is compiled once, when first needed. */
function createCompiler(): CompileAs {
  const metas: Partial<Record<Draft, Ajv>> = {};
  const metaOf = (draft: Draft): Ajv => (metas[draft] ??= compiledMeta(draft));
  return (draft, schema) => {
    const { $schema: _, ...body } = schema;
    // Outside the time limit, so that the first schema does not pay for it.
    const meta = metaOf(draft);
    try {
      return runBounded<Compiled>(() => {
        if (meta.validateSchema(body) !== true) return { fault: `not valid ${draft}: ${meta.errorsText(meta.errors)}` };
        return { validate: fresh(draft).compile(body), isBounded: !SLOW_KEYWORDS.test(JSON.stringify(body)) };
      }, COMPILE_MS);
    } catch (error) {
      if (isTimeLimit(error)) return { fault: TOO_SLOW };
      return { fault: `does not compile: ${messageOf(error)}` };
    }
  };
}

/**
 * One instance per schema: an instance remembers every `$id`, so that a shared one would let one tenant's schema refer
 * to another's. Without a loader a remote `$ref` does not compile. `ownProperties`: inherited properties such as
 * `constructor` do not count as given. `inlineRefs: false`: nested references would multiply the code.
 */
function fresh(draft: Draft): Ajv {
  const options: Options = {
    strict: false,
    logger: false,
    allErrors: true,
    ownProperties: true,
    inlineRefs: false,
    meta: false,
    validateSchema: false,
    code: { regExp: LINEAR },
  };
  const ajv = draft === '2020-12' ? new Ajv2020(options) : new Ajv(options);
  ajvFormats.default(ajv);
  return ajv;
}

/** `code` is only used for validators written to files, which ours never are. */
const LINEAR = Object.assign((pattern: string) => compilePattern(pattern), { code: 'compilePattern' });

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
