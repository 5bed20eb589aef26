/** Compiles foreign JSON Schemas (draft 2020-12 and draft-07), within limits of size and time. */
import { Ajv } from 'ajv';
import type { Options, ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import ajvFormats from 'ajv-formats';
import { messageOf } from '../core/errors.ts';
import { LIMITS } from '../core/limits.ts';
import { compilePattern } from './linear-pattern.ts';
import { isTimeLimit, runOnCpu } from './run-bounded.ts';
import { countSchema } from './schema-size.ts';

/** Far more than `LIMITS.schemaValues` need, unless the machine is very busy. */
const COMPILE_MS = 2000;

/** `values`: of the schema, by which each value that it checks may cost; infinite if it is slow beyond that. */
export type Compiled = { validate: ValidateFunction; values: number } | { fault: string };

export type CompileSchema = (schema: Record<string, unknown>) => Compiled;

/** The fault of a schema that takes too long here and now: it may pass on a machine that is less busy. */
export const TOO_SLOW = 'takes too long to compile';

/** Compiling a meta-schema takes 50 to 100 ms, so each is compiled once, when first needed. */
export function createCompiler(compileMs: number = COMPILE_MS): CompileSchema {
  const metas: Partial<Record<Draft, Ajv>> = {};
  const metaOf = (draft: Draft): Ajv => (metas[draft] ??= compiledMeta(draft));
  const compileAs: CompileAs = (draft, schema) => {
    const { $schema: _, ...body } = schema;
    // Outside the time limit, so that the first schema does not pay for it.
    const meta = metaOf(draft);
    try {
      return runOnCpu<Compiled>(() => {
        if (meta.validateSchema(body) !== true) return { fault: `not valid ${draft}: ${meta.errorsText(meta.errors)}` };
        return { validate: fresh(draft).compile(body), values: valuesOf(body) };
      }, compileMs);
    } catch (error) {
      if (isTimeLimit(error)) return { fault: TOO_SLOW };
      return { fault: `does not compile: ${messageOf(error)}` };
    }
  };
  return (schema) => {
    if (countSchema(schema).compiled > LIMITS.schemaValues)
      return {
        fault: `must have at most ${LIMITS.schemaValues} values, where patterns, $refs, dependentRequired and unevaluatedProperties count as more`,
      };
    return compileByDraft(schema, compileAs);
  };
}

function compileByDraft(schema: Record<string, unknown>, compileAs: CompileAs): Compiled {
  const declared = schema['$schema'];
  if (declared === undefined) {
    // By default MCP uses 2020-12; many older servers mean draft-07 without declaring it.
    const modern = compileAs('2020-12', schema);
    if (!('fault' in modern) || modern.fault === TOO_SLOW) return modern;
    const older = compileAs('draft-07', schema);
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

type CompileAs = (draft: Draft, schema: Record<string, unknown>) => Compiled;

const META: Options = { strict: false, logger: false, allErrors: false };

/** Makes an instance whose meta-schema is compiled, which happens with its first schema. */
function compiledMeta(draft: Draft): Ajv {
  const meta = draft === '2020-12' ? new Ajv2020(META) : new Ajv(META);
  void meta.validateSchema({});
  return meta;
}

/** Regular expressions, and keywords that compare items; `$ref` may recurse into them. */
const SLOW_KEYWORDS = /"(?:pattern|patternProperties|format|uniqueItems|propertyNames|\$ref|\$dynamicRef)":/;

function valuesOf(schema: Record<string, unknown>): number {
  return SLOW_KEYWORDS.test(JSON.stringify(schema)) ? Infinity : countSchema(schema).all;
}

/**
 * One instance per schema: an instance remembers every `$id`, so that a shared one would let one tenant's schema refer
 * to another's. Without a loader a remote `$ref` does not compile. `ownProperties`: inherited properties such as
 * `constructor` do not count as given. `inlineRefs: false`: nested references would multiply the code. `optimize: false`:
 * to shorten the code takes as long again as to write it. `loopEnum`: values of longer lists are no code, and cost none.
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
    loopEnum: 20,
    code: { regExp: LINEAR, optimize: false },
  };
  const ajv = draft === '2020-12' ? new Ajv2020(options) : new Ajv(options);
  ajvFormats.default(ajv);
  return ajv;
}

/** `code` is only used for validators written to files, which ours never are. */
const LINEAR = Object.assign((pattern: string) => compilePattern(pattern), { code: 'compilePattern' });
