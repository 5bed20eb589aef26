/** Calls that something from outside answers: told in the log, kept as rows, and settled by the signal that comes. */
import { randomBytes } from 'node:crypto';
import { settleCall, useSignal } from '../../../core/decision-events/tool-calls.ts';
import { askClient as askForResults, requestInput } from '../../../core/decision-events/waits.ts';
import type { Decision } from '../../../core/decide.ts';
import { newSecret, sha256 } from '../../../core/ids.ts';
import { LIMITS } from '../../../core/limits.ts';
import type { CallState } from '../../../core/state.ts';
import type { NewWait } from '../../../db/commit-run.ts';
import { findToolCall } from '../../../db/turns.ts';
import { approvalSeconds } from '../../approvals/approval-request.ts';
import { obstacleTo } from '../../governance/gate-call.ts';
import { appendEvent, changeCall, findInserted } from '../../run-log/run-log.ts';
import { currentRun, type DriveSession } from './session.ts';
import { tokenOwner } from '../../waits/token-owner.ts';
import { reauthorizeCall } from '../../governance/reauthorize-call.ts';
import { settlementChange } from '../../run-log/settlement.ts';

/** Opens the waits of calls that may be made now. The client is told last, of all its calls at once: its stream ends there. */
export async function openWaits(session: DriveSession, calls: readonly CallState[]): Promise<void> {
  const clients: CallState[] = [];
  for (const call of calls) {
    const { args, obstacle } = await checked(session, call);
    if (obstacle) refuse(session, call, { code: 'stopped', message: obstacle });
    else if (session.tools.get(call.name)?.transport.type === 'client') clients.push(call);
    else ask(session, call, args);
  }
  if (clients.length > 0) askClient(session, clients);
}

/**
 * The arguments as the ledger has them: a rule or a person may have put others in place of the model's. A call that
 * waited for a person passes the gate again, since policies may have changed meanwhile.
 */
async function checked(
  session: DriveSession,
  { id, name }: CallState,
): Promise<{ args: Record<string, unknown>; obstacle?: string | undefined }> {
  const inserted = findInserted(session.log, id);
  if (inserted) return { args: inserted['arguments'] as Record<string, unknown> };
  const { context } = session;
  return context.db.withTenant(session.tenantId, async (tx) => {
    const row = await findToolCall(tx, id);
    if (!row) throw new Error(`the ledger has no call ${id}`);
    const wanted = { name, arguments: row.arguments, step: session.log.state.steps };
    const { decision } = await reauthorizeCall(context, tx, { run: currentRun(session), pinned: session, ...wanted });
    return { args: row.arguments, obstacle: obstacleTo(decision) };
  });
}

function ask(session: DriveSession, call: CallState, args: Record<string, unknown>): void {
  const wanted = wantedBy(session, call.name, args);
  if ('fault' in wanted) return refuse(session, call, { code: 'invalid_arguments', message: wanted.fault });
  const { type, name, question, seconds, until } = wanted;
  const named = name === undefined ? {} : { name };
  const end = until === undefined ? { timeout_seconds: seconds } : { until };
  const asked = { tool_call_id: call.id, type, ...named, ...(question !== undefined && { question }), ...end };
  appendEvent(session.log, requestInput(session.log.state, asked));
  const wait = { id: call.id, type, name: name ?? null, ...(until === undefined ? { seconds } : { until }) };
  open(session, type === 'webhook' ? { ...wait, ...newToken(session, call.id) } : wait);
}

type Wanted =
  | { type: 'user' | 'webhook' | 'timer'; name?: string; question?: string; seconds: number; until?: string }
  | { fault: string };

/** What a call of a built-in tool waits for, and for how long. */
function wantedBy({ definition }: DriveSession, tool: string, args: Record<string, unknown>): Wanted {
  const given = args as {
    question?: string;
    name?: string;
    seconds?: number;
    timeout_seconds?: number;
    until?: string;
  };
  const named = given.name === undefined ? {} : { name: given.name };
  switch (tool) {
    case 'wait_for_webhook':
      return { type: 'webhook', ...named, seconds: given.timeout_seconds ?? LIMITS.webhookSeconds };
    case 'sleep':
      return given.until === undefined
        ? { type: 'timer', ...named, seconds: given.seconds ?? 0 }
        : { ...named, ...timerUntil(given.until) };
    default:
      return { type: 'user', question: String(given.question), seconds: approvalSeconds(definition) };
  }
}

function timerUntil(text: string): Wanted {
  const isInstant = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:\d\d)$/.test(text);
  const ms = isInstant ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(ms)) return { fault: `Invalid arguments: /until: "${text}" is no RFC 3339 time.` };
  if (ms > Date.now() + LIMITS.waitSeconds * 1000) {
    return { fault: `Invalid arguments: /until: is more than ${LIMITS.waitSeconds} s away.` };
  }
  return { type: 'timer', seconds: 0, until: new Date(ms).toISOString() };
}

function refuse(session: DriveSession, call: CallState, reason: { code: string; message: string }): void {
  const settlement = { status: 'failed' as const, ...reason };
  const settled = { callId: call.id, attempt: 1, settlement, latencyMs: 0 };
  appendEvent(session.log, settleCall(session.log.state, settled, 'system'));
  changeCall(session.log, { ...settlementChange(settled), from: ['pending'], attempt: 0 });
}

/** Found by its hash, and kept encrypted for those who may pass it on. */
function newToken({ context, tenantId }: DriveSession, waitId: string): Pick<NewWait, 'token'> {
  const token = newSecret();
  const { keyId, sealed } = context.keyring.seal(tokenOwner(tenantId, waitId), token, randomBytes(12));
  return { token: { hash: sha256(token).toString('hex'), key_id: keyId, sealed: sealed.toString('hex') } };
}

function askClient(session: DriveSession, calls: readonly CallState[]): void {
  const seconds = session.definition.execution_config?.client_tool_timeout_seconds ?? LIMITS.clientToolSeconds;
  for (const { id } of calls) open(session, { id, type: 'tool_results', name: null, seconds });
  const asked = { tool_call_ids: calls.map(({ id }) => id), timeout_seconds: seconds };
  appendEvent(session.log, ...askForResults(session.log.state, asked));
}

function open(session: DriveSession, wait: Omit<NewWait, 'turn_id'>): void {
  session.log.pending.waits.push({ ...wait, turn_id: session.log.state.turn?.id ?? '' });
  changeCall(session.log, {
    id: wait.id,
    from: ['pending'],
    set: { status: 'running', attempt: 1, started_at: 'now' },
  });
}

/** Answers a call with the signal that has come for it: the signal is used up in the same commit. */
export function answerWith(session: DriveSession, { call, signal }: Extract<Decision, { kind: 'use_signal' }>): void {
  const settlement = { status: 'succeeded' as const, output: signal.payload };
  const settled = { callId: call.id, attempt: call.attempt, settlement, latencyMs: 0 };
  appendEvent(session.log, useSignal(session.log.state, call, signal));
  changeCall(session.log, settlementChange(settled));
  session.log.pending.closedWaits.push(call.id);
}
