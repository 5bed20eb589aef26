/**
 * Caches runs that this process has driven. Logs and conversations are only appended to, so the next drive reads only what is
 * new; the event at the cached position proves that the log is the same.
 */
import { LRUCache } from 'lru-cache';
import { readEvent, type RunEvent } from '../../core/events.ts';
import { LIMITS } from '../../core/limits.ts';
import { fold, type RunState } from '../../core/state.ts';
import {
  showOutcomes,
  type ClaimedRun,
  type CachedPosition,
  type MessageRow,
  type UnreadMessages,
} from '../../db/claim-run.ts';
import { firstBrokenMessage } from './checkpoint.ts';
import { bytesOfMessages } from './conversation.ts';

/** A verified, committed position of a run. */
export interface CachedRun {
  state: RunState;
  /** Time of the event at `state.seq`, as the database writes it: no other log has the same event there. */
  at: string;
  /** The conversation after `before`. */
  messages: readonly MessageRow[];
  before: UnreadMessages;
  lastCheckpointId: string | null;
  stepsAtCheckpoint: number;
}

/** The runs last driven by this process. */
export interface RunCache {
  /** Removes and returns a run, so that a failed drive leaves no wrong entry behind. */
  take: (runId: string) => CachedRun | undefined;
  /** The cached position of a run; the entry stays. */
  position: (runId: string) => CachedPosition | undefined;
  keep: (runId: string, cached: CachedRun) => void;
  clear: () => void;
}

interface CacheBounds {
  most?: number;
  mostBytes?: number;
  forMs?: number;
}

/** Keeps the newest runs, limited in number, total bytes of messages, and age. */
export function createRunCache({
  most = LIMITS.cachedRuns,
  mostBytes = LIMITS.cachedRunBytes,
  forMs = LIMITS.cachedRunSeconds * 1000,
}: CacheBounds = {}): RunCache {
  const runs = new LRUCache<string, CachedRun>({
    max: most,
    maxSize: mostBytes,
    sizeCalculation: ({ messages }) => bytesOfMessages(messages) + 1,
    ttl: forMs,
    ttlAutopurge: true,
  });
  return {
    take(runId) {
      const cached = runs.get(runId);
      runs.delete(runId);
      return cached;
    },
    position(runId) {
      const cached = runs.peek(runId);
      return cached && positionOf(cached);
    },
    keep(runId, cached) {
      runs.set(runId, withoutDropped(cached));
    },
    clear: () => runs.clear(),
  };
}

/** Drops messages that models do not get any more. */
function withoutDropped(cached: CachedRun): CachedRun {
  const { state, before, messages } = cached;
  const { cut, firstKept = 0, replay } = state;
  const dropped = messages.slice(0, Math.max(0, firstKept - before.messages));
  const last = dropped.at(-1);
  if (!cut || !last || replay) return cached;
  return {
    ...cached,
    before: { messages: firstKept, chain: last.chain, tokens: cut.droppedTokens, budgetTokens: cut.budgetTokens },
    messages: messages.slice(dropped.length),
  };
}

/** The cached position, for the database to skip, with calls whose outcomes may have changed since. */
export function positionOf({ state, messages, before }: CachedRun): CachedPosition {
  const outcomes = messages.flatMap((row) => Object.entries(row.outcomes ?? {}));
  const calls = outcomes.flatMap(([id, { status }]) => (FINAL.includes(status) ? [] : [id]));
  return { seq: state.seq, length: before.messages + messages.length, calls };
}

/** Final statuses of calls. `unknown` is not final: a person may settle it. */
const FINAL: readonly string[] = ['succeeded', 'failed', 'denied'];

/**
 * Folds a cached run on to the end of the log. Null if the two do not match, as after restoring the database to an earlier
 * point: the run must then be read from its rows.
 */
export async function carryOn(cached: CachedRun, loaded: ClaimedRun): Promise<CachedRun | null> {
  const [same, ...rows] = loaded.events;
  if (loaded.from !== cached.state.seq || same?.seq !== cached.state.seq || same.occurred_at !== cached.at) return null;
  const messages = [...cached.messages.map((row) => refresh(row, loaded)), ...loaded.messages];
  const chain = cached.messages.at(-1)?.chain ?? cached.before.chain;
  const after = { messages: cached.before.messages + cached.messages.length, chain };
  if ((await firstBrokenMessage(loaded.messages, after)) !== null) return null;
  let next: CachedRun = { ...cached, messages, at: loaded.events.at(-1)?.occurred_at ?? cached.at };
  for (const event of rows.map(readEvent)) next = { ...next, ...folded(next, event) };
  const fits = next.state.seq === loaded.run.last_seq && next.state.length === next.before.messages + messages.length;
  return fits ? next : null;
}

/** A new object if a message's outcomes have changed, so that results derived from the old one are not reused. */
function refresh(row: MessageRow, { outcomes }: ClaimedRun): MessageRow {
  const isStale = Object.keys(row.outcomes ?? {}).some((id) => id in outcomes);
  return isStale ? showOutcomes(row, { ...row.outcomes, ...outcomes }) : row;
}

function folded(cached: CachedRun, event: RunEvent): Partial<CachedRun> {
  const state = fold(cached.state, event);
  if (event.type !== 'checkpoint.saved') return { state };
  return { state, lastCheckpointId: event.payload.checkpoint_id, stepsAtCheckpoint: state.steps };
}
