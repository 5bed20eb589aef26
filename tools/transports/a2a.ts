/** Remote agents that do a piece of work (docs/a2a.md, "Remote agents"). */
import { z } from 'zod';
import { backoffMs } from '../../core/backoff.ts';
import { isClean } from '../../core/content.ts';
import { LIMITS } from '../../core/limits.ts';
import type { RemoteWork, ToolAttempt, ToolOutcome } from '../../core/tool.ts';
import { listRemoteAgent } from '../a2a/read-card.ts';
import { outcomeOfTask, questionOfTask, readSent, readTask, type RemoteTask } from '../a2a/read-task.ts';
import { ask, type A2aTransport, type Answer, type Remote } from '../a2a/rpc.ts';
import { redactRemote } from '../redact.ts';
import type { TransportKind } from '../transport-kind.ts';
import { endpoint, headers } from './fields.ts';

const schema = z
  .strictObject({
    type: z.literal('a2a'),
    endpoint: endpoint.describe("The URL of the card's interface in JSON-RPC."),
    headers,
    tenant: z
      .string()
      .min(1)
      .max(500)
      .optional()
      .describe("The `tenant` of the card's interface: each request names it."),
    max_seconds: z
      .int()
      .min(1)
      .max(LIMITS.delegationSeconds)
      .optional()
      .describe('How long a task may take; then it is cancelled.'),
  })
  .describe('An agent that is spoken to over A2A 1.0.');

export const A2A: TransportKind<A2aTransport> = {
  schemas: { a2a: schema },
  secretTexts: (transport) => Object.values(transport.headers ?? {}),
  destinationOf: (transport) => transport.endpoint,
  present: redactRemote,
  servers: {
    importSchemas: [
      z
        .strictObject({ type: z.literal('a2a'), endpoint, headers })
        .describe('A remote agent, by the URL of its card (A2A 1.0).'),
    ],
    identityOf: ({ type, endpoint: url, tenant }) => ({ type, endpoint: url, ...(tenant !== undefined && { tenant }) }),
    locate: (transport, name) => ({ server: transport, tool: name }),
  },
  open({ egress, now = () => new Date() }) {
    return {
      call({ transport, secrets }, attempt) {
        const remote = { transport, secrets, egress };
        const begun = attempt.remote && work.safeParse(attempt.remote).data;
        const at = now();
        return begun ? look(remote, { attempt, begun: resumed(begun, at), now: at }) : begin(remote, attempt, at);
      },
      listTools: (wanted) => listRemoteAgent(wanted, egress),
      cancel: ({ transport, secrets }, attempt) => cancel({ transport, secrets, egress }, attempt),
    };
  },
};

/** The stored state of a running task. */
const work = z.object({
  task_id: z.string(),
  context_id: z.string(),
  since_ms: z.number(),
  looks: z.int(),
  /** The last question, how many there were, and when it was asked. */
  asked: z.object({ id: z.string(), count: z.int(), at_ms: z.number() }).optional(),
  /** The answer to it. */
  answer: z.string().optional(),
});
type Work = z.output<typeof work>;

const TASK_NOT_FOUND = -32001;
/** The first pause between two looks, doubled each time. */
const FIRST_PAUSE_MS = 500;
/** How long a sent message may still be answered after an abort. */
const LAST_WORD_MS = 5000;

