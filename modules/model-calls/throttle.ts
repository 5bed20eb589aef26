/** Applies the models' rate limiters, shared with agents' calls, and outages of providers: own calls, too, probe one at a time. */
import { setTimeout as sleep } from 'node:timers/promises';
import { LIMITS } from '../../core/limits.ts';
import type { ModelError } from '../../core/model.ts';
import type { Database } from '../../db/database.ts';
import {
  endProbedOutages,
  enterOwnCall,
  leaveProbes,
  noteModelOutage,
  noteProbeFailure,
  ownOutage,
  type Entry,
  type NotedFailure,
  type OutageProblem,
  type Probed,
} from '../../db/model-outages.ts';
import { acquireModelRate } from '../../db/model-rates.ts';
import type { ModelPace } from '../../llm/model-pace.ts';
import type { ResolvedModel } from '../../llm/models.ts';
import { LONGEST_WAIT_MS } from './pause-before-retry.ts';

/** Shares information on outages: whether a call may be made, and its outcome. */
export interface OutageGuard<M = ResolvedModel> {
  enter: (resolved: M, rateLimiter: string) => Promise<Entry>;
  /** The provider did not answer; `probed`: what the call asked about if it was a probe. */
  noteAway: (
    resolved: M,
    failed: { rateLimiter: string; error: ModelError; probed: Probed | undefined },
  ) => Promise<void>;
  /** The provider answered a probe, if only with a refusal: waiting calls continue. */
  noteAnswered: (probed: Probed) => Promise<void>;
  /** The probe is not made. */
  leave: () => Promise<void>;
}

/**
 * The guard of calls that only delay each other: after a provider has failed, none is made until one has probed it. `asker`:
 * the id that identifies the probe, whose outcome alone counts.
 */
export function ownOutageGuard(db: Database, asker: string): OutageGuard<unknown> {
  return {
    enter: (_, rateLimiter) =>
      enterOwnCall(db, { outage: rateLimiter, rateLimiter, asker, probeMs: LIMITS.outageProbeMs }),
    async noteAway(_, { rateLimiter, error, probed = {} }) {
      const problem = { code: error.kind, message: error.message };
      const leastMs = Math.min(error.retryAfterMs ?? 0, LIMITS.outagePauseMs);
      const noted = { runId: asker, problem, leastMs, mostMs: LIMITS.outagePauseMs };
      const own = { ...noted, outage: ownOutage(rateLimiter) };
      if (!(await noteProbed(db, own, probed))) await noteModelOutage(db, own);
      // Outages of runs are reported only by runs; but if this call probes one, its failure prolongs it.
      await noteProbed(db, { ...noted, outage: rateLimiter }, probed);
    },
    noteAnswered: (probed) => endProbedOutages(db, { runId: asker, probed }),
    leave: () => leaveProbes(db, asker),
  };
}

/** Whether the call was a probe of this outage, whose failure is noted unless it is over. */
async function noteProbed(db: Database, noted: NotedFailure, probed: Probed): Promise<boolean> {
  const since = probed[noted.outage];
  if (since === undefined) return false;
  await noteProbeFailure(db, { ...noted, since });
  return true;
}

interface Asking<M> {
  resolved: M;
  /** Tokens of the prompt, as estimated. */
  tokens: () => number;
  guard: OutageGuard<M>;
  signal: AbortSignal;
}

/** A provider that is away; `nextAt`: when it is asked again, if others have found that out. */
export interface AwayProvider {
  model: string;
  error: OutageProblem;
  nextAt?: string;
}

/**
 * Whether the call may be made. `probed`: the provider is known to be unavailable, and this call is the probe. `waitMs`: time
 * until it may be. `away`: its provider is.
 */
type Admission =
  | { ok: true; probed: Probed | undefined }
  | { ok: false; message: string; waitMs?: number; away?: AwayProvider };

/** Waits a few seconds at most until the model may be called; returns why not if that would take longer, or the provider is unavailable. */
export async function throttle<M extends ModelPace & { model: string }>(
  db: Database,
  asking: Asking<M>,
): Promise<Admission> {
  const { resolved, guard, signal } = asking;
  const { rateLimiter, rates, model } = resolved;
  if (rateLimiter === null) return { ok: true, probed: undefined };
  const tokens = rates ? asking.tokens() : 0;
  for (let waitedMs = 0; ;) {
    const entry = await guard.enter(resolved, rateLimiter);
    if (entry.kind === 'away') {
      const { error, next_at: nextAt } = entry;
      return { ok: false, message: `${model} is away: ${error.message}`, away: { model, error, nextAt } };
    }
    const isThrottled = entry.kind === 'throttled';
    const waitMs = isThrottled ? entry.ms : rates ? await acquireModelRate(db, { rateLimiter, tokens, rates }) : 0;
    if (waitMs === 0) return { ok: true, probed: entry.kind === 'probe' ? entry.probed : undefined };
    if (entry.kind === 'probe') await guard.leave();
    if (waitedMs + waitMs > LONGEST_WAIT_MS) {
      return { ok: false, message: `${model} may be asked again in ${waitMs} ms.`, waitMs };
    }
    await sleep(waitMs, undefined, { signal });
    waitedMs += waitMs;
  }
}
