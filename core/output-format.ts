/** Answers that have to fit a schema: which schemas hold, how an answer is read, and what a model is told. Pure. */
import { holdsInfinity, textOf } from './content.ts';
import type { AgentDefinition } from './definition.ts';
import type { FieldError } from './errors.ts';
import { canonicalJson } from './canonical-json.ts';
import { LIMITS } from './limits.ts';

type Schema = Record<string, unknown>;

/** How the value of an answer is read: the JSON that it is, or the text itself. */
export const READINGS = ['json', 'text'] as const;
export type Reading = (typeof READINGS)[number];

/** What the final answers of a turn have to fit. */
interface OutputFormat {
  /** All of them hold. */
  schemas: readonly Schema[];
  /** Times that the model is asked again. */
  retries: number;
}

type Definition = Pick<AgentDefinition, 'guardrail_config' | 'output_schema'>;

/** A turn's own schema takes the place of its agent's; rails hold in any case. Undefined where any answer will do. */
export function outputFormat(definition: Definition, ofTurn: Schema | undefined): OutputFormat | undefined {
  const rails = definition.guardrail_config?.output_rails ?? [];
  const own = ofTurn ?? definition.output_schema;
  const schemas = [...(own ? [own] : []), ...rails.map(({ config }) => config.schema)];
  if (schemas.length === 0) return undefined;
  const retries = rails.map(({ config }) => config.max_retries ?? LIMITS.outputRetries);
  return { schemas, retries: Math.max(...(retries.length > 0 ? retries : [LIMITS.outputRetries])) };
}

type Validate = (schema: Schema, value: unknown) => FieldError[];

type CheckedAnswer = { fits: true; as: Reading } | { fits: false; errors: FieldError[] };

/** Whether the text of an answer fits all schemas: as the JSON that it is, with or without a fence, or else as a text. */
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

function parseAnswer(text: string): { value: unknown } | undefined {
  const trimmed = text.trim();
  for (const source of [trimmed, FENCED.exec(trimmed)?.[1]]) {
    if (source === undefined) continue;
    try {
      return { value: JSON.parse(source) as unknown };
    } catch {
      // The next form, or none: the model is told.
    }
  }
  return undefined;
}

/** The value of an answer that has been found to fit. */
export function dataOf(content: readonly { type: string }[], as: Reading): unknown {
  const text = textOf(content);
  return as === 'text' ? text : parseAnswer(text)?.value;
}

/** What a system prompt says of the schemas that an agent's answers have to fit; undefined where there are none. */
export function formatInstructions(definition: Definition): string | undefined {
  const format = outputFormat(definition, undefined);
  return format && demand('Your final answer', format.schemas);
}

/** What a model reads after the message of a turn that has a schema of its own. */
export function turnInstructions(schema: Schema): string {
  return demand('Whatever form was asked for before: the final answer to this', [schema]);
}

function demand(what: string, schemas: readonly Schema[]): string {
  const list = schemas.map((schema) => canonicalJson(schema)).join('\n');
  return `${what} must be JSON alone, without other text, that fits ${schemas.length > 1 ? 'these JSON Schemas' : 'this JSON Schema'}:\n${list}`;
}

/** What a model reads after an answer that does not fit. */
export function correctionOf(errors: readonly FieldError[]): string {
  const list = errors.map(({ message }) => `- ${message}`).join('\n');
  return `Your answer does not fit the JSON Schema that it has to fit:\n${list}\nAnswer again, with the corrected JSON alone.`;
}

/** Error code of a turn whose answers never fitted. */
export const INVALID_OUTPUT = 'invalid_output';