/** Sends the message. Its id is the call's idempotency key, so that a retry sends the same message. */
async function begin(remote: Remote, attempt: ToolAttempt, now: Date): Promise<ToolOutcome> {
  // A direct execution cannot be resumed later.
  const isDirect = attempt.runId === '';
  const message = { messageId: attempt.idempotencyKey, role: 'ROLE_USER', parts: partsOf(attempt.arguments) };
  const params = { message, configuration: { returnImmediately: !isDirect, historyLength: 0 } };
  const { signal, release } = outlasting(attempt.signal);
  try {
    const answer = await ask(remote, { method: 'SendMessage', params }, { ...attempt, signal });
    if ('missing' in answer) return answer.missing;
    if ('refused' in answer) return refusal(answer);
    const sent = readSent(answer.result);
    if (!sent) return ours('bad-answer', 'The remote agent answered with no task.');
    if ('outcome' in sent) return sent.outcome;
    const { id: task_id, contextId: context_id } = sent.task;
    if (!isClean([task_id, context_id]))
      return ours('bad-answer', "The remote agent's task has an id that cannot be kept.");
    const begun = { task_id, context_id, since_ms: now.getTime(), looks: 0 };
    const outcome = outcomeOf(sent.task, { remote, begun, now });
    if (!isDirect || outcome.kind !== 'elsewhere') return outcome;
    if (outcome.question !== undefined) return { ...unanswered(outcome), remote: begun };
    return { kind: 'error', code: 'still-working', message: `The remote agent goes on with its task ${task_id}.` };
  } finally {
    release();
  }
}

interface Looking {
  remote: Remote;
  begun: Work;
  now: Date;
}

/** Asks for the task's state. That has no effect, so a failed look does not end the call. */
async function look(
  remote: Remote,
  { attempt, begun, now }: Omit<Looking, 'remote'> & { attempt: ToolAttempt },
): Promise<ToolOutcome> {
  const params = { id: begun.task_id, historyLength: 0 };
  const answer = await ask(remote, { method: 'GetTask', params }, attempt);
  if ('refused' in answer && answer.refused.code === TASK_NOT_FOUND) {
    return ours('remote-gone', 'The remote agent does not know its task any more.');
  }
  const looking = { remote, begun, now };
  const task = 'result' in answer ? readTask(answer.result) : undefined;
  if (task && begun.answer !== undefined && questionOfTask(task)?.id === begun.asked?.id)
    return reply(looking, begun.answer, attempt);
  if (task) return outcomeOf(task, looking);
  if ('missing' in answer && answer.missing.kind === 'aborted') return goesOn(looking, 0);
  const askedForMs =
    'missing' in answer && answer.missing.kind === 'unreached' ? answer.missing.retryAfterMs : undefined;
  return goesOn(looking, askedForMs);
}

/**
 * Sends the answer to the task's question, as a message of the same task. Its id is the same each time. If its delivery
 * is unknown, the next look shows it: the task still asks the same, or goes on.
 */
async function reply(looking: Looking, text: string, attempt: ToolAttempt): Promise<ToolOutcome> {
  const { remote, begun } = looking;
  const { task_id: taskId, context_id: contextId, asked } = begun;
  const messageId = `${attempt.idempotencyKey}-${asked?.count ?? 0}`;
  const message = { messageId, taskId, ...(contextId && { contextId }), role: 'ROLE_USER', parts: [{ text }] };
  const params = { message, configuration: { returnImmediately: true, historyLength: 0 } };
  const answer = await ask(remote, { method: 'SendMessage', params }, attempt);
  if ('refused' in answer) return { ...refusal(answer), remote: begun };
  const sent = 'result' in answer ? readSent(answer.result) : undefined;
  if (sent && 'outcome' in sent) return sent.outcome;
  if (!sent) return goesOn(looking);
  const { answer: _told, ...kept } = begun;
  return outcomeOf(sent.task, { ...looking, begun: { ...kept, looks: 0 } });
}

/** How many looks may show the answered question before it counts as asked again. */
const SAME_LOOKS = 3;

function outcomeOf(task: RemoteTask, looking: Looking): ToolOutcome {
  const asks = questionOfTask(task);
  const { asked, looks } = looking.begun;
  // Answered, but not picked up yet: the next look tells more.
  const isOld = asks?.id === asked?.id && looks < SAME_LOOKS;
  if (asks && !isOld && leftMsOf(looking) > 0) return waits(looking, asks);
  if (asks) return goesOn(looking);
  return outcomeOfTask(task) ?? goesOn(looking);
}

