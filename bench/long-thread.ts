/** A thread of 3,000 runs, one for each message, as clients of the API make them: one more must cost what it cost at 100. */
import { NO_TOKENS, type StreamModel } from '../core/model.ts';
import { createRun } from '../modules/runs/create-run.ts';
import { DEFAULT_TENANT_ID, DEFAULT_WORKSPACE_ID } from '../modules/tenants/bootstrap.ts';
import { costOfEach, createMeter, type Costs, type Meter } from './costs.ts';
import { openDrover, type BenchDrover } from './drover.ts';
import type { Figure } from './figures.ts';
import type { Services } from './services.ts';
import { pad, quantile } from './work.ts';

const SHORT = 100;
const LONG = 3000;
/** Measured runs, each with a message of the user and an answer. */
const MEASURED = 100;

interface Cost extends Pick<Costs, 'nodeMs' | 'postgresMs' | 'walKb'> {
  /** Median time of a run, from its request to its end. */
  ms: number;
}

/** Measures runs of a thread that has had 100 of them, and 3,000, where models are sent the last 20,000 tokens. */
export async function measureLongThread(services: Services): Promise<Figure[]> {
  const stream: StreamModel = async () => ({
    provider: 'offline',
    model: 'stub',
    usage: { ...NO_TOKENS, input: 300, output: 250 },
    content: [{ type: 'text', text: pad() }],
    stopReason: 'end_turn',
  });
  const drover = await openDrover('pure', services, { stream, conversationTokens: 20_000 });
  const meter = await createMeter(services);
  try {
    await drover.serve(1);
    // Compiles the measured code, on a thread of its own.
    await measureRuns(drover, meter, (await say(drover)).thread);
    const { thread } = await say(drover);
    const at = async (runs: number, from: number) => {
      for (let run = from; run < runs; run++) await say(drover, thread);
      return measureRuns(drover, meter, thread);
    };
    const short = await at(SHORT, 1);
    const long = await at(LONG, SHORT + MEASURED);
    return [
      figure('time of a run', 'ms', [short.ms, long.ms]),
      figure('CPU of a run: node', 'ms', [short.nodeMs, long.nodeMs]),
      figure('CPU of a run: Postgres', 'ms', [short.postgresMs, long.postgresMs]),
      figure('WAL of a run', 'KB', [short.walKb, long.walKb]),
    ];
  } finally {
    await meter.close();
    await drover.close();
  }
}

async function measureRuns(drover: BenchDrover, meter: Meter, thread: string): Promise<Cost> {
  const times: number[] = [];
  const before = await meter.read();
  while (times.length < MEASURED) {
    const startedMs = performance.now();
    await say(drover, thread);
    times.push(performance.now() - startedMs);
  }
  return { ms: quantile(times, 0.5), ...costOfEach(before, await meter.read(), MEASURED) };
}

async function say(drover: BenchDrover, threadId?: string): Promise<{ run: string; thread: string }> {
  const tenantId = DEFAULT_TENANT_ID;
  const { body } = await createRun(drover.context, {
    tenantId,
    workspaceId: DEFAULT_WORKSPACE_ID,
    agentId: drover.agentId,
    threadId,
    input: { message: pad() },
    config: {},
    mayRaiseAutonomy: false,
    idempotency: { tenantId, route: 'bench', body: null },
  });
  await drover.ended(body.run_id);
  return { run: body.run_id, thread: body.thread_id };
}

function figure(what: string, unit: string, [short, long]: [number, number]): Figure {
  return {
    part: 'long thread',
    what: `${what}, after ${LONG} runs`,
    value: long,
    unit,
    ratio: { value: long / short, to: `after ${SHORT}` },
    goal: '<= 1.2',
  };
}
