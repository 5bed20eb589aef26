/** Memory entries: types, states and origins. */
import { z } from 'zod';

/** As in the documents; accepted in any case. */
export const MEMORY_TYPES = ['SHORT_TERM', 'EPISODIC', 'SEMANTIC', 'PROCEDURAL'] as const;
export type MemoryType = (typeof MEMORY_TYPES)[number];

/** `disputed` entries are recalled, marked as such; `superseded` and `archived` ones are not recalled. */
export const MEMORY_STATUSES = ['active', 'superseded', 'disputed', 'archived'] as const;
export type MemoryStatus = (typeof MEMORY_STATUSES)[number];

/** Who said it first. Tools and the web are not trusted. */
export const MEMORY_ORIGINS = ['user', 'agent', 'tool', 'web', 'memory'] as const;
export type MemoryOrigin = (typeof MEMORY_ORIGINS)[number];

/** How contradictions are detected when an entry is written. */
export const CONFLICT_CHECKS = ['off', 'rules', 'model'] as const;
export type ConflictCheck = (typeof CONFLICT_CHECKS)[number];

/** Whose memories a turn gets: all of its agent's, its user's, its thread's, or those in spaces that admit the agent. */
export const MEMORY_SCOPES = ['agent', 'user', 'thread', 'space'] as const;
export type MemoryScopeName = (typeof MEMORY_SCOPES)[number];

/** Whether content of this origin may be acted upon without asking (docs/memory.md). */
export function isTrusted(origin: MemoryOrigin): boolean {
  return origin === 'user' || origin === 'agent';
}

export const memoryType = z
  .string()
  .transform((name) => name.toUpperCase())
  .pipe(z.enum(MEMORY_TYPES))
  .meta({ type: 'string', enum: [...MEMORY_TYPES] });

/** Metadata that recall uses; the rest is the client's own. */
interface ReadMetadata {
  /** The speaker's name. */
  speaker?: string | undefined;
  /** `user` or `assistant`, for conversations. */
  role?: string | undefined;
  /** When it was said or happened. */
  occurredAt?: Date | undefined;
  /** The conversation in which it was said, at its full length. */
  conversation?: string | undefined;
  /** Always loaded: `true`, or `tags` with `profile` or `instruction`. */
  isProfile: boolean;
}

/** Reads the metadata that recall uses. */
export function readMetadata(metadata: Readonly<Record<string, unknown>>): ReadMetadata {
  const text = (...names: string[]) =>
    names.map((name) => metadata[name]).find((value): value is string => typeof value === 'string' && value !== '');
  const tags: unknown[] = Array.isArray(metadata['tags']) ? metadata['tags'] : [];
  const conversation = CONVERSATIONS.map((name) => metadata[name]).find(isName);
  return {
    speaker: text('speaker', 'author', 'name'),
    role: text('role', 'source'),
    occurredAt: occurredAtOf(metadata),
    conversation: conversation?.toString(),
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

/** Field names used by clients of other systems. */
const TIMES = ['occurred_at', 'timestamp', 'date', 'time', 'created_at'];
const CONVERSATIONS = ['thread_id', 'conversation_id', 'session_id', 'conversation', 'session'];

/** Larger numbers are milliseconds; a thousand times larger, microseconds. */
const MOST_SECONDS = 100_000_000_000;

/** Parses RFC 3339, other notations of a day with its year, or seconds, milliseconds or microseconds since 1970. */
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

/** Whether RFC 3339 can express the time. */
function isYearOfFour(at: Date): boolean {
  const year = at.getUTCFullYear();
  return year >= 1 && year <= 9999;
}

function isName(value: unknown): value is string | number {
  return (typeof value === 'string' && value !== '') || typeof value === 'number';
}

const PROFILE_TAGS = ['profile', 'instruction', 'preference'];
