/** Drover itself, in full or embedded mode, with a model and tools that answer at once: what remains is the cost of durability. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadConfig, type Config } from '../config.ts';
import { newId } from '../lib/new-id.ts';
import { NO_TOKENS, type ModelRequest, type ModelResponse, type StreamModel } from '../core/model.ts';
import type { ToolDefinition } from '../core/tool.ts';
import type { AgentDefinition } from '../core/definition.ts';
import { insertAgent } from '../db/agents.ts';
import { beginDataDir } from '../db/embedded-image.ts';
import { insertTool } from '../db/tools.ts';
import { migrate } from '../db/migrate.ts';
import type { Context } from '../modules/governance/context.ts';
import { DEFAULT_TENANT_ID, DEFAULT_WORKSPACE_ID } from '../modules/tenants/bootstrap.ts';
import { createRun, type CreateRun } from '../modules/runs/create-run.ts';
import { openPlatform } from '../modules/platform/open-platform.ts';
import { startWorkers, type Workers } from '../workers/start-workers.ts';
import { createMeter } from './costs.ts';
import type { Services } from './services.ts';
import { measure, pad, TOOL_CALLS, type Measured, type Timing } from './work.ts';

export const VARIANTS = ['pure', 'committed', 'queued', 'embedded'] as const;
export type Variant = (typeof VARIANTS)[number];

/** Drover in this process on its own database, with stubs for slow dependencies. */
export interface BenchDrover {
  context: Context;
  agentId: string;
  /** Creates a run; returns its id. */
  start: () => Promise<string>;
  /** Creates a run and waits for its end; returns its result. */
  run: () => Promise<number>;
  /** Waits until a run is dormant. */
  ended: (run: string) => Promise<void>;
  /** Starts workers that take jobs, subtasks too, with this concurrency. */
  serve: (concurrency: number) => Promise<void>;
  close: () => Promise<void>;
}

const QUEUES = ['turns', 'tool-calls', 'subtasks'] as const;

/**
 * Measures a variant: `pure`: pure calls inline; `committed`: inline calls, each committed; `queued`: calls through the queue;
 * `embedded`: pure calls in embedded mode with its own database directory.
 */
export async function measureDrover(variant: Variant, services: Services, timing: Timing): Promise<Measured> {
  const folder = await mkdtemp(join(tmpdir(), 'drover-bench-'));
  const drover = await openDrover(variant, services, { env: { DROVER_DATA_DIR: folder } });
  const meter = await createMeter(services);
  try {
    // Enough that no run waits for the slot of one that has just ended.
    await drover.serve(2 * timing.concurrency);
    return await measure(variant, timing, { run: drover.run, meter });
  } finally {
    await meter.close();
    await drover.close();
    await rm(folder, { recursive: true });
  }
}

interface DroverOptions {
  /** Additional configuration. */
  env?: Record<string, string>;
  /** The model. */
  stream?: StreamModel;
  /** Tools of the agent, if other than the variant's. */
  tools?: string[];
  execution?: AgentDefinition['execution_config'];
  /** Most conversation tokens sent to the model. */
  conversationTokens?: number;
  /** For every run made by `start`. */
  config?: CreateRun['config'];
  constraints?: AgentDefinition['constraints'];
  autonomyLevel?: AgentDefinition['autonomy_level'];
  /** Another process registers the agent. */
  isSecond?: boolean;
}

/** Opens Drover and registers an agent. Releases before 0.2.0 called `pure` `cheap`. */
export async function openDrover(
  named: Variant | 'cheap',
  services: Services,
  options: DroverOptions = {},
): Promise<BenchDrover> {
  const variant = named === 'cheap' ? 'pure' : named;
  if (!VARIANTS.includes(variant)) throw new Error(`There is no variant "${named}": ${VARIANTS.join(', ')}`);
  const config = benchConfig(variant, services, options.env ?? {});
  if (variant === 'embedded') await beginDataDir(config.dataDir);
  await migrate(config);
  const platform = await openPlatform(config);
  const models = stubModels(options.stream ?? answerer(isPure(variant) ? 'calculator' : 'add'));
  const waiting = new Map<string, () => void>();
  const stubbed = { ...platform.context, models, tools: { ...platform.context.tools, execute: stubTool } };
  const context = tellingDormant(stubbed, (run) => waiting.get(run)?.());
  let workers: Workers | undefined;
  const agentId = options.isSecond ? '' : await registerAgent(context, variant, options);
  const ended = async (run: string) => {
    await new Promise<void>((resolve) => waiting.set(run, resolve));
    waiting.delete(run);
  };
  return {
    context,
    agentId,
    ended,
    start: () => start(context, agentId, options.config),
    async run() {
      const runId = await start(context, agentId);
      await ended(runId);
      const result = results.get(runId) ?? Number.NaN;
      results.delete(runId);
      return result;
    },
    async serve(concurrency) {
      const each = { ...config.concurrency, turns: concurrency, 'tool-calls': concurrency, subtasks: concurrency };
      workers = await startWorkers({
        ...context,
        config: { ...config, queues: [...QUEUES], concurrency: each },
      });
    },
    async close() {
      await workers?.stop(5000);
      for (const name of QUEUES) await context.queues.queue(name).obliterate({ force: true });
      await platform.close();
    },
  };
}

