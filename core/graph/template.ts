/** Expressions in graphs: conditions of edges, and `{{…}}` in texts and inputs. CEL over the same variables. */
import { celCompiler, celExpressions, type CelOutcome, type Expression } from '../cel.ts';
import type { TwoReadings } from '../cel-shape.ts';
import { LIMITS } from '../limits.ts';

/** Variables of expressions. */
export interface GraphVariables extends Record<string, unknown> {
  /** The turn's input: as text, or by its fields. */
  input: TwoReadings;
  /** The output of the previous node. */
  output: TwoReadings;
  state: Record<string, unknown>;
  /** Which visit of the node this is in the turn. */
  iteration: number;
}

const VARIABLES = { objects: ['state'], texts: [], numbers: ['iteration'], readings: ['input', 'output'] };

export const compileCondition = celCompiler(VARIABLES);
const compileExpression = celExpressions(VARIABLES);

/** A value with expressions in its texts. */
export interface Template {
  /** Whether it contains no expressions. */
  isPlain: boolean;
  /** Evaluates the expressions. A text that consists of one expression gets the type of its value. */
  render(variables: GraphVariables): CelOutcome<unknown>;
}

/** A fault of a template, and its path within it. */
interface TemplateFault {
  path: string;
  message: string;
}

type CompiledTemplate = { ok: true; value: Template } | { ok: false; faults: TemplateFault[] };
type Render = (variables: GraphVariables) => unknown;

/** Compiles a value of any depth. */
export function compileTemplate(value: unknown): CompiledTemplate {
  const faults: TemplateFault[] = [];
  const found = { expressions: 0 };
  const render = compileValue(value, { path: '', faults, found });
  if (faults.length > 0) return { ok: false, faults };
  return { ok: true, value: { isPlain: found.expressions === 0, render: (variables) => attempt(render, variables) } };
}

/** An expression that could not be evaluated. */
class Unrendered extends Error {}

function attempt(render: Render, variables: GraphVariables): CelOutcome<unknown> {
  try {
    const value = render(variables);
    const size = typeof value === 'string' ? value.length : JSON.stringify(value ?? null).length;
    if (size > LIMITS.renderedChars) return { ok: false, error: `gives more than ${LIMITS.renderedChars} characters` };
    return { ok: true, value };
  } catch (error) {
    if (error instanceof Unrendered) return { ok: false, error: error.message };
    throw error;
  }
}

interface At {
  path: string;
  faults: TemplateFault[];
  found: { expressions: number };
}

function compileValue(value: unknown, at: At): Render {
  if (typeof value === 'string') return compileText(value, at);
  if (typeof value !== 'object' || value === null) return () => value;
  const inside = (key: string | number) => ({ ...at, path: `${at.path}.${key}` });
  if (Array.isArray(value)) {
    const items = value.map((item, index) => compileValue(item, inside(index)));
    return (variables) => items.map((item) => item(variables));
  }
  const fields = Object.entries(value).map(([key, item]) => [key, compileValue(item, inside(key))] as const);
  return (variables) => Object.fromEntries(fields.map(([key, item]) => [key, item(variables)]));
}

const EXPRESSION = /\{\{(.*?)\}\}/gs;

function compileText(text: string, at: At): Render {
  const parts: (string | Expression)[] = [];
  let end = 0;
  for (const match of text.matchAll(EXPRESSION)) {
    parts.push(text.slice(end, match.index));
    end = match.index + match[0].length;
    at.found.expressions += 1;
    const compiled = compileExpression((match[1] ?? '').trim());
    if (compiled.ok) parts.push(compiled.value);
    else at.faults.push({ path: at.path, message: `{{${match[1] ?? ''}}}: ${compiled.error}` });
  }
  const rest = text.slice(end);
  if (rest.includes('{{')) at.faults.push({ path: at.path, message: 'has a "{{" without its "}}"' });
  parts.push(rest);
  const [before, expression, after] = parts;
  const isWhole = parts.length === 3 && before === '' && after === '' && typeof expression === 'object';
  if (isWhole) return (variables) => valueOf(expression, variables);
  return (variables) =>
    parts.map((part) => (typeof part === 'string' ? part : textOfValue(valueOf(part, variables)))).join('');
}

function valueOf(expression: Expression, variables: GraphVariables): unknown {
  const outcome = expression.evaluate(variables);
  if (!outcome.ok) throw new Unrendered(outcome.error);
  return outcome.value;
}

/** A value inside a text: strings as they are, other values as JSON. */
export function textOfValue(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value ?? null);
}
