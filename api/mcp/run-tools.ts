/** Agents as tools: a call starts a run and waits for its turn. */
import { z } from 'zod';
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import { isTerminal, type EventType } from '../../core/events.ts';
import { LIMITS } from '../../core/limits.ts';
import { hasScope } from '../../core/scopes.ts';
import type { AgentName } from '../../modules/agents/read-agents.ts';
import { createRun, type CreatedRun } from '../../modules/runs/create-run.ts';
import { cancelUnlessEnded } from '../../modules/runs/end-run.ts';
import {
  mayRead,
  readAnswerCalls,
  readRuns,
  readLastTurns,
  requireRun,
  type RunView,
} from '../../modules/runs/read-runs.ts';
import { sayToRun } from '../../modules/runs/say-to-run.ts';
import { streamRun } from '../../modules/runs/stream-run.ts';
import { waitForTurn } from '../../modules/runs/wait-for-turn.ts';
import { afterHandoff } from '../../modules/sessions/after-handoff.ts';
import { findAnswer } from '../../modules/tenants/idempotency.ts';
import { idParam } from '../kit/validate.ts';
import { presentAnswer, presentRun } from '../runs/schemas.ts';
import { endCall, startOf, tellCancelledCall, unlessCancelled } from './cancelled-calls.ts';
import { toolNames } from './names.ts';
import { answer, defineTool, type McpCall, type McpRequest, type McpTool } from './tool-kind.ts';

/** Clients time out after a minute without progress. */
const QUIET_WAIT_SECONDS = 50;

const input = z.strictObject({
  message: z.string().min(1).describe('What the agent shall do or answer.'),
  thread_id: idParam
    .optional()
    .describe('Goes on with the conversation of an earlier call, or answers what that asks.'),
  wait_seconds: z
    .int()
    .min(0)
    .max(LIMITS.mcpWaitSeconds)
    .optional()
    .describe('How long to wait for the answer; `get_run` waits on.'),
});

export function runTools(agents: readonly AgentName[]): McpTool[] {
  return [...toolNames(agents)].map(([name, agent]) =>
    defineTool({
      name,
      description: agent.description ?? `Runs the agent "${agent.name}".`,
      input,
      async call(call, asked) {
        const { run_id: run, turn_id: turn } = await beginOrGoOn(call, agent, asked);
        const wait = (gone: AbortSignal) => awaitRun({ ...call, gone }, { run, turn }, asked.wait_seconds);
        return unlessCancelled(call, wait, () => cancelStarted(call, run));
      },
      async start(call, asked) {
        // A task can be cancelled by `tasks/cancel` only.
        await endCall(call, call.id, 'answered');
        return (await beginOrGoOn(call, agent, asked)).run_id;
      },
    }),
  );
}

function beginOrGoOn(call: McpCall, agent: AgentName, asked: z.output<typeof input>) {
  return afterHandoff(call.context, call.caller.tenantId, () => startRun(call, agent, asked));
}

async function startRun(
  call: McpCall,
  agent: AgentName,
  { message, thread_id: threadId }: z.output<typeof input>,
): Promise<{ run_id: string; turn_id?: string }> {
  const { context, caller, replaced } = call;
  const turnInput = { message, ...(replaced !== undefined && { replaced }) };
  const idempotency = { ...startOf(call, call.id), body: { agent_id: agent.id, message, thread_id: threadId } };
  const open = threadId === undefined ? undefined : await openRunOn(call, agent, threadId);
  if (open) {
    const said = { caller, run: open, input: turnInput, traceparent: call.traceparent, idempotency };
    return { run_id: open.id, turn_id: await sayToRun(context, said) };
  }
  const created = await createRun(context, {
    tenantId: caller.tenantId,
    workspaceId: caller.workspaceId,
    agentId: agent.id,
    threadId,
    input: turnInput,
    config: {},
    mayRaiseAutonomy: hasScope(caller.scopes, 'approvals:write'),
    requestedBy: caller.keyId,
    traceparent: call.traceparent,
    idempotency,
  });
  return created.body;
}

/** The agent's unfinished run on a thread, if the caller may read it: the message then goes to that run. */
async function openRunOn(
  { context, caller }: McpCall,
  agent: AgentName,
  threadId: string,
): Promise<RunView | undefined> {
  return context.db.withTenant(caller.tenantId, async (tx) => {
    const {
      rows: [run],
    } = await readRuns(tx, caller, { threadId, limit: 1 });
    if (!run || isTerminal(run.status) || run.agent_id !== agent.id) return undefined;
    return (await mayRead(tx, caller, run.id)) ? run : undefined;
  });
}