/** The operator's key. */
export const BENCH_KEY = 'bench-key-that-nobody-uses';

const isPure = (variant: Variant) => variant === 'pure' || variant === 'embedded';

function benchConfig(variant: Variant, services: Services, env: Record<string, string>): Config {
  return loadConfig({
    ...(variant !== 'embedded' && { DATABASE_URL: services.databaseUrl, REDIS_URL: services.redisUrl }),
    DROVER_SECRET_KEY: 'bench',
    DROVER_API_KEY: BENCH_KEY,
    DROVER_QUEUE_PREFIX: `bench-${variant}`,
    LOG_LEVEL: 'error',
    ...env,
  });
}

/** The context, extended to report each run that becomes dormant. */
function tellingDormant(context: Context, onDormant: (run: string) => void): Context {
  return {
    ...context,
    async commit(change) {
      const result = await context.commit(change);
      if (result.ok && change.release && !change.outbox) onDormant(change.run_id);
      return result;
    },
  };
}

async function start(context: Context, agentId: string, config: CreateRun['config'] = {}): Promise<string> {
  const { body } = await createRun(context, {
    tenantId: DEFAULT_TENANT_ID,
    workspaceId: DEFAULT_WORKSPACE_ID,
    agentId,
    input: { message: pad() },
    config,
    mayRaiseAutonomy: false,
    idempotency: { tenantId: DEFAULT_TENANT_ID, route: 'bench', body: {} },
  });
  return body.run_id;
}

const results = new Map<string, number>();

const answerer =
  (toolName: string): StreamModel =>
  async (request) =>
    answer(request, toolName);

/** A real name: a reloaded run looks up the model from which its limits were taken. */
const STUB_WINDOW = { name: 'offline', tokens: 128_000 };

function stubModels(stream: StreamModel): Context['models'] {
  return {
    resolve: () => ({
      provider: 'offline',
      model: 'stub',
      stream,
      contextWindow: STUB_WINDOW.tokens,
      rateLimiter: null,
      rates: null,
    }),
    contextWindow: () => STUB_WINDOW,
    defaultName: () => 'stub',
    filesOf: () => undefined,
  };
}

function answer(request: ModelRequest, toolName: string): ModelResponse {
  const outputs = request.messages.flatMap((message) =>
    message.role === 'user'
      ? message.content.flatMap((block) =>
          block.type === 'tool_result' && typeof block.content === 'string' ? [block.content] : [],
        )
      : [],
  );
  const last = outputs.at(-1);
  const parsed = last === undefined ? { value: 0, run: '' } : (JSON.parse(last) as { value: number; run: string });
  const base = { provider: 'offline', model: 'stub', usage: { ...NO_TOKENS, input: 300, output: 250 } };
  if (outputs.length >= TOOL_CALLS) {
    results.set(parsed.run, parsed.value);
    return { ...base, content: [{ type: 'text', text: pad() }], stopReason: 'end_turn' };
  }
  const input = { expression: `${parsed.value} + ${outputs.length + 1}` };
  const use = { type: 'tool_use' as const, id: `call_${outputs.length}`, name: toolName, input };
  return { ...base, content: [{ type: 'text', text: pad() }, use], stopReason: 'tool_use' };
}

const stubTool: Context['tools']['execute'] = async (_tool, attempt) => {
  const [left = 0, right = 0] = String(attempt.arguments['expression']).split(' + ').map(Number);
  return { kind: 'succeeded', output: { value: left + right, run: attempt.runId, content: pad() } };
};

async function registerAgent(context: Context, variant: Variant, options: DroverOptions): Promise<string> {
  const agentId = newId();
  const tenantId = DEFAULT_TENANT_ID;
  await context.db.withTenant(tenantId, async (tx) => {
    if (!isPure(variant)) await insertTool(tx, { tenantId, definition: registeredTool(variant), contentHash: '' });
    const definition = {
      name: `bench ${agentId}`,
      tools: options.tools ?? [isPure(variant) ? 'calculator' : 'add'],
      execution_config: options.execution ?? {},
      ...(options.constraints && { constraints: options.constraints }),
      ...(options.autonomyLevel !== undefined && { autonomy_level: options.autonomyLevel }),
      memory_config: { short_term: { max_tokens: options.conversationTokens ?? 1_000_000 } },
    };
    await insertAgent(tx, {
      tenantId,
      workspaceId: DEFAULT_WORKSPACE_ID,
      agentId,
      version: '1.0.0',
      definition,
      contentHash: '',
    });
  });
  return agentId;
}

function registeredTool(variant: Variant): ToolDefinition {
  return {
    id: newId(),
    name: 'add',
    version: '1.0.0',
    description: 'Adds.',
    input_schema: { type: 'object', properties: { expression: { type: 'string' } }, required: ['expression'] },
    transport: { type: 'http', endpoint: 'http://127.0.0.1:9/' },
    execution: { timeout_ms: 1000, retry_config: { max_retries: 0, backoff_ms: 0 }, inline: variant === 'committed' },
    permissions: [],
    risk_level: 'WRITE_LOW_RISK',
    annotations: {},
  };
}
