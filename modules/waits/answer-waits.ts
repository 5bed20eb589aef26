/** Answers whatever a run waits for; several answers are one commit. */
import type { Caller } from '../../core/caller.ts';
import { conflict, impossible } from '../../core/errors.ts';
import { isTerminal } from '../../core/events.ts';
import { TURNS } from '../../jobs/turns.ts';
import { newId } from '../../lib/new-id.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { OutboxRow } from '../../db/commit-run.ts';
import type { Tx } from '../../db/database.ts';
import { listAnswerable, type Answerable } from '../../db/waits.ts';
import { turnJobOf } from '../run-log/turn-job.ts';
import { decideIn, type ApprovalDecision } from '../approvals/decide-approval.ts';
import type { Context } from '../governance/context.ts';
import {
  announceAppended,
  appendIn,
  appendToRun,
  type Appended,
  type AppendedChange,
} from '../run-log/append-to-run.ts';
import { idempotently, type IdempotentRequest } from '../tenants/idempotency.ts';
import { answeredCall } from './answered-call.ts';
import { takeResults, type ToolResult } from './client-calls.ts';
import { keepSignal } from './keep-signal.ts';
import { mustHaveConversation, nextTurn } from './next-turn.ts';
import { signalEvent } from './post-signal.ts';

export type WaitAnswer = {
  waitId?: string | undefined;
  /** Number of characters of it that had to be replaced. */
  replaced?: number | undefined;
} & (
  | { kind: 'answer'; message: string }
  | { kind: 'decision'; decided: ApprovalDecision }
  | { kind: 'tool_results'; results: readonly ToolResult[] }
  | { kind: 'payload'; payload: unknown }
);

interface AnsweredRun {
  caller: Caller;
  runId: string;
  answers: readonly WaitAnswer[];
  traceparent?: string | undefined;
  idempotency: IdempotentRequest;
}

/**
 * Answers open waits of a run, all or none; returns the turn that continues. Between turns an answer starts the next one.
 * Without `waitId` an answer is for the only open wait; results of the client's tools name their calls. Throws 409 with the
 * ids of open waits if there are none, if the answer is ambiguous, or if the wait was answered already; 422 for an answer of
 * the wrong kind; for decisions, what `decideApproval` throws.
 */
export async function answerWaits(
  context: Context,
  request: AnsweredRun,
): Promise<{ turnId: string; replayed: boolean }> {
  const { caller, runId } = request;
  const ref = { tenantId: caller.tenantId, runId };
  let appended: Appended | null | undefined;
  try {
    const answer = await idempotently(context, request.idempotency, async (tx) => {
      let turnId: string | null = null;
      appended = await appendIn(tx, ref, async (run) => {
        const next = isBetweenTurns(run) ? turnBegunBy(request) : undefined;
        turnId = next ? next.turnId : run.open_turn_id;
        if (!next) return changeFor(context, tx, { run, request });
        await mustHaveConversation(tx, run);
        return next.begin(run);
      });
      if (!turnId) throw nothingOpen('The run waits for nothing that could be answered.', []);
      return { status: 202, body: { turn_id: turnId, run_id: runId } };
    });
    if (appended) announceAppended(context, { ...appended, runId });
    return { turnId: answer.body.turn_id, replayed: answer.replayed };
  } catch (error) {
    if (error instanceof RefusedDecision) return recordRefusal(context, request, error.decision);
    throw error;
  }
}

interface Decision {
  id: string;
  decided: ApprovalDecision;
}

/** The approval has expired or lapsed: nothing is answered, but its end is logged separately. */
class RefusedDecision extends Error {
  readonly decision: Decision;

  constructor(decision: Decision) {
    super('the decision is refused');
    this.decision = decision;
  }
}

async function recordRefusal(context: Context, { caller, runId }: AnsweredRun, decision: Decision): Promise<never> {
  const { tenantId } = caller;
  let refusal = '';
  await appendToRun(context, { tenantId, runId }, async (run, tx) => {
    const made = await decideIn(context, tx, { run, ref: refOf(caller, decision.id), decided: decision.decided });
    // Thrown inside the transaction, so that nothing is decided.
    if (!made?.refusal) throw conflict('The approval has changed meanwhile; nothing was answered.');
    ({ refusal } = made);
    return made.change;
  });
  throw conflict(refusal);
}

function refOf(caller: Caller, id: string) {
  return { tenantId: caller.tenantId, id, workspaceId: caller.workspaceId, by: caller };
}

function isBetweenTurns({ open_turn_id, status }: RunRow): boolean {
  return !open_turn_id && !isTerminal(status);
}

/** Not for late answers, which name their wait. Throws 409 for answers that cannot start a turn. */
function turnBegunBy({ caller, runId, answers, traceparent }: AnsweredRun) {
  const [answer, another] = answers;
  if (another || answer?.kind !== 'answer' || answer.waitId !== undefined) {
    throw nothingOpen('The run waits for its next turn: only an "answer" without wait_id begins that.', []);
  }
  const { tenantId, keyId: requestedBy } = caller;
  return nextTurn({
    tenantId,
    runId,
    input: { message: answer.message, ...notedOf([answer]) },
    requestedBy,
    traceparent,
  });
}

interface Answering {
  run: RunRow;
  request: AnsweredRun;
}

