/** An engine without workers: tests take the part of the queue and drive runs and calls themselves, step by step. */
import assert from 'node:assert/strict';
import type { AgentDefinition } from '../../core/definition.ts';
import type { Message } from '../../core/content.ts';
import type { RunEvent } from '../../core/events.ts';
import { readEvent } from '../../core/events.ts';
import { digestOf } from '../../core/ids.ts';
import { newId } from '../../lib/new-id.ts';
import { messagesFor } from '../../modules/run-log/conversation.ts';
import type { Context } from '../../modules/governance/context.ts';
import { driveRun, type DriveEnd } from '../../modules/runs/drive.ts';
import { loadRun, type EventRow } from '../../db/claim-run.ts';
import { quotasOf } from '../../core/rate-limits.ts';
import type { Caller } from '../../core/caller.ts';
import { createAgent } from '../../modules/agents/create-agent.ts';
import { createRun, type CreateRun } from '../../modules/runs/create-run.ts';
import { postTurn } from '../../modules/runs/post-turn.ts';
import { registerTool, type ToolRequest } from '../../modules/tools-registry/register-tool.ts';
import type { AttemptEnd } from '../../modules/tool-calls/attempt.ts';
import { runToolCall } from '../../modules/tool-calls/run-tool-call.ts';
import { startServer, type LocalServer, type SeenRequest } from './echo-server.ts';
import { startFakeAnthropic, type AnthropicReply, type AnthropicRequest } from './fake-anthropic.ts';
import type { FakeServer } from './fake-http.ts';
import { DOMAIN_MODE, type Mode } from './modes.ts';
import { openTestPlatform, type TestPlatform } from './platform.ts';
import { rows } from './queries/access.ts';
import { waitUntil } from './wait-until.ts';
import { newName } from './new-name.ts';

type Script = (request: AnthropicRequest, n: number) => AnthropicReply | Promise<AnthropicReply>;
type ToolScript = (request: SeenRequest, n: number) => Promise<{ status: number; body: unknown }> | undefined;

export interface Engine {
  platform: TestPlatform;
  context: Context;
  tenantId: string;
  /** A key with every scope. */
  caller: Caller;
  /** The stand-in of the model; its requests so far. */
  model: FakeServer;
  /** The server of the tools; what it has seen so far. */
  tools: LocalServer;
  /** What the model answers from now on, `n` counting from 0, and no requests seen. */
  say: (script: Script | AnthropicReply[]) => void;
  /** What the tools answer from now on instead of `{"ok":true}`, and nothing seen. */
  toolsAnswer: (script: ToolScript) => void;
  agent: (definition?: Partial<AgentDefinition>, tools?: Partial<ToolRequest>[]) => Promise<string>;
  start: (agent: string, message: string, more?: Partial<CreateRun>) => Promise<{ run: string; thread: string }>;
  post: (agent: string, run: string, message: string) => Promise<string>;
  /** One job of `turns`, in `context` or another. */
  drive: (run: string, context?: Context) => Promise<DriveEnd>;
  /** One job of `tool-calls` for each open call, or for one. */
  makeCalls: (run: string, context?: Context) => Promise<AttemptEnd[]>;
  /** Drives and makes calls until nothing is left to do. */
  finish: (run: string) => Promise<void>;
  /** Until every model may be asked again. */
  gatesOpen: () => Promise<void>;
  /** As if every provider that is known to be away had been asked, and had answered. */
  providersBack: () => Promise<void>;
  /** As if every process that holds anything had died long ago. */
  everyoneDies: () => Promise<void>;
  log: (run: string) => Promise<RunEvent[]>;
  /** The conversation as the model would get it now. */
  conversation: (run: string) => Promise<Message[]>;
  close: () => Promise<void>;
}

