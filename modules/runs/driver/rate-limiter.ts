/**
 * One rate limiter per credential and model, shared by all workers: after a provider has refused for too many requests, none
 * asks it before the time it named. A run that has to wait is put off without a worker.
 */
import { recordModelRetry } from '../../../core/decision-events/model-calls.ts';
import { backoffMs, jitteredMs } from '../../../core/backoff.ts';
import type { Calibration } from '../../../core/calibration.ts';
import { LIMITS } from '../../../core/limits.ts';
import type { ModelError, ModelResponse } from '../../../core/model.ts';
import { chargeModelRate, acquireModelRate, readModelBackOff, backOffModelRate } from '../../../db/model-rates.ts';
import type { OutageProblem, Probed } from '../../../db/model-outages.ts';
import { estimateRequest } from '../../../llm/estimate-tokens.ts';
import type { ResolvedModel } from '../../../llm/models.ts';
import { toRequest } from './build-request.ts';
import { appendEvent } from '../../run-log/run-log.ts';
import { deferralOf, enter, leaveProbe, metOutage, type NotedOutage } from './provider-outage.ts';
import type { Drive } from './drive-state.ts';
import { paidInVain } from './spending.ts';

/** A model may not be asked just now, by its rate or before budgets are asked again: another job continues the run after `waitMs`. */
export class ThrottledError extends Error {
  readonly waitMs: number;
  constructor(waitMs: number) {
    super(`the model may be asked again in ${waitMs} ms`);
    this.name = 'ThrottledError';
    this.waitMs = waitMs;
  }
}

interface ModelCall {
  toolChoice: 'auto' | 'none';
}

/**
 * A model may be asked (`probe`: on behalf of all waiting runs; `met`: an answer ends what another run alone has met), or its
 * provider is known to be away.
 */
export type Admission =
  | { kind: 'open'; tokens: number; at?: string; met?: Probed }
  | { kind: 'probe'; tokens: number; at: string; probed: Probed }
  | { kind: 'away'; problem: OutageProblem; noted: NotedOutage };

/**
 * Acquires a request of a model; returns the prompt tokens let through. Throws ThrottledError. Usually the commit before the
 * call has read the back-off already.
 */
export async function acquire(drive: Drive, resolved: ResolvedModel, call: ModelCall): Promise<Admission> {
  const { rateLimiter, rates } = resolved;
  if (rateLimiter === null) return { kind: 'open', tokens: 0 };
  const { db } = drive.context;
  const seen = drive.step.backOff;
  drive.step.backOff = null;
  const tokens = rates ? estimateRequest(toRequest(drive, { resolved, toolChoice: call.toolChoice })) : 0;
  const look = () => (seen?.rateLimiter === rateLimiter ? seen.waitMs : readModelBackOff(db, rateLimiter));
  const isSuspect = deferralOf(drive) !== undefined || (await look()) > 0;
  const entry = isSuspect ? await enter(drive, rateLimiter) : ({ kind: 'open' } as const);
  if (entry.kind === 'throttled') throw new ThrottledError(entry.ms);
  if (entry.kind === 'away') return { kind: 'away', problem: entry.error, noted: metOutage(drive, rateLimiter, entry) };
  const waitMs = rates ? await acquireModelRate(db, { rateLimiter, tokens, rates }) : 0;
  if (waitMs > 0) {
    if (entry.kind === 'probe') await leaveProbe(drive);
    throw new ThrottledError(waitMs);
  }
  return { ...entry, tokens };
}

/** After a refusal, makes all workers back off, records it in the log, and throws ThrottledError. */
export async function backOff(
  drive: Drive,
  refused: { resolved: ResolvedModel; error: ModelError; attempt: number; step: number },
): Promise<never> {
  const { resolved, error, attempt } = refused;
  const pauseMs = backoffMs({ firstMs: 1000, mostMs: LIMITS.throttleMs, attempt });
  const leastMs = Math.max(error.retryAfterMs ?? 0, jitteredMs(pauseMs, 0.25, Math.random()));
  const waitMs = Math.ceil(Math.min(leastMs, LIMITS.throttleMs));
  if (resolved.rateLimiter !== null) await backOffModelRate(drive.context.db, resolved.rateLimiter, waitMs);
  recordRetry(drive, { ...refused, waitMs });
  throw new ThrottledError(waitMs);
}

/** Records in the log that a model is asked again. */
export function recordRetry(
  drive: Drive,
  retry: {
    resolved: ResolvedModel;
    error: ModelError;
    attempt: number;
    step: number;
    waitMs: number;
    calibration?: Calibration;
  },
): void {
  const { resolved, error, attempt, step, waitMs: wait_ms, calibration } = retry;
  const problem = { code: error.kind, message: error.message };
  const paid = paidInVain(drive, resolved, error);
  const payload = {
    model: resolved.model,
    attempt,
    error: problem,
    wait_ms,
    ...paid,
    ...(calibration && { calibration }),
  };
  appendEvent(drive.log, recordModelRetry(drive.log.state, step, payload));
}

/** Charges the credential's rate for what an answer used beyond its estimate. */
export async function charge(
  drive: Drive,
  { resolved, answer, passedTokens }: { resolved: ResolvedModel; answer: ModelResponse; passedTokens: number },
): Promise<void> {
  const { rateLimiter, rates } = resolved;
  const { usage } = answer;
  if (rateLimiter === null || !rates?.tokensPerMinute) return;
  const tokens = usage.input + usage.cache_write_5m + usage.cache_write_1h + usage.output - passedTokens;
  await chargeModelRate(drive.context.db, { rateLimiter, tokens, tokensPerMinute: rates.tokensPerMinute });
}
