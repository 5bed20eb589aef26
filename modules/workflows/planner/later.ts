/** A workflow whose planner has no answer for now looks again later; while its provider is away, it waits as any run does. */
import { deferModelCall } from '../../../core/decision-events/model-calls.ts';
import { outageSeconds } from '../../../core/definition.ts';
import type { NewEvent } from '../../../core/events.ts';
import { readClockIn } from '../../../db/clock.ts';
import type { RunRow } from '../../../db/claim-run.ts';
import { SUBTASKS } from '../../../jobs/subtasks.ts';
import { newId } from '../../../lib/new-id.ts';
import type { AwayProvider } from '../../model-calls/throttle.ts';
import type { ToolFault } from '../../model-calls/tool-ask.ts';
import type { AppendedChange } from '../../run-log/append-to-run.ts';
import { failure } from '../../runs/end-run.ts';
import { append, providerWaitOf, type PlannedStep } from './append.ts';
import { plannerDefinition, type Planning } from './ask-planner.ts';

/** How soon a workflow looks whether a model may be asked again, in ms. */
const AWAY_MS = 5000;

/** The job that looks again, with the lease given back. */
export function jobFor({ run }: Pick<Planning, 'run'>, delay_ms?: number) {
  const payload = { tenantId: run.tenant_id, runId: run.id };
  const job = { id: newId(), queue: SUBTASKS.name, at_position: true as const, payload };
  return { outbox: [{ ...job, ...(delay_ms !== undefined && { delay_ms }) }], release: true };
}

/** How a workflow ends whose planner has come to nothing. */
export type GiveUp = typeof failIn;

/** Fails the workflow; the caller announces the runs that are cancelled with it after the commit. */
export async function failIn(step: PlannedStep, error: { code: string; message: string }): Promise<AppendedChange> {
  const { change, cancelled } = await failure(step.tx, step.run, error);
  step.cancelled.push(...cancelled);
  return { ...change, events: [...step.events, ...change.events] };
}

/** Puts off what the models gave no answer to, for as long as a provider may be away. */
export async function later(planning: Planning, { away }: ToolFault, giveUp: GiveUp = failIn): Promise<void> {
  if (!away) return append(planning, async () => ({ events: [], ...jobFor(planning, AWAY_MS) }));
  const seconds = outageSeconds(await plannerDefinition(planning, planning.run));
  return append(planning, async (step) => {
    const now = (await readClockIn(step.tx)).getTime();
    const before = providerWaitOf(step.run);
    // Kept from look to look, even if one of a step's calls is answered each time.
    const since = before?.since ?? new Date(now).toISOString();
    const until = Date.parse(since) + 1000 * seconds;
    if (now >= until) return giveUp(step, unavailable(away, seconds));
    const next_at = new Date(Math.min(until, Date.parse(away.nextAt ?? '') || now + AWAY_MS)).toISOString();
    const isTold = before?.next_at === next_at && before.error?.message === away.error.message;
    const times = { since, next_at, until: new Date(until).toISOString() };
    const next = jobFor(planning, Math.min(AWAY_MS, until - now));
    if (isTold) return { events: [], ...next };
    const { id: run, agent_id: agent } = step.run;
    const { model, error } = away;
    planning.context.log.warn({ run, agent, model, ...error, ...times }, 'workflow waits for its provider');
    return { events: [deferred(step.run, { model, error, ...times })], ...next };
  });
}

type Deferred = Extract<NewEvent, { type: 'model.deferred' }>;

function deferred({ open_turn_id, steps }: RunRow, payload: Deferred['payload']): NewEvent {
  return deferModelCall({ turn: open_turn_id === null ? null : { id: open_turn_id } }, steps, payload);
}

function unavailable({ error }: AwayProvider, seconds: number): { code: string; message: string } {
  const within = `within the ${seconds} s of execution_config.provider_outage_seconds`;
  return { code: 'provider_unavailable', message: `No model answered ${within}: ${error.message}` };
}
