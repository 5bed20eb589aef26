/** `ext:<id>` in place of an id: what a client calls something of its own. */
import { z } from 'zod';
import type { Caller } from '../../core/caller.ts';
import { externalId } from '../../core/user-metadata.ts';
import type { Context } from '../../modules/governance/context.ts';
import { requireThreadId } from '../../modules/conversations/threads.ts';
import { requireAgentId } from '../../modules/agents/external-ids.ts';
import { lowerUuid } from '../../lib/is-uuid.ts';
import { idParam } from './validate.ts';

const PREFIX = 'ext:';
/** Of what is asked for, its part and its fields among the levels: no id stands lower. */
const DEEPEST = 6;

/** Stands in what was asked for until it is looked up, before the handler sees it. */
class ExternalId {
  readonly kind: keyof typeof LOOKUPS;
  readonly name: string;
  constructor(kind: keyof typeof LOOKUPS, name: string) {
    this.kind = kind;
    this.name = name;
    made += 1;
  }
}

const LOOKUPS = { agent: requireAgentId, thread: requireThreadId };

/** How many there have been: most requests have none, and are not looked through. */
let made = 0;

/** The id of an agent, or what the client calls it. A handler gets the id alone (`withIds`). */
export const agentIdParam = idOr('agent', idParam, 'must be a UUID, or ext: and an external id');

/** The same of a thread. */
export const threadIdParam = idOr('thread', idParam, 'must be a UUID, or ext: and an external id');

const anyName = z.string().min(1).max(200).overwrite(lowerUuid);

/** The same where an agent may be called otherwise, too. */
export const agentNameParam = idOr('agent', anyName, 'must have 1 to 200 characters');

/** The same where a conversation may be one of the client's own, too. */
export const threadNameParam = idOr('thread', anyName, 'must have 1 to 200 characters');

/** `ext:<id>` alone; gives the name. */
export const externalIdParam = z
  .string()
  .startsWith(PREFIX)
  .transform((text) => text.slice(PREFIX.length))
  .pipe(externalId);

function idOr(kind: keyof typeof LOOKUPS, plain: z.ZodType<string>, message: string): z.ZodType<string, string> {
  const named = z
    .string()
    .transform((text, refinement) => {
      const isNamed = text.startsWith(PREFIX);
      const parsed = isNamed ? externalIdParam.safeParse(text) : plain.safeParse(text);
      if (parsed.success) return isNamed ? new ExternalId(kind, parsed.data) : parsed.data;
      refinement.addIssue({ code: 'custom', message });
      return z.NEVER;
    })
    .meta({ type: 'string', description: `Its id, or \`${PREFIX}\` and its external id.` });
  return named as unknown as z.ZodType<string, string>;
}

/** What a request asks for, with ids alone; `read` parses it. Throws 404 for a name that nobody has given. */
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

/** An object that schemas have made, and not a moment or the like. */
function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
