/** People in a torture: they answer questions, decide on calls, and contradict each other. */
import { setTimeout as delay } from 'node:timers/promises';
import type { RetryingClient } from './client.ts';
import { MODEL, toolOf } from './drive.ts';
import { GATED_TOOL, type PlannedCall, type PlannedStep, type Script, type ToolInput } from './plan.ts';
import { createRandom, type Random } from './random.ts';

/** People's decisions on a call; `contest`: one approves and another denies at the same moment. */
const VERDICTS = ['approve', 'deny', 'edit', 'contest'] as const;
export type Verdict = (typeof VERDICTS)[number];

export interface PlannedAsking extends Script {
  startAtMs: number;
  /** Whether all questions are answered before any is asked. */
  early: boolean;
  /** By the call's intent. */
  verdicts: Record<string, Verdict>;
}

/** A decision that was sent. */
export interface Decided {
  intent: string;
  verdict: Verdict;
  /** When it was first sent, in ms since 1970. */
  atMs: number;
}

export interface StartedAsking {
  plan: PlannedAsking;
  id: string;
  /** By the approval's id. */
  decided: Map<string, Decided>;
}

const RUNS_PER_ASKING = 8;

/** Plans one run per several runs that asks a person in every step: a question, or approval of one or two calls. */
export function planAskings(seed: number, { runs, withinMs }: { runs: number; withinMs: number }): PlannedAsking[] {
  const random = createRandom(seed, 'people');
  return Array.from({ length: Math.ceil(runs / RUNS_PER_ASKING) }, (_asking, index) => {
    const label = `asking-${index + 1}`;
    const verdicts: PlannedAsking['verdicts'] = {};
    const steps = Array.from({ length: random.whole(2, 4) }, (_step, step): PlannedStep => {
      const name = `${label}-${step + 1}`;
      const calls = random.chance(0.5) ? [question(name)] : gatedCalls(random, name);
      for (const { input } of calls) if ('intent' in input) verdicts[input.intent] = random.pick(VERDICTS);
      return { calls, thinkMs: random.whole(0, 150), breaks: random.chance(0.03) };
    });
    return { label, steps, startAtMs: random.whole(0, withinMs), early: random.chance(0.5), verdicts };
  });
}

function question(name: string): PlannedCall {
  return { tool: 'ask_user', input: { question: name } };
}

function gatedCalls(random: Random, name: string): PlannedCall[] {
  return Array.from({ length: random.whole(1, 2) }, (_call, place) => {
    const input: ToolInput = { intent: `${name}-${place + 1}`, ms: random.whole(2, 400), fault: 'none' };
    return { tool: GATED_TOOL, input };
  });
}

export const answerTo = (asked: string) => `The answer to ${asked}.`;
export const editedOf = (intent: string) => `${intent}-edited`;

/** A run's questions, in order. */
export function questionsOf({ steps }: Script): string[] {
  return steps.flatMap(({ calls }) => calls.flatMap(({ input }) => ('question' in input ? [input.question] : [])));
}

const LOOK_MS = 300;

interface Attended {
  toolsUrl: string;
  plan: readonly PlannedAsking[];
  started: StartedAsking[];
  /** How long nothing may happen before people give up. */
  patienceMs: number;
  signal: AbortSignal;
}

/** Starts each run at its time, and answers and decides until all have ended; `started` grows meanwhile. */
export async function attend(client: RetryingClient, work: Attended): Promise<void> {
  const { plan, started, signal } = work;
  const agent = await createAsker(client, work.toolsUrl);
  const start = async (each: PlannedAsking) => {
    await delay(each.startAtMs, undefined, { signal });
    const input = { message: JSON.stringify({ label: each.label, steps: each.steps } satisfies Script) };
    const path = `/v1/agents/${agent}/runs`;
    const { run_id: id } = await client.post<{ run_id: string }>(path, { input }, `start-${each.label}`);
    started.push({ plan: each, id, decided: new Map() });
    if (!each.early) return;
    for (const asked of questionsOf(each)) await answer(client, id, asked);
  };
  await Promise.all([Promise.all(plan.map(start)), sayAll(client, work)]);
}

