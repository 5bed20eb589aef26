/** What an agent remembers: the kinds of entries, their states, and where they come from. */
import { z } from 'zod';
import { beginningOf } from '../content.ts';

/** As the documents write them; taken in any case. */
export const MEMORY_TYPES = ['SHORT_TERM', 'EPISODIC', 'SEMANTIC', 'PROCEDURAL'] as const;
export type MemoryType = (typeof MEMORY_TYPES)[number];

/** `disputed` entries are recalled with that mark; `superseded` and `archived` ones are not recalled. */
export const MEMORY_STATUSES = ['active', 'superseded', 'disputed', 'archived'] as const;
export type MemoryStatus = (typeof MEMORY_STATUSES)[number];

/** Who said it first. What a tool or the web has said is not trusted. */
export const MEMORY_ORIGINS = ['user', 'agent', 'tool', 'web', 'memory'] as const;
export type MemoryOrigin = (typeof MEMORY_ORIGINS)[number];

/** How contradictions are looked for when something is written. */
export const CONFLICT_CHECKS = ['off', 'rules', 'model'] as const;
export type ConflictCheck = (typeof CONFLICT_CHECKS)[number];

/** Whose memories a turn is given: all of its agent's, those of its user, those of its thread; and what is in spaces that let the agent in. */
export const MEMORY_SCOPES = ['agent', 'user', 'thread', 'space'] as const;
export type MemoryScopeName = (typeof MEMORY_SCOPES)[number];

/** Whether what was said there may be acted upon without asking (docs/memory.md). */
export function isTrusted(origin: MemoryOrigin): boolean {
  return origin === 'user' || origin === 'agent';
}

export const memoryType = z
  .string()
  .transform((name) => name.toUpperCase())
  .pipe(z.enum(MEMORY_TYPES))
  .meta({ type: 'string', enum: [...MEMORY_TYPES] });

/** The kinds of metadata that recall reads; the rest is the client's own. */
interface ReadMetadata {
  /** Whose words they are: a name. */
  speaker?: string | undefined;
  /** `user` or `assistant`, in a conversation. */
  role?: string | undefined;
  /** When it was said or happened. */
  occurredAt?: Date | undefined;
  /** The conversation that it was said in. */
  conversation?: string | undefined;
  /** `true`, or `tags` with `profile` or `instruction`: always loaded. */
  isProfile: boolean;
}

/** What recall reads of an entry's metadata. */
export function readMetadata(metadata: Readonly<Record<string, unknown>>): ReadMetadata {
  const text = (...names: string[]) =>
    names.map((name) => metadata[name]).find((value): value is string => typeof value === 'string' && value !== '');
  const tags: unknown[] = Array.isArray(metadata['tags']) ? metadata['tags'] : [];
  const conversation = CONVERSATIONS.map((name) => metadata[name]).find(isName);
  return {
    speaker: text('speaker', 'author', 'name'),
    role: text('role', 'source'),
    occurredAt: occurredAtOf(metadata),
    conversation: conversation === undefined ? undefined : beginningOf(conversation.toString(), 200),
    isProfile: metadata['profile'] === true || PROFILE_TAGS.some((tag) => tags.includes(tag)),
  };
}

/** When it was said or happened, by its metadata. */
export function occurredAtOf(metadata: Readonly<Record<string, unknown>>): Date | undefined {
  for (const name of TIMES) {
    const at = timeIn(metadata[name]);
    if (at) return at;
  }
  return undefined;
}

/** As clients that come from elsewhere name them. */
const TIMES = ['occurred_at', 'timestamp', 'date', 'time', 'created_at'];
const CONVERSATIONS = ['thread_id', 'conversation_id', 'session_id', 'conversation', 'session'];

/** Beyond this a number counts milliseconds, and beyond a thousand times that microseconds. */
const MOST_SECONDS = 100_000_000_000;

/** RFC 3339, another way in which a day is written with its year, or seconds, milliseconds or microseconds since 1970. */
function timeIn(value: unknown): Date | undefined {
  if (typeof value !== 'string' && typeof value !== 'number') return undefined;
  if (typeof value === 'string' && !/\d{4}/.test(value)) return undefined;
  const at = new Date(typeof value === 'string' ? value : millisecondsOf(value));
  return isYearOfFour(at) ? at : undefined;
}

function millisecondsOf(count: number): number {
  if (Math.abs(count) < MOST_SECONDS) return count * 1000;
  return Math.abs(count) < MOST_SECONDS * 1000 ? count : count / 1000;
}

/** Whether it is a time that RFC 3339 can write. */
function isYearOfFour(at: Date): boolean {
  const year = at.getUTCFullYear();
  return year >= 1 && year <= 9999;
}

function isName(value: unknown): value is string | number {
  return (typeof value === 'string' && value !== '') || typeof value === 'number';
}

const PROFILE_TAGS = ['profile', 'instruction', 'preference'];
