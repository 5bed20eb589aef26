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
} from '../../db/model-outages.ts';
import { acquireModelRate } from '../../db/model-rates.ts';
import { estimateRequest } from '../../llm/estimate-tokens.ts';
import type { ResolvedModel } from '../../llm/models.ts';

const LONGEST_WAIT_MS = 10_000;

interface Asking {
  resolved: ResolvedModel;
  request: ModelRequest;
  /** By this id it is known that it is the one that asks for all. */
  asker: string;
  signal: AbortSignal;
}

/** It may be asked: `probe` where it is known to be away, and this call asks for all that wait. */
export type Admission = { ok: true; isProbe: boolean } | { ok: false; message: string };

/** Waits a few seconds at most until the model may be asked; says why not where it would take longer, or where its provider is away. */
export async function throttle(db: Database, asking: Asking): Promise<Admission> {
  const { resolved, request, asker, signal } = asking;
  const { rateLimiter, rates, model } = resolved;
  if (rateLimiter === null) return { ok: true, isProbe: false };
  const tokens = rates ? estimateRequest(request) : 0;
  for (let waitedMs = 0; ;) {
    const entry = await enterOwnCall(db, { outage: rateLimiter, rateLimiter, asker, probeMs: LIMITS.modelTimeoutMs });
    if (entry.kind === 'away') return { ok: false, message: `${model} is away: ${entry.error.message}` };
    const isThrottled = entry.kind === 'throttled';
    const waitMs = isThrottled ? entry.ms : rates ? await acquireModelRate(db, { rateLimiter, tokens, rates }) : 0;
    if (waitMs === 0) return { ok: true, isProbe: entry.kind === 'probe' };
    if (entry.kind === 'probe') await leaveProbes(db, asker);
    if (waitedMs + waitMs > LONGEST_WAIT_MS) {
      return { ok: false, message: `${model} may be asked again in ${waitMs} ms.` };
    }
    await sleep(waitMs, undefined, { signal });
    waitedMs += waitMs;
  }
}

/** The provider has given no answer: until somebody has asked it again no other own call does. Only who asks for all speaks for all. */
export async function noteAway(
  db: Database,
  { resolved: { rateLimiter }, asker, error }: Pick<Asking, 'resolved' | 'asker'> & { error: ModelError },
): Promise<void> {
  if (rateLimiter === null) return;
  const problem = { code: error.kind, message: error.message };
  const leastMs = Math.min(error.retryAfterMs ?? 0, LIMITS.outagePauseMs);
  const noted = { runId: asker, problem, leastMs, mostMs: LIMITS.outagePauseMs };
  await noteModelOutage(db, { ...noted, outage: ownOutage(rateLimiter) });
  await noteKnown(db, { ...noted, outage: rateLimiter });
}

/** An outage of runs is made by runs; the one that a call asks about for all goes on. */
async function noteKnown(db: Database, noted: Parameters<typeof noteModelOutage>[1]): Promise<void> {
  if (await isProbe(db, noted)) await noteModelOutage(db, noted);
}

/** The provider answers, be it with a refusal: whoever waits for it goes on. */
export function noteAnswered(db: Database, asker: string): Promise<void> {
  return endModelOutages(db, asker);
}

export { leaveProbes };
