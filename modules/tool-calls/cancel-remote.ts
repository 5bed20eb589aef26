/** Cancels work begun elsewhere by a call, once the call is settled. */
import { backoffMs, lengthenedMs } from '../../core/backoff.ts';
import { LIMITS } from '../../core/limits.ts';
import { lockToolCall, keepRemote } from '../../db/tool-calls.ts';
import { lockRun } from '../../db/runs.ts';
import type { ToolCallJob } from '../../jobs/tool-calls.ts';
import type { Context } from '../governance/context.ts';
import { traceOfCall, type AttemptEnd } from './attempt.ts';

/**
 * Sends the cancellation. Not repeated once delivered; if nobody is reached, repeated a few times after increasing pauses. It
 * has no new effect, so the gate is not asked.
 */
export async function cancelRemote(context: Context, job: ToolCallJob, stop: AbortSignal): Promise<AttemptEnd> {
  const { tenantId, runId, callId } = job;
  const found = await context.db.withTenant(tenantId, async (tx) => {
    const run = await lockRun(tx, runId);
    const call = await lockToolCall(tx, callId);
    if (!run || !call?.remote || !isSettled(call.status)) return undefined;
    const pins = { tenantId, agentId: run.agent_id, agentVersion: run.agent_version, tools: run.pinned.tools };
    return { call, remote: call.remote, pinned: await context.definitions.loadIn(tx, pins) };
  });
  const tool = found?.pinned.tools.get(found.call.name);
  if (!found || !tool) return { kind: 'done' };
  const { call, remote } = found;
  const { attempt, idempotency_key: idempotencyKey } = call;
  const outcome = await context.tools.cancel(tool, {
    tenantId,
    runId,
    toolCallId: callId,
    idempotencyKey,
    attempt,
    arguments: {},
    remote,
    traceparent: traceOfCall(context, call, job.traceparent),
    timeoutMs: Math.min(tool.execution.timeout_ms, LIMITS.toolTimeoutMs),
    signal: stop,
  });
  const asked = Number(remote['cancels'] ?? 0) + 1;
  const isOver = outcome.kind === 'succeeded' || outcome.kind === 'error' || asked > LIMITS.remoteCancels;
  await context.db.withTenant(tenantId, (tx) => keepRemote(tx, callId, isOver ? null : { ...remote, cancels: asked }));
  if (isOver) return { kind: 'done' };
  context.log.warn({ run: runId, call: callId, code: outcome.code }, 'remote work could not be cancelled yet');
  const pauseMs = backoffMs({ firstMs: FIRST_PAUSE_MS, attempt: asked });
  return { kind: 'later', waitMs: lengthenedMs(pauseMs, Math.random()), attempt };
}

const FIRST_PAUSE_MS = 1000;

function isSettled(status: string): boolean {
  return status !== 'awaiting_approval' && status !== 'pending' && status !== 'running';
}