async function changeFor(context: Context, tx: Tx, { run, request }: Answering): Promise<AppendedChange> {
  if (isTerminal(run.status)) {
    throw conflict(`The run is ${run.status}; it waits for nothing any more.`, {
      status_of_run: run.status,
      wait_ids: [],
    });
  }
  const open = await listAnswerable(tx, run.id);
  const pairs = request.answers.map((answer) => ({ answer, wait: waitOf(answer, open) }));
  const changes: AppendedChange[] = [];
  const results: ToolResult[] = [];
  for (const { answer, wait } of pairs) {
    if (answer.kind === 'tool_results') results.push(...resultsFor(answer.results, wait));
    else if (answer.kind === 'decision') {
      const decision = { id: wait?.id ?? '', decided: answer.decided };
      const isSaying = request.answers.some((other) => other !== answer && isSay(other));
      const made = await decideIn(context, tx, {
        run,
        ref: { ...refOf(request.caller, decision.id), isSaying },
        decided: answer.decided,
      });
      if (made?.refusal) throw new RefusedDecision(decision);
      if (made) changes.push(made.change);
    } else if (wait) changes.push(await signalFor(tx, run, { answer, wait, requestedBy: request.caller.keyId }));
  }
  if (results.length > 0) {
    const limitBytes = context.config.runOutputBytes;
    const noted = notedOf(request.answers.filter(({ kind }) => kind === 'tool_results'));
    const taken = await takeResults(tx, run, { results, requestedBy: request.caller.keyId, limitBytes, ...noted });
    if (taken) changes.push(taken);
  }
  return merged(run, changes);
}

function notedOf(answers: readonly WaitAnswer[]): { replaced?: number } {
  const replaced = answers.reduce((sum, answer) => sum + (answer.replaced ?? 0), 0);
  return replaced === 0 ? {} : { replaced };
}

/** Whether the model reads words of the sender's in it: once it is in the log, `findRequesters` finds the sender by it. */
function isSay(answer: WaitAnswer): boolean {
  if (answer.kind !== 'decision') return true;
  const { decision, reason } = answer.decided;
  return decision === 'edit' || decision === 'happened' || (decision === 'deny' && Boolean(reason));
}

const KINDS: Record<Answerable['type'], WaitAnswer['kind']> = {
  user: 'answer',
  approval: 'decision',
  tool_results: 'tool_results',
  webhook: 'payload',
  timer: 'payload',
};

/** The wait that an answer is for; undefined for results, which name their calls. */
function waitOf(answer: WaitAnswer, open: readonly Answerable[]): Answerable | undefined {
  const { waitId } = answer;
  const ids = open.map(({ id }) => id);
  if (open.length === 0) throw nothingOpen('The run waits for nothing that could be answered.', ids);
  if (waitId === undefined && answer.kind === 'tool_results' && open.some(({ type }) => type === 'tool_results')) {
    return undefined;
  }
  if (waitId === undefined && open.length > 1) {
    throw nothingOpen('The run waits for several things: wait_id says which of them is answered.', ids);
  }
  const wait = waitId === undefined ? open[0] : open.find(({ id }) => id === waitId);
  if (!wait) throw nothingOpen(`The run does not wait for ${waitId}, or not any more.`, ids);
  const kind = KINDS[wait.type];
  if (kind === answer.kind) return wait;
  const message = `The wait ${wait.id} is answered by "${kind}", not by "${answer.kind}".`;
  throw impossible(message, [{ path: `body.${answer.kind}`, message: `must be ${kind}` }]);
}

function nothingOpen(message: string, ids: readonly string[]) {
  return conflict(message, { wait_ids: ids });
}

/** With a wait, only results of that call are allowed. */
function resultsFor(results: readonly ToolResult[], wait: Answerable | undefined): readonly ToolResult[] {
  if (wait && results.some(({ tool_use_id }) => tool_use_id !== wait.tool_use_id)) {
    throw conflict(`The call ${wait.id} has the tool_use_id "${wait.tool_use_id}".`, { wait_ids: [wait.id] });
  }
  return results;
}

async function signalFor(
  tx: Tx,
  run: RunRow,
  {
    answer,
    wait,
    requestedBy,
  }: { answer: Extract<WaitAnswer, { kind: 'answer' | 'payload' }>; wait: Answerable; requestedBy: string | undefined },
): Promise<AppendedChange> {
  const { id: callId, name } = wait;
  const type = wait.type === 'user' ? 'user' : wait.type === 'timer' ? 'timer' : 'webhook';
  const payload = answer.kind === 'answer' ? { message: answer.message } : answer.payload;
  const id = newId();
  await keepSignal(tx, run, { id, type, payload });
  const { replaced } = answer;
  const event = signalEvent(run, { id, type, name: name ?? undefined, payload, callId, requestedBy, replaced });
  return { events: [event], ...(await answeredCall(tx, run, { callId, payload })) };
}

function isDrive({ queue }: OutboxRow): boolean {
  return queue === TURNS.name;
}

/** Merges changes, with a single job that continues the run if any has one. */
function merged(run: RunRow, changes: readonly AppendedChange[]): AppendedChange {
  const closed = changes.flatMap(({ close_waits }) => (Array.isArray(close_waits) ? close_waits : []));
  const jobs = changes.flatMap(({ outbox }) => outbox ?? []);
  // One job that continues the run is enough.
  const goesOn = jobs.some(isDrive);
  const outbox = [...jobs.filter((job) => !isDrive(job)), ...(goesOn ? [turnJobOf(run)] : [])];
  return {
    events: changes.flatMap(({ events }) => events),
    calls: changes.flatMap(({ calls }) => calls ?? []),
    ...(closed.length > 0 && { close_waits: closed }),
    ...(changes.some((change) => change.outbox !== undefined) && { outbox }),
  };
}
