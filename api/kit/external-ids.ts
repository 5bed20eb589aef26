/** `ext:<id>` in place of an id: the client's own name for an object. */
import { z } from 'zod';
import type { Caller } from '../../core/caller.ts';
import { externalId } from '../../core/user-metadata.ts';
import type { Context } from '../../modules/governance/context.ts';
import { requireThreadId } from '../../modules/conversations/threads.ts';
import { requireAgentId } from '../../modules/agents/external-ids.ts';
import { threadIdInPath } from '../../modules/sessions/converse.ts';
import { lowerUuid } from '../../lib/is-uuid.ts';
import { idParam } from './validate.ts';

const PREFIX = 'ext:';
/** Levels of params, query and body to search, starting above them: no id is deeper. */
const DEEPEST = 6;

/** A placeholder for a name until it is looked up, before the handler runs. */
class ExternalId {
  readonly kind: keyof typeof LOOKUPS;
  readonly name: string;
  constructor(kind: keyof typeof LOOKUPS, name: string) {
    this.kind = kind;
    this.name = name;
    made += 1;
  }
}

const LOOKUPS = { agent: requireAgentId, thread: requireThreadId, front_end_thread: threadIdInPath };

/** How many were made: most requests have none and need no search. */
let made = 0;

/** `ext:<id>` only; gives the name. */
export const externalIdParam = z
  .string()
  .startsWith(PREFIX)
  .transform((text) => text.slice(PREFIX.length))
  .pipe(externalId);

/** An agent's id, or the client's name for it. Handlers only get ids (`withIds`). */
export const agentIdParam = idOr('agent', idParam, 'must be a UUID, or ext: and an external id');

/** The same for a thread. */
export const threadIdParam = idOr('thread', idParam, 'must be a UUID, or ext: and an external id');

/** An id in lower case, or any other name. */
export const nameOrId = z.string().min(1).max(200).overwrite(lowerUuid);

/** The same, where other names are allowed, too. */
export const agentNameParam = idOr('agent', nameOrId, 'must have 1 to 200 characters');

/** The same, where the client's own conversation ids are allowed, too. */
export const threadNameParam = idOr('thread', nameOrId, 'must have 1 to 200 characters');

/** The same where a front end's own name for a thread stands for it, too. */
export const threadPathParam = idOr(
  'thread',
  z
    .string()
    .min(1)
    .max(200)
    .transform((name) => new ExternalId('front_end_thread', name)),
  'must have 1 to 200 characters',
).describe("Its id, `ext:` and its external id, or a front end's own name for it.");

/** The same for a thread that may begin with the run: what it gives is for `threadOf`. */
export const newThreadParam = z
  .string()
  .refine((text) => [z.uuid(), externalIdParam].some((form) => form.safeParse(text).success), {
    error: 'must be a UUID, or ext: and an external id',
  })
  .overwrite((text) => (text.startsWith(PREFIX) ? text : text.toLowerCase()))
  .describe('Its id, or `ext:` and its external id: a thread that is not there yet begins with the run.');

/** A thread by its id, or by the client's own name. */
export function threadOf(named: string | null | undefined): { threadId?: string; threadName?: string } {
  if (typeof named !== 'string') return {};
  const name = externalIdParam.safeParse(named);
  return name.success ? { threadName: name.data } : { threadId: named };
}

function idOr(
  kind: keyof typeof LOOKUPS,
  plain: z.ZodType<string | ExternalId>,
  message: string,
): z.ZodType<string, string> {
  const named: z.ZodType<ExternalId, string> = externalIdParam.transform((name) => new ExternalId(kind, name));
  const either = z
    .string()
    .transform((text, refinement) => {
      const parsed = (text.startsWith(PREFIX) ? named : plain).safeParse(text);
      if (parsed.success) return parsed.data;
      refinement.addIssue({ code: 'custom', message });
      return z.NEVER;
    })
    .meta({ type: 'string', description: `Its id, or \`${PREFIX}\` and its external id.` });
  return either as unknown as z.ZodType<string, string>;
}

/** Parses a request with `read` and replaces names by ids. Throws 404 for an unknown name. */
export async function withIds<T>(
  context: Pick<Context, 'db'>,
  caller: Caller | undefined,
  read: () => Promise<T>,
): Promise<T> {
  const before = made;
  const asked = await read();
  if (made === before || !caller) return asked;
  const ids = new Map<ExternalId, string>();
  replaceNames(asked, (named) => ids.set(named, ''), 0);
  if (ids.size === 0) return asked;
  await context.db.withTenant(caller.tenantId, async (tx) => {
    for (const named of ids.keys()) ids.set(named, await LOOKUPS[named.kind](tx, caller, named.name));
  });
  return replaceNames(asked, (named) => ids.get(named), 0) as T;
}

function replaceNames(value: unknown, replace: (named: ExternalId) => unknown, depth: number): unknown {
  if (value instanceof ExternalId) return replace(value);
  if (depth === DEEPEST) return value;
  if (Array.isArray(value)) return value.map((item) => replaceNames(item, replace, depth + 1));
  if (!isPlain(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, replaceNames(item, replace, depth + 1)]));
}

/** Whether it is an object made by a schema, not a date or the like. */
function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
