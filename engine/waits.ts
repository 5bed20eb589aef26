/** Calls that something from outside answers: told in the log, kept as rows, and settled by the signal that comes. */
import type { Decision } from '../core/decide.ts';
import { LIMITS } from '../core/limits.ts';
import type { CallState } from '../core/state.ts';
import type { NewWait } from '../db/run-store.ts';
import { findToolCall } from '../db/turns.ts';
import { become } from './await.ts';
import { changeCall, record, type DriveSession } from './session.ts';
import { settlementChange, settlementEvent } from './settlement.ts';

/** Opens the waits of calls that may be made now. The client is told last, of all its calls at once: its stream ends there. */
export async function openWaits(session: DriveSession, calls: readonly CallState[]): Promise<void> {
  const isClients = (call: CallState) => session.tools.get(call.name)?.transport.type === 'client';
  for (const call of calls.filter((each) => !isClients(each))) await ask(session, call);
  const clients = calls.filter(isClients);
  if (clients.length > 0) askClient(session, clients);
}

async function ask(session: DriveSession, call: CallState): Promise<void> {
  const seconds = session.definition.execution_config?.approval_timeout_seconds ?? LIMITS.approvalSeconds;
  const question = String((await argumentsOf(session, call))['question']);
  record(session, {
    type: 'input.requested',
    actor: 'agent',
    turn_id: session.state.turn?.id,
    step: session.state.steps,
    payload: { tool_call_id: call.id, type: 'user', question, timeout_seconds: seconds },
  });
  open(session, { id: call.id, type: 'user', name: null, seconds });
}

/** As the ledger has them: a rule or a person may have put others in place of the model's. */
async function argumentsOf(session: DriveSession, { id }: CallState): Promise<Record<string, unknown>> {
  const born = session.pending.newCalls.find((row) => row['id'] === id);
  if (born) return born['arguments'] as Record<string, unknown>;
  const row = await session.context.db.withTenant(session.tenant, (tx) => findToolCall(tx, id));
  if (!row) throw new Error(`the ledger has no call ${id}`);
  return row.arguments;
}

function askClient(session: DriveSession, calls: readonly CallState[]): void {
  const seconds = session.definition.execution_config?.client_tool_timeout_seconds ?? LIMITS.clientToolSeconds;
  for (const { id } of calls) open(session, { id, type: 'tool_results', name: null, seconds });
  if (session.state.status !== 'awaiting_tool') become(session, 'awaiting_tool');
  record(session, {
    type: 'client_tools.requested',
    actor: 'agent',
    turn_id: session.state.turn?.id,
    step: session.state.steps,
    payload: { tool_call_ids: calls.map(({ id }) => id), timeout_seconds: seconds },
  });
}

function open(session: DriveSession, wait: Omit<NewWait, 'turn_id'>): void {
  session.pending.waits.push({ ...wait, turn_id: session.state.turn?.id ?? '' });
  changeCall(session, { id: wait.id, from: ['pending'], set: { status: 'running', attempt: 1, started_at: 'now' } });
}

/** Answers a call with the signal that has come for it: the signal is used up in the same commit. */
export function useSignal(session: DriveSession, { call, signal }: Extract<Decision, { kind: 'use_signal' }>): void {
  const settlement = { status: 'succeeded' as const, output: signal.payload };
  const settled = { callId: call.id, attempt: call.attempt, settlement, latencyMs: 0 };
  const event = settlementEvent(settled);
  if (event.type !== 'tool.succeeded') return;
  record(session, {
    ...event,
    actor: 'user',
    turn_id: session.state.turn?.id,
    step: session.state.steps,
    payload: { ...event.payload, signal_id: signal.id },
  });
  changeCall(session, settlementChange(settled));
  session.pending.closedWaits.push(call.id);
}