async function createAsker(client: RetryingClient, toolsUrl: string): Promise<string> {
  await client.post('/v1/tools', toolOf(GATED_TOOL, toolsUrl), `tool-${GATED_TOOL}`);
  const agent = {
    name: 'asker',
    tools: ['ask_user', GATED_TOOL],
    llm_config: { default_model: MODEL },
    execution_config: { on_unknown: 'tell_model', timeout_seconds: 3600 },
  };
  return (await client.post<{ agent_id: string }>('/v1/agents', agent, 'asker')).agent_id;
}

interface AskingView {
  status: string;
  waits?: ({ type: 'user'; question: string } | { type: 'approval' })[];
}

const ENDED = ['completed', 'failed', 'cancelled'];

/** Polls every run, and answers its questions. */
async function sayAll(client: RetryingClient, { plan, started, patienceMs, signal }: Attended): Promise<void> {
  const ended = new Set<string>();
  const said = new Set<string>();
  let movedAtMs = performance.now();
  while (ended.size < plan.length && performance.now() < movedAtMs + patienceMs) {
    const before = ended.size + said.size + started.length;
    for (const run of started.filter(({ id }) => !ended.has(id))) {
      const { status, waits = [] } = await client.get<AskingView>(`/v1/runs/${run.id}`);
      if (ENDED.includes(status)) ended.add(run.id);
      const open = run.plan.early ? [] : waits.flatMap((wait) => (wait.type === 'user' ? wait.question : []));
      for (const asked of open.filter((each) => !said.has(each))) {
        said.add(asked);
        await answer(client, run.id, asked);
      }
    }
    await decideAll(client, { started, said });
    if (ended.size + said.size + started.length > before) movedAtMs = performance.now();
    await delay(LOOK_MS, undefined, { signal });
  }
}

/** Sends the answer twice; by its id it counts once. */
async function answer(client: RetryingClient, run: string, asked: string): Promise<void> {
  const body = { type: 'user', payload: { message: answerTo(asked) }, id: asked };
  const send = () => client.post(`/v1/runs/${run}/signals`, body).catch(ignoreConflict);
  await Promise.all([send(), send()]);
}

/** The other of two concurrent requests may have won. */
function ignoreConflict(error: unknown): void {
  if (!/ answered 409/.test(String(error))) throw error;
}

export interface Approval {
  id: string;
  run_id: string | null;
  arguments: { intent?: string };
}

/** Decides pending approvals as planned, each by two people at once. */
async function decideAll(
  client: RetryingClient,
  { started, said }: { started: readonly StartedAsking[]; said: Set<string> },
): Promise<void> {
  const runs = new Map(started.map((run) => [run.id, run]));
  for (const { id, run_id, arguments: given } of await client.all<Approval>(
    '/v1/approvals?status=pending',
    'approvals',
  )) {
    const run = runs.get(run_id ?? '');
    const verdict = run?.plan.verdicts[given.intent ?? ''];
    if (!run || !verdict || given.intent === undefined || said.has(id)) continue;
    said.add(id);
    run.decided.set(id, { intent: given.intent, verdict, atMs: Date.now() });
    const decide = (decision: object) => client.post(`/v1/approvals/${id}`, decision).catch(ignoreConflict);
    await Promise.all(decisionsOf(verdict, given).map(decide));
  }
}

function decisionsOf(verdict: Verdict, given: Approval['arguments']): object[] {
  const edited = { ...given, intent: editedOf(given.intent ?? '') };
  const [approve, deny, edit] = [
    { decision: 'approve' },
    { decision: 'deny', reason: 'Not this one.' },
    { decision: 'edit', arguments: edited },
  ];
  if (verdict === 'contest') return [approve, deny];
  const decision = { approve, deny, edit }[verdict];
  return [decision, decision];
}
