/** Examines everything after a torture: runs, effects, unknowns, jobs, and recovery times. */
import { setTimeout as delay } from 'node:timers/promises';
import { TOOL_CALLS } from '../../jobs/tool-calls.ts';
import { TURNS } from '../../jobs/turns.ts';
import { rebuildProjections } from '../../modules/run-log/rebuild-projections.ts';
import { findBudgetDrift } from '../../modules/budgets/settle-budgets.ts';
import type { RetryingClient } from './client.ts';
import type { StartedRun } from './drive.ts';
import type { Delivery, EffectServer } from './effect-server.ts';
import { examineConversations } from './examine-conversations.ts';
import { examineOutputs } from './examine-outputs.ts';
import { examinePeople } from './examine-people.ts';
import { examineRun, type ExaminedRun } from './examine-run.ts';
import { examineSessions } from './examine-sessions.ts';
import type { Injected } from './faults.ts';
import { examineMemory, type StartedLessons } from './memory.ts';
import type { Probe } from './probe.ts';
import type { BrokenRequest, LocalServer } from './local-server.ts';
import type { HookServer } from './hook-server.ts';
import type { StartedAsking } from './people.ts';
import { processOf } from './schedule.ts';
import type { StartedSession } from './sessions.ts';
import { examineWorkflows, type StartedWorkflow } from './workflows.ts';

export interface Findings {
  completed: number;
  /** Workflows whose subtasks all completed. */
  workflows: number;
  unlike: string[];
  lost: string[];
  deliveries: number;
  effects: number;
  repeated: string[];
  unknowns: number;
  unknownViolations: string[];
  gaps: string[];
  differences: string[];
  stuck: string[];
  /** Accepted messages of sessions that are neither in the conversation nor replaced by a newer one. */
  forgotten: string[];
  /** Completed runs that the webhook was not told of. */
  untold: string[];
  /** Huge outputs that were stored; `cutShort` has the incomplete ones. */
  hugeOutputs: number;
  /** Facts of turns remembered exactly once; `memories` has the others. */
  remembered: number;
  memories: string[];
  cutShort: string[];
  /** People's answers and decisions. */
  answered: number;
  decided: number;
  unallowed: string[];
  unheard: string[];
  /** Model calls that waited for the end of an outage. */
  deferred: number;
  /** Differences between budgets' reservations and the model calls. */
  drift: string[];
  /** From a worker's kill to the next event of each run that it held, in ms. */
  recoveriesMs: number[];
}

interface Evidence {
  client: RetryingClient;
  probe: Probe;
  runs: readonly StartedRun[];
  sessions: readonly StartedSession[];
  workflows: readonly StartedWorkflow[];
  askings: readonly StartedAsking[];
  /** Absent if nothing was taught. */
  lessons: StartedLessons | undefined;
  settleMs: number;
  /** Absent without webhooks. */
  hooks: HookServer | undefined;
  tools: EffectServer;
  model: LocalServer;
  injected: readonly Injected[];
  leaseMs: number;
}

/** Examines everything once the runs have ended or the time is up. */
export async function examine(evidence: Evidence): Promise<Findings> {
  const { client, probe, runs, tools, leaseMs } = evidence;
  const sessions = await examineSessions(client, evidence.sessions, evidence.settleMs);
  const workflows = await examineWorkflows(client, evidence.workflows, evidence.settleMs);
  const { lessons } = evidence;
  const memory = lessons ? await examineMemory(client, lessons, evidence.settleMs) : { remembered: 0, wrong: [] };
  const people = await examinePeople(client, evidence.askings, tools.deliveries);
  const known = [...runs, ...evidence.askings].map(({ id }) => id);
  const stuck = await findStuck(probe, known, 5000 + 5 * leaseMs);
  const examined = new Map<StartedRun, ExaminedRun>();
  for (const run of runs) examined.set(run, await examineRun(client, probe, run));
  const all = [...examined.values()];
  const conversations = await examineConversations(probe, examined);
  const outputs = await examineOutputs(client, examined, tools.deliveries);
  const { differences } = await rebuildProjections(probe.database, { check: true });
  const unknowns = new Map(all.flatMap((each) => [...each.unknowns]));
  const lost = runs.filter(({ status }) => status === undefined);
  return {
    completed: runs.filter(({ status }) => status === 'completed').length,
    unlike: [...all.flatMap(({ unlike }) => unlike), ...sessions.unlike, ...workflows.unlike, ...people.unlike],
    lost: lost.map((run) => `${run.plan.label} (${run.id}): ${tailOf(examined.get(run)?.log ?? [])}`),
    deliveries: tools.deliveries.length,
    effects: tools.deliveries.filter(({ outcome }) => outcome === 'effect').length,
    workflows: workflows.completed,
    repeated: [...findRepeated(tools.deliveries), ...workflows.repeated],
    unknowns: unknowns.size,
    unknownViolations: findUnknownViolations(tools.deliveries, unknowns),
    gaps: [...all.flatMap(({ gaps }) => gaps), ...sessions.gaps, ...people.gaps],
    differences: [
      ...differences.map((each) => JSON.stringify(each)),
      ...all.flatMap((each) => each.differences),
      ...conversations,
    ],
    stuck,
    forgotten: sessions.forgotten,
    untold: evidence.hooks ? await findUntold(runs, evidence.hooks) : [],
    hugeOutputs: outputs.huge,
    cutShort: outputs.cutShort,
    answered: people.answered,
    decided: people.decided,
    unallowed: people.unallowed,
    unheard: people.unheard,
    remembered: memory.remembered,
    memories: memory.wrong,
    deferred: all.flatMap(({ log }) => log).filter(({ type }) => type === 'model.deferred').length,
    drift: await findDrift(probe, 10_000 + leaseMs),
    recoveriesMs: recoveries(evidence, examined),
  };
}

