/** Reads that a process makes once for all who ask for the same at the time. Nothing is kept of what nobody asks for. */
import { isTerminal, type EventType } from '../../core/events.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Database } from '../../db/database.ts';
import { listEvents, type LoggedEvent } from '../../db/events.ts';
import { findRun, findRuns, type RunView } from '../../db/runs.ts';
import { coalesced } from '../../lib/coalesce.ts';
import { readTogether, type ReadsTogether } from '../../lib/read-together.ts';

export interface SharedReads {
  /** A run as the API shows it, together with other runs of its tenant; undefined if there is none. */
  run: (tenantId: string, id: string) => Promise<RunView | undefined>;
  /** A page of a run's log: an event costs a read, however many streams stand at the same place. */
  logPage: (asked: LogPageRequest) => Promise<LogPage>;
}

export interface LogPageRequest {
  tenantId: string;
  runId: string;
  /** Sequence number after which it begins. */
  after: number;
  /** Only this turn's events. */
  turnId?: string | undefined;
  /** Which events; the others are passed. */
  types: readonly EventType[];
}

export interface LogPage {
  events: LoggedEvent[];
  /** Where to go on: events that are not shown are passed, too. */
  lastSeq: number;
  /** Whether there is more to read at once. */
  hasMore: boolean;
  /** Whether the run has ended, and the page is its last one. */
  isOver: boolean;
}

const PAGE = 500;
const RUNS = { lanes: 2, most: 50 };

export function createSharedReads(db: Database): SharedReads {
  const runs = new Map<string, ReadsTogether<RunView>>();
  // Whoever asks for the same page while it is being read gets the one that is read after it: what was there when it asked.
  const pages = coalesced(([asked]: readonly [LogPageRequest, ...LogPageRequest[]]) => readLogPage(db, asked));
  return {
    async run(tenantId, id) {
      const reads =
        runs.get(tenantId) ?? readTogether((ids) => db.withTenantOnce(tenantId, (tx) => findRuns(tx, ids)), RUNS);
      runs.set(tenantId, reads);
      try {
        return await reads.read(id);
      } finally {
        if (reads.isIdle()) runs.delete(tenantId);
      }
    },
    logPage: (asked) => {
      const { tenantId, runId, after, turnId = '', types } = asked;
      return pages([tenantId, runId, after, turnId, types].join('/'), asked);
    },
  };
}

async function readLogPage(db: Database, { tenantId, runId, after, turnId, types }: LogPageRequest): Promise<LogPage> {
  return db.withTenant(tenantId, async (tx) => {
    // The status first: what it says is over has all its events in the log already.
    const row = await findRun(tx, runId);
    const page = { limit: PAGE, maxBytes: LIMITS.streamPageBytes };
    const { events, hasMore: isFull } = await listEvents(tx, { runId, after, ...page, types: [...types], turnId });
    const lastShown = events.at(-1)?.seq ?? after;
    // What was committed between the two queries may have ended the run, of which the row knows nothing yet: the bus has
    // told of it already and will not do so again. A position that nothing has reached yet says nothing of the kind.
    const isAhead = row !== undefined && events.length > 0 && lastShown > row.last_seq;
    return {
      events,
      hasMore: isFull || isAhead,
      lastSeq: isFull ? lastShown : Math.max(lastShown, row?.last_seq ?? 0),
      isOver: !isFull && (!row || isTerminal(row.status)),
    };
  });
}
