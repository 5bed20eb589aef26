/** Opens waits of calls answered from outside: logged, stored as rows, and settled by signals. */
import { randomBytes } from 'node:crypto';
import { settleCall, useSignal } from '../../core/decision-events/tool-calls.ts';
import { askClient as askForResults, requestInput } from '../../core/decision-events/waits.ts';
import type { Decision } from '../../core/decide.ts';
import { approvalSeconds, clientToolSeconds, type AgentDefinition } from '../../core/definition.ts';
import { sha256 } from '../../core/ids.ts';
import { newSecret } from '../../lib/new-id.ts';
import { LIMITS } from '../../core/limits.ts';
import type { CallState } from '../../core/state.ts';
import { DELEGATE_TOOL, type ToolDefinition } from '../../core/tool.ts';
import { isUnvouched } from '../../core/waits.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { CallChange, NewWait } from '../../db/commit-run.ts';
import { findToolCall } from '../../db/tool-calls.ts';
import { obstacleTo } from '../governance/gate-call.ts';
import { appendEvent, changeCall, findInserted, type RunLog } from '../run-log/run-log.ts';
import type { Context } from '../governance/context.ts';
import { tokenOwner } from './token-owner.ts';
import { reauthorizeCall } from '../governance/reauthorize-call.ts';
import { settlementChange, withinOutputLimit, type OutputRoom } from '../run-log/settlement.ts';

/** A run that its driver leaves waiting. */
export interface WaitingRun {
  readonly context: Pick<Context, 'db' | 'governance' | 'keyring' | 'definitions' | 'tools'>;
  readonly tenantId: string;
  readonly run: RunRow;
  readonly definition: AgentDefinition;
  readonly tools: ReadonlyMap<string, ToolDefinition>;
  readonly log: RunLog;
  /** What a graph's node waits for, and how long. */
  readonly node?: { approval: boolean; name?: string | undefined; seconds?: number | undefined } | undefined;
}

/** Opens the waits of calls that may be made now. The client is told last, of all its calls at once, since its stream ends there. */
export async function openWaits(waiting: WaitingRun, calls: readonly CallState[]): Promise<void> {
  const clients: CallState[] = [];
  for (const call of calls) {
    const { args, obstacle } = await checked(waiting, call);
    if (waiting.node?.approval) approve(waiting, call);
    else if (obstacle) refuse(waiting, call, { code: 'stopped', message: obstacle });
    else if (waiting.tools.get(call.name)?.transport.type === 'client') clients.push(call);
    else ask(waiting, call, args);
  }
  if (clients.length > 0) askClient(waiting, clients);
}

/**
 * The arguments in the ledger, which a rule or a person may have replaced. Calls that waited for a person pass the gate again,
 * since policies may have changed.
 */
async function checked(
  waiting: WaitingRun,
  { id }: CallState,
): Promise<{ args: Record<string, unknown>; obstacle?: string | undefined }> {
  const inserted = findInserted(waiting.log, id);
  if (inserted) return { args: inserted.arguments };
  const { context, log } = waiting;
  const run = { ...waiting.run, turn_count: log.state.turnCount };
  return context.db.withTenant(waiting.tenantId, async (tx) => {
    const row = await findToolCall(tx, id);
    if (!row) throw new Error(`the ledger has no call ${id}`);
    const { decision } = await reauthorizeCall(context, tx, { run, pinned: waiting, call: row });
    return { args: row.arguments, obstacle: obstacleTo(decision) };
  });
}

function ask(waiting: WaitingRun, call: CallState, args: Record<string, unknown>): void {
  const wanted = wantedBy(waiting, call.name, args);
  if ('fault' in wanted) return refuse(waiting, call, { code: 'invalid_arguments', message: wanted.fault });
  const { type, name, question, seconds, until } = wanted;
  const named = name === undefined ? {} : { name };
  const end = until === undefined ? { timeout_seconds: seconds } : { until };
  const asked = { tool_call_id: call.id, type, ...named, ...(question !== undefined && { question }), ...end };
  appendEvent(waiting.log, requestInput(waiting.log.state, asked));
  const wait = { id: call.id, type, name: name ?? null, ...(until === undefined ? { seconds } : { until }) };
  open(waiting, type === 'webhook' ? { ...wait, ...newToken(waiting, call.id) } : wait);
}

type Wanted =
  | { type: 'user' | 'webhook' | 'timer' | 'child'; name?: string; question?: string; seconds: number; until?: string }
  | { fault: string };

