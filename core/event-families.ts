/** Families of events: what begins with the same word, and where a family has a name of its own, the words that it is of. */
import { EVENT_TYPES } from './events.ts';
import { NOTICE_TYPES } from './notices.ts';

/** Families whose types begin with other words than the family's name. */
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

/** All by which somebody can ask for events: their types, their families, and `*`. */
export const EVENT_NAMES: ReadonlySet<string> = new Set([
  '*',
  ...TYPES,
  ...TYPES.map((type) => type.split('.')[0] ?? ''),
  ...Object.keys(WORDS),
]);

/** The names with the words of their families, by which a type is found (`commit_run`). */
export function withWords(names: readonly string[]): string[] {
  return [...new Set(names.flatMap((name) => [name, ...(WORDS[name] ?? [])]))];
}

/** The names as they were asked for, without the words that their families bring. */
export function withoutWords(names: readonly string[]): string[] {
  const brought = new Set(names.flatMap((name) => WORDS[name] ?? []));
  return names.filter((name) => !brought.has(name));
}
