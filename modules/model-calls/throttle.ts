/** The rate limiter of a model, shared with the calls of agents. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ModelRequest } from '../../core/model.ts';
import type { Database } from '../../db/database.ts';
import { acquireModelRate, readModelBackOff } from '../../db/model-rates.ts';
import { estimateRequest } from '../../llm/estimate-tokens.ts';
import type { ResolvedModel } from '../../llm/models.ts';

const LONGEST_WAIT_MS = 10_000;

/** Waits a few seconds at most until the model may be asked; otherwise says how long it would have to be. */
export async function throttle(
  db: Database,
  { resolved, request, signal }: { resolved: ResolvedModel; request: ModelRequest; signal: AbortSignal },
): Promise<{ ok: true } | { ok: false; waitMs: number }> {
  const { rateLimiter, rates } = resolved;
  if (rateLimiter === null) return { ok: true };
  const tokens = rates ? estimateRequest(request) : 0;
  for (let waitedMs = 0; ;) {
    const backOffMs = await readModelBackOff(db, rateLimiter);
    const waitMs = backOffMs === 0 && rates ? await acquireModelRate(db, { rateLimiter, tokens, rates }) : backOffMs;
    if (waitMs === 0) return { ok: true };
    if (waitedMs + waitMs > LONGEST_WAIT_MS) return { ok: false, waitMs };
    await sleep(waitMs, undefined, { signal });
    waitedMs += waitMs;
  }
}
