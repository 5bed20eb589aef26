/** Event families: types that begin with the same word. Some families have another name and several words. */
import { EVENT_TYPES } from './events.ts';
import { NOTICE_TYPES } from './notices.ts';

/** Families whose name differs from the words their types begin with. */
const WORDS: Readonly<Record<string, readonly string[]>> = {
  turn: ['message'],
  intent: ['policy'],
  wait: ['approval', 'input', 'client_tools', 'signal', 'timer'],
  context: ['memory', 'checkpoint'],
  check: ['answer', 'reflection'],
  graph: ['node'],
  dag: ['workflow', 'task', 'handoff'],
};

const TYPES = [...EVENT_TYPES, ...NOTICE_TYPES];

/** All families. */
const FAMILIES = [
  ...new Set([
    ...TYPES.map((type) => wordOf(type)).filter((word) => !Object.values(WORDS).flat().includes(word)),
    ...Object.keys(WORDS),
  ]),
].toSorted();

/** All names by which events can be requested: types, families, and `*`. */
export const EVENT_NAMES: ReadonlySet<string> = new Set(['*', ...TYPES, ...TYPES.map(wordOf), ...Object.keys(WORDS)]);

/** Says of a name that is none what there is: the types of its family, or the families. */
export function toldOfUnknownName(name: string): string {
  const words = withWords([wordOf(name)]);
  const types = TYPES.filter((type) => words.includes(wordOf(type)));
  if (types.length > 0) return `is no type or family of events; ${wordOf(name)} has ${types.join(', ')}`;
  return `is no type or family of events; the families are ${FAMILIES.join(', ')}`;
}

/** Adds the words of requested families, by which types are matched (`commit_run`). */
export function withWords(names: readonly string[]): string[] {
  return [...new Set(names.flatMap((name) => [name, ...(WORDS[name] ?? [])]))];
}

/** The names as requested, without the words added for families. */
export function withoutWords(names: readonly string[]): string[] {
  const brought = new Set(names.flatMap((name) => WORDS[name] ?? []));
  return names.filter((name) => !brought.has(name));
}

function wordOf(name: string): string {
  return name.split('.')[0] ?? '';
}
