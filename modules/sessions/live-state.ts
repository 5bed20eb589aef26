/**
 * Live state of sessions, served from the fast store. What it holds is that of one version of the session, and a version is
 * served without asking the database only where no turn is open, it was the present one less than a second ago, and nothing
 * newer was heard.
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
  /** What `render` makes of the session as it stands now, or stood within the last second. Throws 404. */
  read(ref: SessionRef, render: (view: SessionView) => object): Promise<object>;
  /** Asks the database the next time: who has changed a session here reads its own writing. */
  forget(ref: SessionRef): void;
  /** Takes what the store has of a session whose content is gone. */
  erase(ref: SessionRef): Promise<void>;
}

interface SessionRef {
  caller: Pick<Caller, 'tenantId' | 'workspaceId'>;
  sessionId: string;
}

/** A version that the database has named lately. */
interface Known {
  version: string;
  stopHearing: () => void;
}

const storedState = z.object({
  version: z.string(),
  /** No turn is open: nothing but a user's act changes it. */
  isAtRest: z.boolean(),
  /** What was rendered, through JSON: what is answered is JSON. */
  body: z.custom<object>((value) => typeof value === 'object' && value !== null),
});
type Stored = z.output<typeof storedState>;

const MOST_KNOWN = 5000;

/** Reads sessions through the store. What it knows of versions is this process's. */
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
      // What was heard while the store answered has made it unknown.
      if (isKnown && stored?.version === isKnown.version && known.peek(name) === isKnown) return stored.body;
      const askedAtMs = performance.now();
      // It takes several statements: status and messages are of one moment.
      const found = await db.withTenantSnapshot(tenantId, async (tx) => {
        const now = await findVersion(tx, { id: sessionId, workspaceId });
        if (stored?.version === now.version) return { now, ...stored };
        const view = await readSession(tx, caller, sessionId);
        return { now, body: render(view), isAtRest: !view.state.facts.has_open_turn };
      });
      const { version, run_id } = found.now;
      const ids = run_id === null ? [sessionId] : [sessionId, run_id];
      const { body, isAtRest } = found;
      // While a turn is open its version is asked for each time: whoever has seen more of it on a stream is never shown less here.
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
