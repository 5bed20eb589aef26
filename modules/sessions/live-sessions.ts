/**
 * Live state of sessions, served from the fast store. An entry belongs to one version of the session. It is served without
 * asking the database only if no turn is open, the version was current less than a second ago, and nothing newer was heard.
 */
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import type { Caller } from '../../core/caller.ts';
import { notFound } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Tx } from '../../db/database.ts';
import { findSessionVersion, type SessionVersion } from '../../db/sessions.ts';
import type { Context } from '../governance/context.ts';
import type { LiveStore } from './live-store.ts';
import { readSession, type SessionView } from './session.ts';

export interface LiveSessions {
  /** What `render` returns for the session as it is now, or was within the last second. Throws 404. */
  read(ref: SessionRef, render: (view: SessionView) => object): Promise<object>;
  /** Makes the next read ask the database, so that those who changed a session here read their own writes. */
  forget(ref: SessionRef): void;
  /** Deletes the stored state of a session whose content was erased. */
  erase(ref: SessionRef): Promise<void>;
}

interface SessionRef {
  caller: Pick<Caller, 'tenantId' | 'workspaceId'>;
  sessionId: string;
}

/** A version recently confirmed by the database. */
interface Known {
  version: string;
  stopHearing: () => void;
}

const storedState = z.object({
  version: z.string(),
  /** No turn is open: only a user's act changes it. */
  isAtRest: z.boolean(),
  /** The rendered state, converted through JSON, since answers are JSON. */
  body: z.custom<object>((value) => typeof value === 'object' && value !== null),
});
type Stored = z.output<typeof storedState>;

const MOST_KNOWN = 5000;

/** Reads sessions through the store. Known versions are kept per process. */
export function createLiveSessions({ db, bus }: Context, store: LiveStore): LiveSessions {
  const known = new LRUCache<string, Known>({
    max: MOST_KNOWN,
    ttl: LIMITS.liveStateStaleMs,
    ttlAutopurge: true,
    dispose: ({ stopHearing }) => stopHearing(),
  });
  bus.onGap(() => known.clear());

  const remember = (name: string, version: string, { ids, ageMs }: { ids: readonly string[]; ageMs: number }) => {
    const forget = () => void known.delete(name);
    const stops = ids.map((id) =>
      bus.subscribe(id, ({ kind }) => {
        if (kind === 'advanced') forget();
      }),
    );
    const ttl = Math.max(1, LIMITS.liveStateStaleMs - ageMs);
    known.set(name, { version, stopHearing: () => stops.forEach((stop) => stop()) }, { ttl });
  };

  return {
    async read({ caller, sessionId }, render) {
      const { tenantId, workspaceId } = caller;
      const name = nameOf({ caller, sessionId });
      const isKnown = known.get(name);
      const stored = parse(await store.get(name));
      // If something was heard while the store answered, the version is no longer known.
      if (isKnown && stored?.version === isKnown.version && known.peek(name) === isKnown) return stored.body;
      const askedAtMs = performance.now();
      // A snapshot, since several statements read status and messages of the same moment.
      const found = await db.withTenantSnapshot(tenantId, async (tx) => {
        const now = await findVersion(tx, { id: sessionId, workspaceId });
        if (stored?.version === now.version) return { now, ...stored };
        const view = await readSession(tx, caller, sessionId);
        return { now, body: render(view), isAtRest: !view.state.facts.has_open_turn };
      });
      const { version, run_id } = found.now;
      const ids = run_id === null ? [sessionId] : [sessionId, run_id];
      const { body, isAtRest } = found;
      // During a turn the version is checked each time, so that this never shows less than a stream has shown.
      if (isAtRest) remember(name, version, { ids, ageMs: performance.now() - askedAtMs });
      if (body !== stored?.body) await store.set(name, JSON.stringify({ version, isAtRest, body } satisfies Stored));
      return body;
    },
    forget: (ref) => void known.delete(nameOf(ref)),
    async erase(ref) {
      const name = nameOf(ref);
      known.delete(name);
      await store.delete(name);
    },
  };
}

async function findVersion(tx: Tx, of: { id: string; workspaceId: string }): Promise<SessionVersion> {
  const now = await findSessionVersion(tx, of);
  if (!now) throw notFound('The session');
  return now;
}

function nameOf({ caller, sessionId }: SessionRef): string {
  return `${caller.tenantId}:${caller.workspaceId}:${sessionId}`;
}

function parse(text: string | undefined): Stored | undefined {
  if (text === undefined) return undefined;
  try {
    return storedState.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
