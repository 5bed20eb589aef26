/** Templates of HTTP tools: text with `{{input.path}}` and `{{secret:name}}` (docs/tools.md). */
import type { SecretValues } from './secret-values.ts';

/** A part of a template: plain text, a secret, or a value of the call's arguments. */
type TemplatePart = { text: string } | { secret: string } | { input: readonly string[] };

/** Values for a template. Filled-in values are never searched for references. */
export interface TemplateValues {
  input: Record<string, unknown>;
  secrets: SecretValues;
}

const REFERENCE = /\{\{([^{}]*)\}\}/g;
const SECRET = /^secret:([^{}\s]{1,200})$/;
const INPUT = /^input((?:\.[A-Za-z0-9_-]{1,100}){0,20})$/;

/** The parts of a template, or its fault. */
export function parseTemplate(template: string): TemplatePart[] | { fault: string } {
  const parts: TemplatePart[] = [];
  let from = 0;
  for (const match of template.matchAll(REFERENCE)) {
    const [whole, inner = ''] = match;
    if (match.index > from) parts.push({ text: template.slice(from, match.index) });
    from = match.index + whole.length;
    const reference = inner.trim();
    const [, secret] = SECRET.exec(reference) ?? [];
    const [, path] = INPUT.exec(reference) ?? [];
    if (secret !== undefined) parts.push({ secret });
    else if (path !== undefined) parts.push({ input: path.split('.').slice(1) });
    else return { fault: `{{${reference.slice(0, 100)}}} is neither {{input.…}} nor {{secret:…}}` };
  }
  if (from < template.length) parts.push({ text: template.slice(from) });
  const open = parts.some((part) => 'text' in part && /\{\{|\}\}/.test(part.text));
  return open ? { fault: 'has {{ or }} that belong to no reference' } : parts;
}

/** Fills a template: a lone input reference keeps its type, anything else is text. Undefined if that value is missing. */
export function fillTemplate(template: string, values: TemplateValues): unknown {
  const parts = parseTemplate(template);
  if ('fault' in parts) return template;
  const [first] = parts;
  if (parts.length === 1 && first && 'input' in first) return lookUp(values.input, first.input);
  return parts.map((part) => asText(valueOf(part, values))).join('');
}

/** The value of one part; undefined if the input lacks it. */
export function valueOf(part: TemplatePart, { input, secrets }: TemplateValues): unknown {
  if ('text' in part) return part.text;
  return 'secret' in part ? secrets.fill(`{{secret:${part.secret}}}`) : lookUp(input, part.input);
}

/** A value as part of a text: empty if missing, JSON for objects and lists. */
export function asText(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Own properties only: inherited ones are not part of the input. */
function lookUp(root: unknown, path: readonly string[]): unknown {
  let value = root;
  for (const key of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}