/** What a call of a built-in tool waits for, and how long. */
function wantedBy({ definition, node }: WaitingRun, tool: string, args: Record<string, unknown>): Wanted {
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
    case DELEGATE_TOOL:
      return { type: 'child', seconds: LIMITS.delegationSeconds };
    case 'sleep':
      return given.until === undefined
        ? { type: 'timer', ...named, seconds: given.seconds ?? 0 }
        : { ...named, ...timerUntil(given.until) };
    default:
      return {
        type: 'user',
        ...(node?.name !== undefined && { name: node.name }),
        question: String(given.question),
        seconds: node?.seconds ?? approvalSeconds(definition),
      };
  }
}

function timerUntil(text: string): Wanted {
  const isInstant = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:\d\d)$/.test(text);
  // Parsed, the 30th of February would be a day of March.
  const isDay = new Date(`${text.slice(0, 10)}T00:00Z`).toJSON()?.slice(0, 10) === text.slice(0, 10);
  const ms = isInstant && isDay ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(ms)) return { fault: `Invalid arguments: /until: "${text}" is no RFC 3339 time.` };
  if (ms > Date.now() + LIMITS.waitSeconds * 1000) {
    return { fault: `Invalid arguments: /until: is more than ${LIMITS.waitSeconds} s away.` };
  }
  // Any past time counts as over, even one unknown to Postgres.
  return { type: 'timer', seconds: 0, until: new Date(Math.max(ms, 0)).toISOString() };
}

function refuse(waiting: WaitingRun, call: CallState, reason: { code: string; message: string }): void {
  const settlement = { status: 'failed' as const, origin: 'drover' as const, ...reason };
  const settled = { callId: call.id, attempt: 1, settlement, latencyMs: 0 };
  appendEvent(waiting.log, settleCall(waiting.log.state, settled, 'system'));
  changeCall(waiting.log, { ...settlementChange(settled), from: ['pending'], attempt: 0 });
}

/** Approval of a node's question is its answer. */
function approve(waiting: WaitingRun, call: CallState): void {
  const settled = {
    callId: call.id,
    attempt: 1,
    settlement: { status: 'succeeded' as const, output: { approved: true } },
    latencyMs: 0,
  };
  appendEvent(waiting.log, settleCall(waiting.log.state, settled, 'system'));
  changeCall(waiting.log, { ...settlementChange(settled), from: ['pending'], attempt: 0 });
}

/** Found by its hash, and stored encrypted for those who may pass it on. */
function newToken({ context, tenantId }: WaitingRun, waitId: string): Pick<NewWait, 'token'> {
  const token = newSecret();
  const { keyId, sealed } = context.keyring.seal(tokenOwner(tenantId, waitId), token, randomBytes(12));
  return { token: { hash: sha256(token).toString('hex'), key_id: keyId, sealed: sealed.toString('hex') } };
}

function askClient(waiting: WaitingRun, calls: readonly CallState[]): void {
  const seconds = clientToolSeconds(waiting.definition);
  for (const { id } of calls) open(waiting, { id, type: 'tool_results', name: null, seconds });
  const asked = { tool_call_ids: calls.map(({ id }) => id), timeout_seconds: seconds };
  appendEvent(waiting.log, ...askForResults(waiting.log.state, asked));
}

function open(waiting: WaitingRun, wait: Omit<NewWait, 'turn_id'>): void {
  waiting.log.pending.waits.push({ ...wait, turn_id: waiting.log.state.turn?.id ?? '' });
  changeCall(waiting.log, {
    id: wait.id,
    from: ['pending'],
    set: { status: 'running', attempt: 1, started_at: 'now' },
  });
}

/** Answers a call with a signal that has come, and consumes it in the same commit. Returns the row's change. */
export function answerWith(
  log: RunLog,
  { call, signal }: Extract<Decision, { kind: 'use_signal' }>,
  room: OutputRoom,
): CallChange {
  const untrusted = isUnvouched(signal) && { untrusted: true as const };
  const said = { status: 'succeeded' as const, output: signal.payload, ...untrusted };
  const settlement = withinOutputLimit(said, room);
  const settled = { callId: call.id, attempt: call.attempt, settlement, latencyMs: 0 };
  const isKept = settlement === said;
  appendEvent(log, isKept ? useSignal(log.state, call, signal) : settleCall(log.state, settled, 'system'));
  const change = settlementChange(settled);
  changeCall(log, change);
  log.pending.closedWaits.push(call.id);
  return change;
}
