/**
 * Provider outages. A run that no model answers is parked: dormant, until a provider is back. Of all runs waiting for the same
 * credential and model, one at a time asks for all.
 */
import { deferModelCall, resumeModelCall } from '../../../core/decision-events/model-calls.ts';
import { outageSeconds } from '../../../core/definition.ts';
import { LIMITS } from '../../../core/limits.ts';
import type { ModelError } from '../../../core/model.ts';
import type { Deferral } from '../../../core/state.ts';
import {
  endProbedOutages,
  enterModel,
  leaveProbes,
  noteModelOutage,
  noteProbeFailure,
  type Entry,
  type OutageProblem,
  type Probed,
} from '../../../db/model-outages.ts';
import type { ResolvedModel } from '../../../llm/models.ts';
import { appendEvent } from '../../run-log/run-log.ts';
import type { OutageGuard } from '../../model-calls/throttle.ts';
import type { Park } from './commit.ts';
import type { Drive } from './drive-state.ts';

/** No model answers: the run must be parked. */
export class ParkedError extends Error {
  readonly park: Park['park'];
  constructor(park: Park['park']) {
    super(`no model answers; waiting until ${park.until} at most`);
    this.name = 'ParkedError';
    this.park = park;
  }
}

/** An outage as noted: the database's time then, and when the next run asks. */
export interface NotedOutage {
  outage: string;
  at: string;
  nextAt: string;
  alone: boolean;
}

/** The run's wait for a provider; undefined if it does not wait. */
export function deferralOf({ log: { state } }: Drive): Deferral | undefined {
  return state.modelCall?.deferred ?? state.deferred;
}

/** Whether the run may ask the model, and whether on behalf of all waiting runs. */
export function enter(drive: Drive, rateLimiter: string): Promise<Entry> {
  const outage = outageOf(drive, rateLimiter, deferralOf(drive)?.alone ?? false);
  const entering = { outage, rateLimiter, runId: drive.run.id, probeMs: LIMITS.outageProbeMs };
  return enterModel(drive.context.db, entering);
}

/** A known outage, as met by this run. */
export function metOutage(drive: Drive, rateLimiter: string, entry: Extract<Entry, { kind: 'away' }>): NotedOutage {
  const alone = deferralOf(drive)?.alone ?? false;
  return { outage: outageOf(drive, rateLimiter, alone), at: entry.at, nextAt: entry.next_at, alone };
}

/**
 * Notes for all runs that a model gave no answer. A run that has waited, and was let in because another was answered, notes it
 * for itself alone: its own request may be the cause, and others must not wait for that. So does one that asked for all while
 * another was answered.
 */
export async function noteOutage(
  drive: Drive,
  failed: { rateLimiter: string; error: ModelError; probed: Probed | undefined },
): Promise<NotedOutage> {
  const { rateLimiter, error, probed } = failed;
  const { db } = drive.context;
  const noted = {
    runId: drive.run.id,
    problem: { code: error.kind, message: error.message },
    leastMs: Math.min(error.retryAfterMs ?? 0, LIMITS.outagePauseMs),
    mostMs: LIMITS.outagePauseMs,
  };
  const deferral = deferralOf(drive);
  for (const [outage, since] of Object.entries(probed ?? {})) {
    const known = await noteProbeFailure(db, { ...noted, outage, since });
    if (known) return { outage, at: known.at, nextAt: known.next_at, alone: deferral?.alone ?? false };
  }
  const alone = deferral !== undefined || probed !== undefined;
  const outage = outageOf(drive, rateLimiter, alone);
  const { at, next_at: nextAt } = await noteModelOutage(db, { ...noted, outage });
  return { outage, at, nextAt, alone };
}

function outageOf({ run }: Drive, rateLimiter: string, alone: boolean): string {
  return alone ? `${rateLimiter}#${run.id}` : rateLimiter;
}

/** The provider answers, even if with a refusal: all waiting runs go on, this one included. */
export async function endOutages({ context, run }: Drive, probed: Probed): Promise<void> {
  await endProbedOutages(context.db, { runId: run.id, probed });
}

/** The run does not ask on behalf of all after all. If the database cannot be told, its time to ask runs out. */
export async function leaveProbe({ context, run }: Drive): Promise<void> {
  await leaveProbes(context.db, run.id).catch((error: unknown) =>
    context.log.debug({ run: run.id, err: error }, 'probe not left'),
  );
}

/** Records in the log that the wait is over. */
export function resume(drive: Drive, answered: { step: number; model: string; at: string | undefined }): void {
  const deferral = deferralOf(drive);
  if (!deferral) return;
  const { step, model, at = deferral.since } = answered;
  const waited_ms = Math.max(0, Date.parse(at) - Date.parse(deferral.since));
  appendEvent(drive.log, resumeModelCall(drive.log.state, step, { model, waited_ms }));
}

/** A model that gave no answer, and whose provider may be back later. */
export interface AwayModel {
  resolved: ResolvedModel;
  problem: OutageProblem;
  noted: NotedOutage;
}

/** Outages met by a call; `at`: when the last model was asked, by the database's time. */
export interface Heard {
  away: AwayModel[];
  at?: string;
}

/** Guards a call made on the way to the run's next step, which waits with it. */
export function outageGuardOf(drive: Drive, heard: Heard): OutageGuard {
  const { away } = heard;
  return {
    async enter(resolved, rateLimiter) {
      const entry = await enter(drive, rateLimiter);
      if (entry.kind !== 'throttled') heard.at = entry.at;
      if (entry.kind === 'away') {
        away.push({ resolved, problem: entry.error, noted: metOutage(drive, rateLimiter, entry) });
      }
      return entry;
    },
    async noteAway(resolved, failed) {
      const { error } = failed;
      const noted = await noteOutage(drive, failed);
      away.push({ resolved, problem: { code: error.kind, message: error.message }, noted });
    },
    noteAnswered: (probed) => endOutages(drive, probed),
    leave: () => leaveProbe(drive),
  };
}

/** Records in the log that the run waits; returns the error that parks it. Undefined if it has waited for as long as allowed. */
export function defer(
  drive: Drive,
  { step, away }: { step: number; away: readonly [AwayModel, ...AwayModel[]] },
): ParkedError | undefined {
  const last = away.at(-1) ?? away[0];
  const at = Date.parse(last.noted.at);
  const since = deferralOf(drive)?.since ?? new Date(at).toISOString();
  const until = Date.parse(since) + 1000 * outageSeconds(drive.definition);
  if (at >= until) return undefined;
  const nextAt = Math.min(until, ...away.map(({ noted }) => Date.parse(noted.nextAt)));
  const times = { since, next_at: new Date(nextAt).toISOString(), until: new Date(until).toISOString() };
  const alone = away.some(({ noted }) => noted.alone);
  const payload = { model: last.resolved.model, error: last.problem, ...times, ...(alone && { alone }) };
  appendEvent(drive.log, deferModelCall(drive.log.state, step, payload));
  drive.context.log.warn(
    { run: drive.run.id, agent: drive.run.agent_id, model: payload.model, ...last.problem, ...times },
    'run waits for its provider',
  );
  return new ParkedError({ outages: away.map(({ noted }) => noted.outage), until: times.until });
}
