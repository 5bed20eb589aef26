/** Drives the planned runs over HTTP, and waits for their ends. */
import { setTimeout as delay } from 'node:timers/promises';
import type { RetryingClient } from './client.ts';
import { findRun, type Probe } from './probe.ts';
import { GATED_TOOL, HTTP_TOOLS, renamed, type HttpTool, type PlannedRun, type Script } from './plan.ts';

export interface StartedRun {
  id: string;
  plan: PlannedRun;
  /** Labels of earlier runs on its thread. */
  before: string[];
  /** Undefined until it has ended. */
  status?: string;
  answer?: string | undefined;
  error?: unknown;
}

export const MODEL = 'anthropic/claude-haiku-4-5';
const TOOL_TIMEOUT_MS = 20_000;
const POLL_MS = 500;
const NEVER_REACHED = 1_000_000_000;

/** Registers the tools, a budget that is never exceeded, and an agent that is told of unknown outcomes; returns its id. */
export async function createAgent(client: RetryingClient, toolsUrl: string): Promise<string> {
  for (const name of HTTP_TOOLS) await client.post('/v1/tools', toolOf(name, toolsUrl), `tool-${name}`);
  await client.post('/v1/budgets', { period: 'total', max_tokens: NEVER_REACHED }, 'budget');
  const agent = {
    name: 'torture',
    tools: ['calculator', ...HTTP_TOOLS],
    llm_config: { default_model: MODEL },
    execution_config: { on_unknown: 'tell_model', timeout_seconds: 3600 },
    memory_config: { short_term: { max_tokens: 10_000_000 } },
  };
  return (await client.post<{ agent_id: string }>('/v1/agents', agent, 'agent')).agent_id;
}

/** The registration of an HTTP tool. */
export function toolOf(name: HttpTool, url: string): Record<string, unknown> {
  return {
    name,
    description: `Counts as ${name}.`,
    transport: { type: 'http', endpoint: `${url}/${name}`, headers: { 'x-torture-tool': name } },
    execution: {
      timeout_ms: TOOL_TIMEOUT_MS,
      retry_config: { max_retries: 6, backoff_ms: 100 },
      inline: name.endsWith('_inline'),
    },
    ...(name === 'lookup' && { risk_level: 'READ_ONLY' }),
    ...(name === GATED_TOOL && { risk_level: 'WRITE_HIGH_RISK' }),
    ...(name.startsWith('record') && { annotations: { idempotentHint: true } }),
  };
}

interface StartedWork {
  agent: string;
  plan: readonly PlannedRun[];
  started: StartedRun[];
  probe: Probe;
  /** How long no run may start or end before a run that follows another is given up. */
  patienceMs: number;
  signal: AbortSignal;
}

/** Starts each run at its time; `started` grows meanwhile. */
export async function startRuns(client: RetryingClient, work: StartedWork): Promise<void> {
  const sinceMs = performance.now();
  const starts = new Map<string, Promise<StartedRun | undefined>>();
  const patience = { ms: work.patienceMs, movedAtMs: sinceMs };
  const startOne = async (plan: PlannedRun): Promise<StartedRun | undefined> => {
    await delay(Math.max(0, plan.startAtMs - (performance.now() - sinceMs)), undefined, { signal: work.signal });
    if (plan.follows === undefined) {
      return plan.keyed ? startKeyed(client, work.agent, { plan }) : startKeyless(client, work, plan);
    }
    const last = await starts.get(plan.follows);
    const thread = last && (await threadOnceEnded(client, last.id, { patience, signal: work.signal }));
    if (!last || thread === undefined) return undefined;
    return startKeyed(client, work.agent, { plan, after: { ...last, thread } });
  };
  for (const plan of work.plan) {
    const start = startOne(plan);
    starts.set(plan.label, start);
    start.then((run) => {
      patience.movedAtMs = performance.now();
      if (run) work.started.push(run);
    }, ignoreHere);
  }
  await Promise.all(starts.values());
}

/** The caller that awaits them all gets the error. */
const ignoreHere = () => undefined;

/** How long to wait for starts without progress, and the time of the last progress. */
interface Patience {
  ms: number;
  movedAtMs: number;
}

/** A run's thread, once the run has ended; undefined if patience runs out before. */
async function threadOnceEnded(
  client: RetryingClient,
  id: string,
  { patience, signal }: { patience: Patience; signal: AbortSignal },
): Promise<string | undefined> {
  while (performance.now() < patience.movedAtMs + patience.ms) {
    const { status, thread_id } = await client.get<RunView>(`/v1/runs/${id}`);
    if (ENDED.includes(status)) {
      patience.movedAtMs = performance.now();
      return thread_id;
    }
    await delay(POLL_MS, undefined, { signal });
  }
  return undefined;
}

interface Started {
  run_id: string;
}

async function startKeyed(
  client: RetryingClient,
  agent: string,
  { plan, after }: { plan: PlannedRun; after?: Pick<StartedRun, 'plan' | 'before'> & { thread: string } },
): Promise<StartedRun> {
  const { path, body } = requestOf(agent, plan);
  const onThread = after ? { ...body, thread_id: after.thread } : body;
  const { run_id: id } = await client.post<Started>(path, onThread, `start-${plan.label}`);
  return { id, plan, before: after ? [...after.before, after.plan.label] : [] };
}

const SEARCH_MS = 3000;

/**
 * Starts a run without a key, which cannot just be retried. Without an answer it looks for the run, or else requests
 * another one with another label.
 */
async function startKeyless(
  client: RetryingClient,
  { agent, probe, signal }: { agent: string; probe: Probe; signal: AbortSignal },
  planned: PlannedRun,
): Promise<StartedRun> {
  for (let attempt = 1; ; attempt++) {
    const plan = attempt === 1 ? planned : renamed(planned, `${planned.label}.${attempt}`);
    const { path, body } = requestOf(agent, plan);
    const answer = await client.postOnce<Started>(path, body);
    if (answer) return { id: answer.run_id, plan, before: [] };
    await delay(SEARCH_MS, undefined, { signal });
    const id = await findRun(probe, body.input.message);
    if (id !== undefined) return { id, plan, before: [] };
  }
}

function requestOf(agent: string, { label, steps }: PlannedRun) {
  const script: Script = { label, steps };
  const config = { budget: { max_tokens: NEVER_REACHED } };
  return { path: `/v1/agents/${agent}/runs`, body: { input: { message: JSON.stringify(script) }, config } };
}

interface RunView {
  status: string;
  thread_id: string;
  output?: { message?: string };
  error?: unknown;
}

const ENDED = ['completed', 'failed', 'cancelled'];

/** Polls each run until it has ended or the time is up; ended runs get their status. */
export async function awaitEnds(client: RetryingClient, runs: readonly StartedRun[], withinMs: number): Promise<void> {
  const endsAtMs = performance.now() + withinMs;
  for (;;) {
    for (const run of runs.filter(({ status }) => status === undefined)) {
      const view = await client.get<RunView>(`/v1/runs/${run.id}`);
      if (!ENDED.includes(view.status)) continue;
      Object.assign(run, { status: view.status, answer: view.output?.message, error: view.error });
    }
    if (runs.every(({ status }) => status !== undefined) || performance.now() > endsAtMs) return;
    await delay(POLL_MS);
  }
}
