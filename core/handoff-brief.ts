/** The part of a handoff's brief that has what was handed over, as a line of JSON. Pure. */
import { canonicalJson } from './canonical-json.ts';

const HEAD = 'Context, as data:';
/** The parts that hold shared fragments. */
const PARTS = ['memory_fragments', 'relevant_memories'] as const;

export function contextPart(summary: Record<string, unknown>): string {
  return `${HEAD}\n${canonicalJson(summary)}`;
}

/** Ids of the shared fragments that briefs in this text give. */
export function fragmentsIn(text: string): string[] {
  const ids: string[] = [];
  withoutFragments(text, (id) => {
    ids.push(id);
    return false;
  });
  return ids;
}

/** The text without the fragments that `isLeftOut` names: the brief as if they had not been given. */
export function withoutFragments(text: string, isLeftOut: (id: string) => boolean): string {
  if (!text.includes(`${HEAD}\n{`)) return text;
  const lines = text.split('\n');
  return lines.map((line, at) => (lines[at - 1] === HEAD ? lineWithout(line, isLeftOut) : line)).join('\n');
}

function lineWithout(line: string, isLeftOut: (id: string) => boolean): string {
  const summary = readObject(line);
  let isSame = true;
  const left = PARTS.flatMap((name) => {
    const given = summary[name];
    if (!Array.isArray(given)) return [];
    const kept = given.filter((fragment) => !idsOf(fragment).some(isLeftOut));
    isSame &&= kept.length === given.length;
    return [[name, kept]];
  });
  return isSame ? line : canonicalJson({ ...summary, ...Object.fromEntries(left) });
}

/** Empty for a line that is no object. */
function readObject(line: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(line);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

/** A message may look like a brief, with anything as an id. */
function idsOf(fragment: unknown): string[] {
  const id = isObject(fragment) ? fragment['id'] : undefined;
  return typeof id === 'string' && UUID.test(id) ? [id] : [];
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
