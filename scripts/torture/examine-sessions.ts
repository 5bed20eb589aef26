/** Checks sessions after everything: each accepted message is in the conversation, or was replaced by a newer one. */
import { setTimeout as delay } from 'node:timers/promises';
import { readEvent, type RunEvent } from '../../core/events.ts';
import type { RetryingClient } from './client.ts';
import { findGaps, readLog } from './examine-run.ts';
import type { StartedSession } from './sessions.ts';

interface ExaminedSessions {
  /** Accepted messages that are neither in the conversation nor replaced. */
  forgotten: string[];
  gaps: string[];
  /** Sessions without the answer to their last message. */
  unlike: string[];
}

interface SessionView {
  status: string;
  queued_message: string | null;
  messages: { role: string; content: string }[];
}

const POLL_MS = 500;

/** Waits until each last message is answered or the time is up, then examines the sessions. */
export async function examineSessions(
  client: RetryingClient,
  sessions: readonly StartedSession[],
  withinMs: number,
): Promise<ExaminedSessions> {
  const endsAtMs = performance.now() + withinMs;
  const found: ExaminedSessions = { forgotten: [], gaps: [], unlike: [] };
  for (const session of sessions) {
    const view = await viewAtEnd(client, session, endsAtMs);
    const logs = await readLogs(client, session.id);
    if (!isAnswered(session, view)) {
      found.unlike.push(`${session.plan.label} (${session.id}) is ${view.status}, its last message has no answer`);
    }
    found.gaps.push(...logs.flatMap((log) => findGaps(session.plan.label, log)));
    const forgotten = findForgotten(session, { conversation: textsOf(view), logs });
    if (forgotten.length > 0) found.forgotten.push(...forgotten, ...logs.map(storyOf));
  }
  return found;
}

async function viewAtEnd(client: RetryingClient, session: StartedSession, endsAtMs: number): Promise<SessionView> {
  for (;;) {
    const view = await client.get<SessionView>(`/agent/session/${session.id}`);
    if (isAnswered(session, view) || performance.now() > endsAtMs) return view;
    await delay(POLL_MS);
  }
}

function isAnswered({ taken }: StartedSession, { status, messages }: SessionView): boolean {
  const answer = messages.at(-1);
  const isDone = answer?.role === 'assistant' && answer.content.startsWith(`done: ${taken.at(-1)?.label ?? ''}`);
  return isDone && status.startsWith('completed');
}

function textsOf({ messages }: SessionView): string[] {
  return messages.filter(({ role }) => role === 'user').map(({ content }) => content);
}

async function readLogs(client: RetryingClient, thread: string): Promise<RunEvent[][]> {
  const { runs } = await client.get<{ runs: { id: string }[] }>(`/v1/runs?thread_id=${thread}&limit=100`);
  return Promise.all(runs.map(async ({ id }) => (await readLog(client, id)).map(readEvent)));
}

/** Accepted messages that are not in the conversation and were not replaced in the queue by a newer one. */
export function findForgotten(
  { plan, taken }: StartedSession,
  { conversation, logs }: { conversation: readonly string[]; logs: readonly (readonly RunEvent[])[] },
): string[] {
  const replaced = new Set(logs.flatMap(replacedIn));
  return taken
    .filter(({ text }) => !replaced.has(text) && !conversation.some((said) => said.includes(text)))
    .map(({ label }) => `${label} was taken by ${plan.label} and is not in the conversation`);
}

/** The history of a run's messages, for debugging. */
function storyOf(log: readonly RunEvent[]): string {
  const told = log.filter(({ type }) => /^(run|turn|message|model)\./.test(type));
  return told.map(({ seq, type, payload }) => `${seq} ${type} ${labelIn(payload)}`.trim()).join(', ');
}

function labelIn(payload: object): string {
  return 'input' in payload ? (/session-[\d-]+/.exec(JSON.stringify(payload.input))?.[0] ?? '') : '';
}

function replacedIn(log: readonly RunEvent[]): string[] {
  const replaced: string[] = [];
  let waiting: { id: string; text: string } | undefined;
  for (const event of log) {
    if (event.type === 'message.dequeued' && event.payload.message_id === waiting?.id) waiting = undefined;
    if (event.type !== 'message.queued') continue;
    if (waiting) replaced.push(waiting.text);
    waiting = { id: event.payload.message_id, text: event.payload.input.message };
  }
  return replaced;
}