/** Opens the platform, in the mode of domain suites unless told otherwise, with stand-ins for the model and for the tools' server. */
export async function openEngine(mode: Mode = DOMAIN_MODE, environment: Record<string, string> = {}): Promise<Engine> {
  /** The governance that the calls of a run were last gated by. */
  const gatedBy = new Map<string, number>();
  let script: Script = () => text('ok');
  let toolScript: ToolScript = () => undefined;
  const model = await startFakeAnthropic((request, n) => script(request, n), { scriptsTitles: true });
  const tools = await startServer((request, response) => {
    const answer = toolScript(request, tools.seen.length - 1) ?? Promise.resolve({ status: 200, body: { ok: true } });
    void answer.then(({ status, body }) => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body));
    });
  });
  const env = { ANTHROPIC_API_KEY: 'sk-test', ANTHROPIC_BASE_URL: model.url, ...environment };
  const platform = await openTestPlatform(mode, { env });
  const { context, tenantId: tenant } = platform;
  const { db } = context;
  const caller: Caller = {
    tenantId: tenant,
    workspaceId: platform.workspaceId,
    boundWorkspaceId: undefined,
    keyId: newId(),
    scopes: ['admin'],
    quotas: quotasOf({ planTier: 'standard', isDefault: true, settings: {} }),
    isOperator: true,
  };
  const inTenant = <R extends object>(sql: string, run: string) => rows<R>({ context, tenantId: tenant }, sql, run);
  const loaded = async (run: string) => {
    const found = await loadRun(db, { tenant_id: tenant, run_id: run });
    assert.ok(found.ok);
    return found;
  };

  const engine: Engine = {
    platform,
    context,
    tenantId: tenant,
    caller,
    model,
    tools,
    say(next) {
      model.requests.length = 0;
      script = typeof next === 'function' ? next : (_request, n) => next[n] ?? text('nothing more to say');
    },
    toolsAnswer(next) {
      tools.seen.length = 0;
      toolScript = next;
    },
    async agent(definition = {}, requested = []) {
      return db.withTenant(tenant, async (tx) => {
        const names: string[] = [];
        for (const request of requested) {
          const name = `${request.name ?? 'tool'}_${newId().slice(-8)}`;
          const { url } = tools;
          const transport = { type: 'http' as const, endpoint: `${url}/${request.name ?? 'tool'}` };
          const tool = { description: 'A tool of a test.', transport, ...request, name };
          const { id } = await registerTool(tx, { caller, tools: context.tools }, tool);
          names.push(id);
        }
        const own = definition.tools ?? [];
        const { id } = await createAgent(tx, caller, {
          name: newName('tester'),
          ...definition,
          tools: [...own, ...names],
        });
        return id;
      });
    },
    async start(agent, message, more = {}) {
      const request: CreateRun = {
        tenantId: tenant,
        workspaceId: platform.workspaceId,
        agentId: agent,
        input: { message },
        config: {},
        mayRaiseAutonomy: true,
        idempotency: { tenantId: tenant, route: 'test', body: null },
        ...more,
      };
      const { body } = await createRun(context, request);
      return { run: body.run_id, thread: body.thread_id };
    },
    async post(agent, run, message) {
      const idempotency = { tenantId: tenant, route: 'test', body: null };
      const posted = await postTurn(context, {
        tenantId: tenant,
        agentId: agent,
        runId: run,
        input: { message },
        idempotency,
      });
      return posted.turnId;
    },
    async drive(run, within = context) {
      const options = { stop: new AbortController().signal, draining: () => false };
      const { result } = await driveRun(within, { tenantId: tenant, runId: run, seq: 0 }, options);
      gatedBy.set(run, (await db.withTenant(tenant, (tx) => context.governance.current(tx, tenant))).epoch);
      return result;
    },
    async makeCalls(run, within = context) {
      const open = await inTenant<{ callId: string; attempt: number; step: number; turnId: string }>(
        `select id as "callId", attempt, step, turn_id as "turnId" from tool_calls where run_id = $1 and mode = 'queued' and status in ('pending', 'running') order by place`,
        run,
      );
      // As the driver's job has it: the gate that let the calls pass; none where a person had to.
      const asked = await inTenant(
        `select seq from run_events where run_id = $1 and type = 'approval.requested' limit 1`,
        run,
      );
      const policyEpoch = asked.length > 0 ? undefined : gatedBy.get(run);
      const ends: AttemptEnd[] = [];
      for (const job of open) {
        const payload = { tenantId: tenant, runId: run, policyEpoch, ...job };
        ends.push((await runToolCall(within, payload, new AbortController().signal)).end);
      }
      return ends;
    },
    async finish(run) {
      for (let round = 0; round < 50; round++) {
        if ((await engine.drive(run)) !== 'yielded') return;
        await engine.makeCalls(run);
        await engine.gatesOpen();
      }
      throw new Error('the run has no end');
    },
    gatesOpen: () =>
      waitUntil('the gates open', async () => {
        const shut = await rows(engine, 'select name from model_rates where closed_until > clock_timestamp()');
        return shut.length === 0;
      }),
    async providersBack() {
      await db.asMaintenance((tx) => tx.query('delete from model_outages'));
    },
    async everyoneDies() {
      context.runCache.clear();
      await db.asMaintenance((tx) => tx.query('select void_leases()'));
    },
    async log(run) {
      const events = await inTenant<EventRow & { occurred_at: string }>(
        'select seq, type, schema_version, turn_id, step, actor, payload, occurred_at from run_events where run_id = $1 order by seq',
        run,
      );
      return events.map(readEvent);
    },
    conversation: async (run) => messagesFor((await loaded(run)).messages, Number.POSITIVE_INFINITY).messages,
    async close() {
      await platform.close();
      await Promise.all([model.close(), tools.close()]);
    },
  };
  return engine;
}

/** An answer in words. */
export function text(words: string): AnthropicReply {
  return { content: [{ type: 'text', text: words }] };
}

/** An answer that uses tools: name, arguments, and an id of its own where the test does not say. */
export function use(...uses: { name: string; input?: Record<string, unknown>; id?: string }[]): AnthropicReply {
  return {
    content: uses.map(({ name, input = {}, id }) => ({
      type: 'tool_use',
      id: id ?? `toolu_${digestOf([name, input, Math.random()]).slice(0, 12)}`,
      name,
      input,
    })),
  };
}

/** A door that a script can wait at until the test opens it; `reached` settles when somebody waits. */
export function door(): { pass: () => Promise<void>; open: () => void; reached: Promise<void> } {
  let open: () => void = () => undefined;
  let arrive: () => void = () => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  const reached = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  return {
    pass: () => {
      arrive();
      return opened;
    },
    open,
    reached,
  };
}

/** The names under which the tools of a request were offered, by the first part of their name. */
export function offered(request: AnthropicRequest, name: string): string {
  const tool = request.tools?.find((each) => each.name === name || each.name.startsWith(`${name}_`));
  assert.ok(tool, `the model was offered no ${name}`);
  return tool.name;
}