function tailOf(log: ExaminedRun['log']): string {
  return log
    .slice(-4)
    .map(({ seq, type, occurred_at }) => `${seq} ${type} ${occurred_at}`)
    .join(', ');
}

/** Intents that took effect more than once, with any keys. */
export function findRepeated(deliveries: readonly Delivery[]): string[] {
  const effects = groupBy(
    deliveries.filter(({ outcome }) => outcome === 'effect'),
    ({ intent }) => intent,
  );
  return [...effects.values()].flatMap((group) => {
    const [first] = group;
    if (!first || group.length === 1) return [];
    const keys = new Set(group.map(({ key }) => key)).size;
    return [`${first.tool} ${first.intent} took effect ${group.length} times, with ${keys} keys`];
  });
}

/** Calls of unknown outcome that were sent more than once. */
export function findUnknownViolations(
  deliveries: readonly Delivery[],
  unknowns: ReadonlyMap<string, number>,
): string[] {
  const effects = groupBy(
    deliveries.filter(({ outcome, call }) => outcome === 'effect' && unknowns.has(call)),
    ({ call }) => call,
  );
  return [...effects].flatMap(([call, group]) =>
    group.length > 1 ? [`${group[0]?.tool} ${group[0]?.intent} (${call}) was sent ${group.length} times`] : [],
  );
}

// If its sender died or its job was lost, a webhook is served again once its one-minute lease expires.
const TOLD_WITHIN_MS = 90_000;

async function findUntold(runs: readonly StartedRun[], { told }: HookServer): Promise<string[]> {
  const endsAtMs = performance.now() + TOLD_WITHIN_MS;
  for (;;) {
    const untold = runs.filter(({ id, status }) => status === 'completed' && !told.has(id));
    if (untold.length === 0 || performance.now() > endsAtMs) {
      return untold.map(({ id, plan }) => `${plan.label} (${id}) has completed, and the webhook does not know`);
    }
    await delay(250);
  }
}

const DEAD_END = ['waiting', 'active', 'delayed', 'prioritized', 'waiting-children'] as const;

/** Jobs and outbox rows left although no run remains for them, and unfinished runs of requests without an answer. */
async function findStuck(probe: Probe, known: readonly string[], withinMs: number): Promise<string[]> {
  const endsAtMs = performance.now() + withinMs;
  for (;;) {
    const found = [...(await openJobs(probe, TURNS.name)), ...(await openJobs(probe, TOOL_CALLS.name))];
    const [outbox] = await probe.read((tx) => tx.query<{ count: number }>('select count(*)::int as count from outbox'));
    if (outbox && outbox.count > 0) found.push(`${outbox.count} rows in the outbox`);
    const strays = await probe.read((tx) =>
      tx.query<{ id: string; status: string }>(
        `select id, status from runs where status not in ('completed', 'failed', 'cancelled') and id <> all($1::uuid[])
           and thread_id not in (select id from sessions)`,
        [known],
      ),
    );
    found.push(...strays.map(({ id, status }) => `run ${id}, which nobody was told of, is ${status}`));
    if (found.length === 0 || performance.now() > endsAtMs) return found;
    await delay(250);
  }
}

/** A dead driver's reservations are settled by maintenance, soon after its run has ended. */
async function findDrift(probe: Probe, withinMs: number): Promise<string[]> {
  const endsAtMs = performance.now() + withinMs;
  for (;;) {
    const found = await findBudgetDrift(probe.database);
    if (found.length === 0 || performance.now() > endsAtMs) return found.map((each) => JSON.stringify(each));
    await delay(500);
  }
}

async function openJobs(probe: Probe, queue: string): Promise<string[]> {
  const counts = await probe.queues.queue(queue).getJobCounts(...DEAD_END);
  return Object.entries(counts).flatMap(([state, count]) => (count > 0 ? [`${count} ${state} in ${queue}`] : []));
}

const SAME_MOMENT_MS = 1000;

/** A killed worker held those runs whose requests to the model or a tool broke with it. */
function recoveries(evidence: Evidence, examined: ReadonlyMap<StartedRun, ExaminedRun>): number[] {
  const broken: BrokenRequest[] = [...evidence.model.broken, ...evidence.tools.broken];
  const logs = new Map([...examined].map(([run, { log }]) => [run.plan.label, log]));
  return evidence.injected.flatMap(({ fault, atMs }) => {
    if (!fault.kind.startsWith('kill') || processOf(fault.kind) === 'api') return [];
    const held = broken.filter((request) => request.atMs >= atMs && request.atMs < atMs + SAME_MOMENT_MS);
    return [...new Set(held.map(({ label }) => label))].flatMap((label) => {
      const next = logs.get(label)?.find(({ occurred_at }) => Date.parse(occurred_at) > atMs);
      return next ? [Date.parse(next.occurred_at) - atMs] : [];
    });
  });
}

function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group) group.push(item);
    else groups.set(keyOf(item), [item]);
  }
  return groups;
}
