/** From a model's tool uses to rows of the ledger: each passes the gate before it may become a call. */
import type { ToolUseBlock } from '../core/content.ts';
import type { NewEvent } from '../core/events.ts';
import { newId } from '../core/ids.ts';
import { LIMITS } from '../core/limits.ts';
import { effectOf, isCheap, type ToolDefinition } from '../core/tool.ts';
import type { CallOutcome } from '../db/run-store.ts';
import { gate, type GateDecision } from '../policy/gate.ts';
import { validateArguments } from '../tools/validate-arguments.ts';
import { append, record, type DriveSession } from './session.ts';

/**
 * Records a call for each tool use, and one message that refers to all their results: the results are filled in when
 * they are read, so that every tool use has its result from the start.
 */
export function requestCalls(session: DriveSession, uses: readonly ToolUseBlock[], step: number): void {
  const before = (session.state.turn?.toolCalls ?? 0) - uses.length;
  const outcomes: Record<string, CallOutcome> = {};
  const content = uses.map((use, place) => {
    const decision = place < LIMITS.toolCallsPerStep ? decideOn(session, use, before + place) : tooMany(use);
    const id = requestCall(session, { use, place, step, decision });
    outcomes[id] = outcomeOf(decision);
    return { type: 'tool_result', tool_use_id: use.id, tool_call_id: id };
  });
  append(session, { role: 'user', content, outcomes });
}

interface Requested {
  use: ToolUseBlock;
  place: number;
  step: number;
  decision: GateDecision;
}

function requestCall(session: DriveSession, requested: Requested): string {
  const { use, place, step, decision } = requested;
  const id = newId();
  const turnId = session.state.turn?.id ?? '';
  const tool = decision.tool;
  const mode = modeOf(decision);
  const effect = tool ? effectOf(tool) : 'unknown';
  const about = { actor: 'agent' as const, turn_id: turnId, step };
  const payload = { tool_call_id: id, tool_use_id: use.id, place, name: use.name, mode, effect };
  const events: NewEvent[] = [{ ...about, type: 'tool.requested', payload }];
  if (decision.kind === 'allow' && mode === 'inline') {
    events.push({ ...about, actor: 'worker', type: 'tool.started', payload: { tool_call_id: id, attempt: 1 } });
  }
  if (decision.kind === 'deny')
    events.push({ ...about, actor: 'system', type: 'tool.denied', payload: refusal(id, decision) });
  if (decision.kind === 'invalid') {
    events.push({ ...about, actor: 'system', type: 'tool.failed', payload: { ...refusal(id, decision), attempts: 0 } });
  }
  record(session, ...events);
  if (decision.kind === 'allow' && mode !== 'queued') session.mine.add(id);
  session.pending.newCalls.push({
    id,
    tenant_id: session.tenant,
    run_id: session.run.id,
    turn_id: turnId,
    step,
    place,
    tool_use_id: use.id,
    tool_id: tool?.id,
    tool_version: tool?.version,
    name: use.name,
    mode,
    arguments: use.input,
    effect,
    idempotency_key: `${session.run.id}-${step}-${place}`,
    traceparent: session.traceparent,
    created_at: 'now',
    ...birth(decision, mode),
  });
  return id;
}

function modeOf(decision: GateDecision): 'cheap' | 'inline' | 'queued' {
  if (decision.kind !== 'allow') return 'queued';
  return runsInline(decision.tool);
}

function runsInline(tool: ToolDefinition): 'cheap' | 'inline' | 'queued' {
  if (isCheap(tool)) return 'cheap';
  return tool.execution.inline ? 'inline' : 'queued';
}

function birth(decision: GateDecision, mode: 'cheap' | 'inline' | 'queued'): Record<string, unknown> {
  if (decision.kind === 'allow') {
    return mode === 'queued' ? { status: 'pending', attempt: 0 } : { status: 'running', attempt: 1, started_at: 'now' };
  }
  const { code, message } = decision;
  const status = decision.kind === 'deny' ? 'denied' : 'failed';
  return { status, attempt: 0, output: message, is_error: true, error: { code, message }, finished_at: 'now' };
}

function outcomeOf(decision: GateDecision): CallOutcome {
  if (decision.kind === 'allow') return { status: 'pending', output: null, is_error: null };
  return { status: decision.kind === 'deny' ? 'denied' : 'failed', output: decision.message, is_error: true };
}

function refusal(id: string, decision: Exclude<GateDecision, { kind: 'allow' }>) {
  return { tool_call_id: id, error: { code: decision.code, message: decision.message } };
}

function decideOn(session: DriveSession, use: ToolUseBlock, callsInTurn: number): GateDecision {
  return gate({
    definition: session.definition,
    autonomyLevel: session.autonomyLevel,
    tools: session.tools,
    name: use.name,
    arguments: use.input,
    callsInTurn,
    validate: validateArguments,
  });
}

function tooMany(use: ToolUseBlock): GateDecision {
  const message = `Only ${LIMITS.toolCallsPerStep} calls may be made in one answer; "${use.name}" was not called.`;
  return { kind: 'invalid', tool: undefined, code: 'too_many_calls', message };
}