/**
 * Ends a call without an answer and cancels the run that it started. A run that it only waits for goes on, and so does
 * one whose call was answered. Works in any process: session and id identify a call.
 */
export async function cancelCall(request: McpRequest, id: string | number): Promise<void> {
  // First, so that the waiting process knows the reason, and so that a run started later finds the call ended.
  if ((await endCall(request, id, 'cancelled')) === 'answered') return;
  const started = await findAnswer(request.context, startOf(request, id));
  if (started) await cancelStarted(request, (started as CreatedRun).run_id);
  tellCancelledCall(request, id);
}

async function cancelStarted({ context, caller }: McpRequest, runId: string): Promise<void> {
  const run = { tenantId: caller.tenantId, runId, by: caller };
  await cancelUnlessEnded(context, run, 'cancelled by the MCP client');
}

type WaitingCall = Omit<McpCall, 'id' | 'hangUp'>;

/** Waits for a turn of a run (default: the last one), and returns the run's state then. */
export async function awaitRun(
  call: WaitingCall,
  wanted: { run: string; turn?: string | undefined },
  waitSeconds?: number,
): Promise<CallToolResult> {
  const { context, caller, onProgress, gone } = call;
  const { tenantId } = caller;
  const path = { run: wanted.run };
  const turnId = wanted.turn ?? (await lastTurn(call, wanted.run));
  const seconds = waitSeconds ?? (onProgress ? LIMITS.mcpWaitSeconds : QUIET_WAIT_SECONDS);
  const ref = turnId === undefined ? undefined : { tenantId, runId: wanted.run, turnId };
  const told = new AbortController();
  const telling = ref && onProgress ? tellProgress(call, ref, told.signal) : Promise.resolve();
  try {
    const turn = ref && (await waitForTurn(context, ref, { timeoutMs: seconds * 1000, signal: gone }));
    return await context.db.withTenant(tenantId, async (tx) => {
      const run = presentRun(await requireRun(tx, caller, path));
      const answered = turn && presentAnswer(turn, await readAnswerCalls(tx, turn));
      const isError = run.status === 'failed' || (answered ? answered.error !== undefined : run.status === 'cancelled');
      return answer(inWords(run, answered), { run, ...(answered && { turn: answered }) }, isError);
    });
  } finally {
    told.abort();
    await telling;
  }
}

async function lastTurn({ context, caller }: WaitingCall, runId: string): Promise<string | undefined> {
  return context.db.withTenant(caller.tenantId, async (tx) => {
    const [last] = await readLastTurns(tx, await requireRun(tx, caller, { run: runId }), 1);
    return last?.id;
  });
}

function inWords(run: ReturnType<typeof presentRun>, turn: ReturnType<typeof presentAnswer> | undefined): string {
  if (turn?.error && turn.output.status !== 'cancelled')
    return `The run ${run.run_id} has failed: ${turn.error.message}`;
  if (turn?.error && run.status !== 'cancelled') return `The run ${run.run_id} gives no answer: ${turn.error.message}`;
  if (turn?.output.status === 'complete') return turn.output.message;
  if (run.status === 'cancelled') return `The run ${run.run_id} was cancelled.`;
  const waits = run.waits ?? [];
  if (waits.length === 0) return `The run ${run.run_id} is ${run.status}. get_run waits for it and tells more.`;
  return `The run ${run.run_id} on the thread ${run.thread_id} waits: ${JSON.stringify(waits)}`;
}

const TOLD: readonly EventType[] = [
  'model.responded',
  'tool.started',
  'tool.succeeded',
  'tool.failed',
  'turn.completed',
];

/** Reports durable events as progress: their log numbers only grow. */
async function tellProgress(
  { context, onProgress }: WaitingCall,
  ref: { tenantId: string; runId: string; turnId: string },
  signal: AbortSignal,
): Promise<void> {
  for await (const item of streamRun(context, { ...ref, after: 0, types: TOLD, signal })) {
    if (item.kind === 'logged') onProgress?.(item.event.seq, `step ${item.event.step ?? 0}: ${item.event.type}`);
  }
}
