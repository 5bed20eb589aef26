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

/** All names by which events can be requested: types, families, and `*`. */
export const EVENT_NAMES: ReadonlySet<string> = new Set([
  '*',
  ...TYPES,
  ...TYPES.map((type) => type.split('.')[0] ?? ''),
  ...Object.keys(WORDS),
]);

/** Adds the words of requested families, by which types are matched (`commit_run`). */
export function withWords(names: readonly string[]): string[] {
  return [...new Set(names.flatMap((name) => [name, ...(WORDS[name] ?? [])]))];
}

/** The names as requested, without the words added for families. */
export function withoutWords(names: readonly string[]): string[] {
  const brought = new Set(names.flatMap((name) => WORDS[name] ?? []));
  return names.filter((name) => !brought.has(name));
}