/** The time of the question does not count against the task. */
function resumed(begun: Work, now: Date): Work {
  const { asked, since_ms } = begun;
  if (!asked?.at_ms) return begun;
  return { ...begun, since_ms: since_ms + now.getTime() - asked.at_ms, asked: { ...asked, at_ms: 0 } };
}

/** Stops looking until there is an answer. */
function waits(
  { begun, now }: Looking,
  { code, question, id }: NonNullable<ReturnType<typeof questionOfTask>>,
): Extract<ToolOutcome, { kind: 'elsewhere' }> {
  const { answer: _answered, asked: before, ...kept } = begun;
  const asked = { id, count: (before?.count ?? 0) + 1, at_ms: now.getTime() };
  const message = `The remote agent asks: ${question}`;
  return { kind: 'elsewhere', code, message, remote: { ...kept, looks: 0, asked }, waitMs: 0, question };
}

/** An error that is not the remote agent's own. */
function ours(code: string, message: string): Extract<ToolOutcome, { kind: 'error' }> {
  return { kind: 'error', origin: 'drover', code, message };
}

function unanswered({ code, message }: { code: string; message: string }): Extract<ToolOutcome, { kind: 'error' }> {
  return { kind: 'error', code, message };
}

/** Looks again after a pause, until the time limit. */
function goesOn({ remote, begun, now }: Looking, askedForMs = 0): ToolOutcome {
  const leftMs = leftMsOf({ remote, begun, now });
  if (leftMs <= 0) {
    const message = `The remote agent has not ended its task within ${secondsOf(remote)} s.`;
    return { ...ours('deadline', message), remote: begun };
  }
  const pauseMs = backoffMs({ firstMs: FIRST_PAUSE_MS, mostMs: LIMITS.remoteLookMs, attempt: begun.looks + 1 });
  const kept: RemoteWork = { ...begun, looks: Math.min(begun.looks + 1, 20) };
  const message = `The remote agent works on its task ${begun.task_id}.`;
  return {
    kind: 'elsewhere',
    code: 'elsewhere',
    message,
    remote: kept,
    waitMs: Math.min(Math.max(pauseMs, askedForMs), leftMs),
  };
}

function leftMsOf({ remote, begun, now }: Looking): number {
  return begun.since_ms + secondsOf(remote) * 1000 - now.getTime();
}

function secondsOf({ transport }: Remote): number {
  return transport.max_seconds ?? LIMITS.remoteTaskSeconds;
}

/** Cancels an abandoned task; if the agent has ended it, or refuses, nothing more is done. */
async function cancel(remote: Remote, attempt: ToolAttempt): Promise<ToolOutcome> {
  const begun = work.safeParse(attempt.remote).data;
  if (!begun) return { kind: 'succeeded', output: null };
  const answer = await ask(remote, { method: 'CancelTask', params: { id: begun.task_id } }, attempt);
  return 'missing' in answer ? answer.missing : { kind: 'succeeded', output: null };
}

function refusal({
  refused: { code, message },
}: Extract<Answer, { refused: unknown }>): Extract<ToolOutcome, { kind: 'error' }> {
  return { kind: 'error', code: `a2a${code}`, message };
}

/** Sends `message` as text, and all other arguments as data. */
function partsOf({ message, ...others }: Record<string, unknown>): object[] {
  const text = typeof message === 'string' ? [{ text: message }] : [];
  const rest = typeof message === 'string' || message === undefined ? others : { message, ...others };
  return Object.keys(rest).length > 0 || text.length === 0 ? [...text, { data: rest }] : text;
}

/** Fires a while after `signal`: a begun task can only be cancelled once its id is known. */
function outlasting(signal: AbortSignal): { signal: AbortSignal; release: () => void } {
  const late = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const onAbort = () => {
    timer = setTimeout(() => late.abort(signal.reason), LAST_WORD_MS);
  };
  signal.addEventListener('abort', onAbort, { once: true });
  return {
    signal: late.signal,
    release: () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
    },
  };
}
