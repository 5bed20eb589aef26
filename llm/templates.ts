/** References in a workflow example: `{name}` to a part of the question, `{{steps.0.output.path}}` to an earlier result. */
import type { Captures } from './match-text.ts';

interface Sources {
  captures: Captures;
  /** One result per completed step, in order. */
  outputs: readonly unknown[];
}

/** A reference to nothing; the message names it. */
export class UnresolvedReference extends Error {
  constructor(reference: string) {
    super(`${reference} refers to nothing`);
    this.name = 'UnresolvedReference';
  }
}

/** Fills values of any depth. A string that is just one reference to a result keeps its type. Throws `UnresolvedReference`. */
export function fillTemplate(value: unknown, sources: Sources): unknown {
  if (typeof value === 'string') return fillString(value, sources);
  if (Array.isArray(value)) return value.map((item) => fillTemplate(item, sources));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, fillTemplate(item, sources)]));
}

/** Fills a text; numbers are rounded to remove floating-point noise. Throws `UnresolvedReference`. */
export function fillText(template: string, sources: Sources): string {
  return template.replace(REFERENCE, (whole, ...groups: (string | undefined)[]) => {
    const [step, path, name = ''] = groups;
    if (step === undefined) return Object.hasOwn(sources.captures, name) ? (sources.captures[name] ?? whole) : whole;
    return asText(lookUp(whole, { step, path }, sources));
  });
}

/** Names of the `{name}` references in a value, which the question must provide. */
export function referencedNames(value: unknown): string[] {
  const text = typeof value === 'string' ? value : JSON.stringify(value ?? null);
  return [...text.matchAll(REFERENCE)].flatMap((match) => match[3] ?? []);
}

/** A value in readable form. */
export function asText(value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number' && Number.isFinite(value)) return String(Number(value.toPrecision(12)));
  return JSON.stringify(value) ?? 'null';
}

const REFERENCE = /\{\{\s*steps\.(\d+)\.output((?:[.[][^{}]*?)?)\s*\}\}|\{(\w+)\}/g;
const ONE_REFERENCE = /^\{\{\s*steps\.(\d+)\.output((?:[.[][^{}]*?)?)\s*\}\}$/;

function fillString(text: string, sources: Sources): unknown {
  const [whole, step, path] = ONE_REFERENCE.exec(text) ?? [];
  return whole !== undefined && step !== undefined ? lookUp(whole, { step, path }, sources) : fillText(text, sources);
}

function lookUp(reference: string, where: { step: string; path: string | undefined }, sources: Sources): unknown {
  const keys = (where.path ?? '').split(/[.[\]]+/).filter((key) => key !== '');
  let value: unknown = sources.outputs[Number(where.step)];
  for (const key of keys) value = memberOf(value, key);
  if (value === undefined) throw new UnresolvedReference(reference);
  return value;
}

function memberOf(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
  return (value as Record<string, unknown>)[key];
}
