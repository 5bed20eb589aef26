/** Answers that must fit a schema: which schemas apply, how answers are parsed, and what models are told. Pure. */
import { holdsInfinity, textOf } from './content.ts';
import type { AgentDefinition } from './definition.ts';
import type { FieldError } from './errors.ts';
import { canonicalJson } from './canonical-json.ts';
import { LIMITS } from './limits.ts';

type Schema = Record<string, unknown>;

/** How the value of an answer is read: parsed as JSON, or as plain text. */
export const READINGS = ['json', 'text'] as const;
export type Reading = (typeof READINGS)[number];

/** Constraints on the final answers of a turn. */
interface OutputFormat {
  /** All of them apply. */
  schemas: readonly Schema[];
  /** How often the model is asked again. */
  retries: number;
}

type Definition = Pick<AgentDefinition, 'guardrail_config' | 'output_schema'>;

/** The schemas of a turn: its own, or else its agent's, and in any case the rails. Undefined if there are none. */
export function outputFormat(definition: Definition, ofTurn: Schema | undefined): OutputFormat | undefined {
  const rails = definition.guardrail_config?.output_rails ?? [];
  const own = ofTurn ?? definition.output_schema;
  const schemas = [...(own ? [own] : []), ...rails.map(({ config }) => config.schema)];
  if (schemas.length === 0) return undefined;
  const retries = rails.map(({ config }) => config.max_retries ?? LIMITS.outputRetries);
  return { schemas, retries: Math.max(...(retries.length > 0 ? retries : [LIMITS.outputRetries])) };
}

type Validate = (schema: Schema, value: unknown) => FieldError[];

export type CheckedAnswer = { fits: true; as: Reading } | { fits: false; errors: FieldError[] };

/** Checks the text of an answer against all schemas: parsed as JSON, with or without a fence, otherwise as plain text. */
export function checkAnswer(text: string, { schemas }: OutputFormat, validate: Validate): CheckedAnswer {
  const json = parseAnswer(text);
  if (json && holdsInfinity(json.value)) return { fits: false, errors: [TOO_LARGE] };
  const faultsOf = (value: unknown) => schemas.flatMap((schema) => validate(schema, value));
  const errors = json ? faultsOf(json.value) : [NO_JSON];
  if (errors.length === 0) return { fits: true, as: 'json' };
  if (text.trim() !== '' && faultsOf(text).length === 0) return { fits: true, as: 'text' };
  return { fits: false, errors: errors.slice(0, MOST_ERRORS) };
}

const NO_JSON: FieldError = { path: '', message: 'The answer is not JSON.' };
const TOO_LARGE: FieldError = { path: '', message: 'The answer has a number that is too large for a double.' };
const MOST_ERRORS = 20;
const FENCED = /^```(?:json|JSON)?[^\S\n]*\n([\s\S]*?)\n?```$/;

function parseAnswer(text: string): { source: string; value: unknown } | undefined {
  const trimmed = text.trim();
  for (const source of [trimmed, FENCED.exec(trimmed)?.[1]]) {
    if (source === undefined) continue;
    try {
      return { source, value: JSON.parse(source) as unknown };
    } catch {
      // Try the next reading; if none is left, the model is told.
    }
  }
  return undefined;
}

/** The JSON of an answer that was found to fit as JSON, as it is written. */
export const jsonOf = (text: string): string => parseAnswer(text)?.source ?? 'null';

/** The value of an answer that was found to fit. */
export function dataOf(content: readonly { type: string }[], as: Reading): unknown {
  const text = textOf(content);
  return as === 'text' ? text : parseAnswer(text)?.value;
}

/** The part of a system prompt about the schemas of answers; undefined if there are none. */
export function formatInstructions(definition: Definition): string | undefined {
  const format = outputFormat(definition, undefined);
  return format && demand('Your final answer', format.schemas);
}

/** Instructions to the model after the message of a turn with its own schema. */
export function turnInstructions(schema: Schema): string {
  return demand('Whatever form was asked for before: the final answer to this', [schema]);
}

function demand(what: string, schemas: readonly Schema[]): string {
  const list = schemas.map((schema) => canonicalJson(schema)).join('\n');
  return `${what} must be JSON alone, without other text, that fits ${schemas.length > 1 ? 'these JSON Schemas' : 'this JSON Schema'}:\n${list}`;
}

/** The correction that a model gets after an answer that does not fit. */
export function correctionOf(errors: readonly FieldError[]): string {
  const list = errors.map(({ message }) => `- ${message}`).join('\n');
  return `Your answer does not fit the JSON Schema that it has to fit:\n${list}\nAnswer again, with the corrected JSON alone.`;
}

/** Error code of a turn without any answer that fits. */
export const INVALID_OUTPUT = 'invalid_output';
