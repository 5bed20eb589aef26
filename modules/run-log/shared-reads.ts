/**
 * Shares reads within a process: equal requests at the same time are read once, and similar ones together, so that streams
 * that open or continue in the same moment cost few statements. Nothing is cached beyond that.
 */
import { isTerminal, type EventType } from '../../core/events.ts';
import { LIMITS } from '../../core/limits.ts';
import type { SessionPosition } from '../../core/session-position.ts';
import type { Database, Tx } from '../../db/database.ts';
import { listFollowedEvents, type FollowedLog, type FollowedPage, type LoggedEvent } from '../../db/events.ts';
import { findRunRefs, findRuns, type RunRef, type RunView } from '../../db/runs.ts';
import {
  findFollowedRuns,
  findSessionHeads,
  type FollowedPlace,
  type FollowedSession,
  type SessionHead,
} from '../../db/sessions.ts';
import { readTogether, type ReadsTogether } from '../../lib/read-together.ts';

export interface SharedReads {
  /** A run as shown by the API, read together with others of its tenant; undefined if it does not exist. */
  run: (tenantId: string, id: string) => Promise<RunView | undefined>;
  /** The same for callers that show nothing of it. */
  runRef: (tenantId: string, id: string) => Promise<RunRef | undefined>;
  /** A page of a run's log: each event is read once, however many streams are at the same position. */
  logPage: (asked: LogPageRequest) => Promise<LogPage>;
  /** The head of a session; undefined if it does not exist. */
  sessionHead: (tenantId: string, id: string) => Promise<SessionHead | undefined>;
  /** The run that a follower of a session reads next from a position on; undefined if there is no such session. */
  followedRun: (tenantId: string, from: SessionPlace) => Promise<FollowedSession | undefined>;
}

interface SessionPlace extends SessionPosition {
  sessionId: string;
}

export interface LogPageRequest {
  tenantId: string;
  runId: string;
  /** Only events with a higher sequence number. */
  after: number;
  /** Only this turn's events. */
  turnId?: string | undefined;
  /** Types of events to return; others are skipped. */
  types: readonly EventType[];
}

interface LogPage {
  events: LoggedEvent[];
  /** Where to continue, past events that are not shown. */
  lastSeq: number;
  /** Whether more can be read at once. */
  hasMore: boolean;
  /** Whether the run has ended, and this is its last page. */
  isOver: boolean;
}

const PAGE = 500;
const RUNS = { lanes: 2, most: 50 };
const PAGES = { lanes: 4, most: 50 };
const SESSIONS = { lanes: 2, most: 50 };

export function createSharedReads(db: Database): SharedReads {
  const runs = byName<Named, RunView>(RUNS);
  const refs = byName<Named, RunRef>(RUNS);
  const pages = byName<FollowedLog, FollowedPage>(PAGES);
  const heads = byName<Named, SessionHead>(SESSIONS);
  const followed = byName<FollowedPlace, FollowedSession>(SESSIONS);
  const once = <V>(tenantId: string, work: (tx: Tx) => Promise<V>) => db.withTenantOnce(tenantId, work);
  return {
    run: (tenantId, id) => runs(tenantId, { id }, (asked) => once(tenantId, (tx) => findRuns(tx, asked.map(idOf)))),
    runRef: (tenantId, id) =>
      refs(tenantId, { id }, (asked) => once(tenantId, (tx) => findRunRefs(tx, asked.map(idOf)))),
    async logPage({ tenantId, runId, after, turnId, types }) {
      const id = [runId, after, turnId].join('/');
      const asked: FollowedLog = { id, run_id: runId, after, ...(turnId !== undefined && { turn_id: turnId }) };
      const page = await pages([tenantId, ...types].join('/'), asked, (all) =>
        db.withTenant(tenantId, (tx) => readPages(tx, all, types)),
      );
      return toLogPage(page, after);
    },
    sessionHead: (tenantId, id) =>
      heads(tenantId, { id }, (asked) => once(tenantId, (tx) => findSessionHeads(tx, asked.map(idOf)))),
    followedRun: (tenantId, { sessionId, place, seq }) =>
      followed(tenantId, { id: [sessionId, place, seq].join('/'), session_id: sessionId, place, seq }, (asked) =>
        once(tenantId, (tx) => findFollowedRuns(tx, asked)),
      ),
  };
}

interface Named {
  id: string;
}

const idOf = ({ id }: Named) => id;

/** Combines reads with the same name, all done by `readAll` in the same way. */
function byName<A extends Named, V extends Named>(options: { lanes: number; most: number }) {
  const named = new Map<string, ReadsTogether<A, V>>();
  return async (name: string, asked: A, readAll: (asked: readonly A[]) => Promise<readonly V[]>) => {
    const reads = named.get(name) ?? readTogether(readAll, options);
    named.set(name, reads);
    try {
      return await reads.read(asked);
    } finally {
      if (reads.isIdle()) named.delete(name);
    }
  };
}

/** The pages share the total size of a read: streams far behind continue with the next one. */
function readPages(tx: Tx, asked: readonly FollowedLog[], types: readonly EventType[]): Promise<FollowedPage[]> {
  const maxBytes = Math.ceil(LIMITS.streamPageBytes / asked.length);
  return listFollowedEvents(tx, asked, { types, limit: PAGE, maxBytes });
}

function toLogPage(page: FollowedPage | undefined, after: number): LogPage {
  const { events = [], hasMore = false, status, last_seq: head } = page ?? {};
  const lastShown = events.at(-1)?.seq ?? after;
  return {
    events,
    hasMore,
    lastSeq: hasMore ? lastShown : Math.max(lastShown, head ?? 0),
    isOver: !hasMore && (!status || isTerminal(status)),
  };
}
