/** The rate limiter of a model, shared with the calls of agents, and the outages of providers: own calls ask one at a time, too. */
import { setTimeout as sleep } from 'node:timers/promises';
import { LIMITS } from '../../core/limits.ts';
import type { ModelError, ModelRequest } from '../../core/model.ts';
import type { Database } from '../../db/database.ts';
import {
  endModelOutages,
  enterOwnCall,
  isProbe,
  leaveProbes,
  noteModelOutage,
  ownOutage,
  type Entry,
} from '../../db/model-outages.ts';
import { acquireModelRate } from '../../db/model-rates.ts';
import { estimateRequest } from '../../llm/estimate-tokens.ts';
import type { ResolvedModel } from '../../llm/models.ts';
import { LONGEST_WAIT_MS } from './pause-before-retry.ts';

/** What a call learns and tells of the outages of providers: whether it may ask, and what came of it. */
export interface OutageGuard {
  enter: (resolved: ResolvedModel, rateLimiter: string) => Promise<Entry>;
  /** The provider has given no answer; `isProbe`: the call has asked for all that wait. */
  noteAway: (
    resolved: ResolvedModel,
    failed: { rateLimiter: string; error: ModelError; isProbe: boolean },
  ) => Promise<void>;
  /** It answers, be it with a refusal: whoever waits for it goes on. */
  noteAnswered: () => Promise<void>;
  /** The one that was to ask for all does not. */
  leave: () => Promise<void>;
}

/**
 * The guard of calls that keep nobody waiting but each other: until somebody has asked a provider again that gave no answer, no
 * other such call does. `asker`: by this id it is known that it is the one that asks for all, and only that one speaks for all.
 */
export function ownOutageGuard(db: Database, asker: string): OutageGuard {
  return {
    enter: (_, rateLimiter) =>
      enterOwnCall(db, { outage: rateLimiter, rateLimiter, asker, probeMs: LIMITS.modelTimeoutMs }),
    async noteAway(_, { rateLimiter, error }) {
      const problem = { code: error.kind, message: error.message };
      const leastMs = Math.min(error.retryAfterMs ?? 0, LIMITS.outagePauseMs);
      const noted = { runId: asker, problem, leastMs, mostMs: LIMITS.outagePauseMs };
      await noteModelOutage(db, { ...noted, outage: ownOutage(rateLimiter) });
      await noteKnown(db, { ...noted, outage: rateLimiter });
    },
    noteAnswered: () => endModelOutages(db, asker),
    leave: () => leaveProbes(db, asker),
  };
}

/** An outage of runs is made by runs; the one that a call asks about for all goes on. */
async function noteKnown(db: Database, noted: Parameters<typeof noteModelOutage>[1]): Promise<void> {
  if (await isProbe(db, noted)) await noteModelOutage(db, noted);
}

interface Asking {
  resolved: ResolvedModel;
  request: ModelRequest;
  guard: OutageGuard;
  signal: AbortSignal;
}

/** It may be asked: `isProbe` where it is known to be away, and this call asks for all that wait. `waitMs`: when it may be. */
type Admission = { ok: true; isProbe: boolean } | { ok: false; message: string; waitMs?: number };

/** Waits a few seconds at most until the model may be asked; says why not where it would take longer, or where its provider is away. */
export async function throttle(db: Database, asking: Asking): Promise<Admission> {
  const { resolved, request, guard, signal } = asking;
  const { rateLimiter, rates, model } = resolved;
  if (rateLimiter === null) return { ok: true, isProbe: false };
  const tokens = rates ? estimateRequest(request) : 0;
  for (let waitedMs = 0; ;) {
    const entry = await guard.enter(resolved, rateLimiter);
    if (entry.kind === 'away') return { ok: false, message: `${model} is away: ${entry.error.message}` };
    const isThrottled = entry.kind === 'throttled';
    const waitMs = isThrottled ? entry.ms : rates ? await acquireModelRate(db, { rateLimiter, tokens, rates }) : 0;
    if (waitMs === 0) return { ok: true, isProbe: entry.kind === 'probe' };
    if (entry.kind === 'probe') await guard.leave();
    if (waitedMs + waitMs > LONGEST_WAIT_MS) {
      return { ok: false, message: `${model} may be asked again in ${waitMs} ms.`, waitMs };
    }
    await sleep(waitMs, undefined, { signal });
    waitedMs += waitMs;
  }
}
