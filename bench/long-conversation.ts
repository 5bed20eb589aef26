/** A run of 10,000 steps in turns of 20: a step by a new drive must cost the same as at 100 steps, cold and warm. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { NO_TOKENS, type StreamModel } from '../core/model.ts';
import { DEFAULT_TENANT_ID } from '../modules/tenants/bootstrap.ts';
import { driveRun } from '../modules/runs/drive.ts';
import { postTurn } from '../modules/runs/post-turn.ts';
import { runToolCall } from '../modules/tool-calls/run-tool-call.ts';
import { openDrover, type BenchDrover } from './drover.ts';
import type { Figure } from './figures.ts';
import type { Services } from './services.ts';
import { pad, quantile } from './work.ts';

const SHORT = 100;
const LONG = 10_000;
const STEPS_OF_TURN = 20;
/** Measured steps, each in its own drive. */
const MEASURED = 60;

interface Cost {
  /** Median time of a step: a drive, and the call that it requests. */
  ms: number;
  cpuMs: number;
  /** Longest pause of the event loop. */
  blockedMs: number;
}

/** Measures steps with queued calls at 100 steps and at 10,000, with and without the process's run cache. */
export async function measureLongConversation(services: Services): Promise<Figure[]> {
  const model = { tool: 'calculator', calls: 0 };
  const stream: StreamModel = async () => {
    const base = { provider: 'offline', model: 'stub', usage: { ...NO_TOKENS, input: 300, output: 250 } };
    if (model.calls++ % STEPS_OF_TURN === STEPS_OF_TURN - 1)
      return { ...base, content: [{ type: 'text', text: pad() }], stopReason: 'end_turn' };
    const use = {
      type: 'tool_use' as const,
      id: `call_${model.calls}`,
      name: model.tool,
      input: { expression: '1 + 1' },
    };
    return { ...base, content: [{ type: 'text', text: pad() }, use], stopReason: 'tool_use' };
  };
  const drover = await openDrover('queued', services, {
    stream,
    tools: ['calculator', 'add'],
    conversationTokens: 20_000,
    config: { keep_open: true },
  });
  try {
    const run = await drover.start();
    const turn = async () => {
      await finish(drover, run);
      const idempotency = { tenantId: DEFAULT_TENANT_ID, route: 'bench', body: null };
      const input = { message: pad() };
      await postTurn(drover.context, { ...ids(run), agentId: drover.agentId, input, idempotency });
    };
    const at = async (steps: number) => {
      model.tool = 'calculator';
      while (model.calls < steps) await turn();
      await turn();
      model.tool = 'add';
      const warm = await measureSteps(drover, { run, turn, isCold: false });
      const cold = await measureSteps(drover, { run, turn, isCold: true });
      return { warm, cold };
    };
    // Warms up: compiles the measured code.
    await at(SHORT / 2);
    const short = await at(SHORT);
    const long = await at(LONG);
    return [...figures('warm', short.warm, long.warm), ...figures('cold', short.cold, long.cold)];
  } finally {
    await drover.close();
  }
}

const ids = (runId: string) => ({ tenantId: DEFAULT_TENANT_ID, runId });

/** Drives until the turn ends. */
async function finish(drover: BenchDrover, run: string): Promise<void> {
  while (await step(drover, run));
}

/** Makes one drive and the calls it requested; false once the run waits for its next turn. */
async function step({ context }: BenchDrover, run: string): Promise<boolean> {
  const options = { stop: new AbortController().signal, draining: () => false };
  const { result } = await driveRun(context, { ...ids(run), seq: 0 }, options);
  if (result !== 'yielded') return false;
  const open = await context.db.withTenant(DEFAULT_TENANT_ID, (tx) =>
    tx.query<{ callId: string }>(
      `select id as "callId" from tool_calls where run_id = $1 and mode = 'queued' and status = 'pending'`,
      [run],
    ),
  );
  for (const { callId } of open) await runToolCall(context, { ...ids(run), callId }, options.stop);
  return true;
}

async function measureSteps(
  drover: BenchDrover,
  { run, turn, isCold }: { run: string; turn: () => Promise<void>; isCold: boolean },
): Promise<Cost> {
  const times: number[] = [];
  const cpu: number[] = [];
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  while (times.length < MEASURED) {
    if (isCold) drover.context.runCache.clear();
    const startedMs = performance.now();
    const started = process.cpuUsage();
    const isOpen = await step(drover, run);
    const { user, system } = process.cpuUsage(started);
    times.push(performance.now() - startedMs);
    cpu.push((user + system) / 1000);
    if (!isOpen) await turn();
  }
  delay.disable();
  return { ms: quantile(times, 0.5), cpuMs: quantile(cpu, 0.5), blockedMs: delay.max / 1e6 };
}

function figures(kind: string, short: Cost, long: Cost): Figure[] {
  const figure = (what: string, of: keyof Cost, goal?: string): Figure => ({
    part: 'long conversation',
    what: `${what}, ${kind}, at ${LONG} steps`,
    value: long[of],
    unit: 'ms',
    ratio: { value: long[of] / short[of], to: `at ${SHORT}` },
    ...(goal && { goal }),
  });
  return [
    figure('time of a step', 'ms', '≤ 1.2'),
    figure('CPU of a step', 'cpuMs', '≤ 1.2'),
    figure('event loop blocked', 'blockedMs', '≤ 50 ms'),
  ];
}
