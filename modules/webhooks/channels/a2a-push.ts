/** A2A 1.0 push notifications: they tell a client its task's states; it fetches content with its key. */
import { z } from 'zod';
import type { Channel, Notice } from './channel.ts';

/** Log events that determine a task's state. */
export const PUSH_EVENTS = ['run.status_changed', 'run.completed', 'run.failed', 'run.cancelled'] as const;

/** Carried by each message: `token` as `X-A2A-Notification-Token`, `authentication` as `Authorization`. */
const pushToken = z.object({
  contextId: z.string(),
  token: z.string().optional(),
  authentication: z.object({ scheme: z.string(), credentials: z.string() }).optional(),
});
export type PushToken = z.output<typeof pushToken>;

const ENDS: Readonly<Record<string, string>> = {
  'run.completed': 'TASK_STATE_COMPLETED',
  'run.failed': 'TASK_STATE_FAILED',
  'run.cancelled': 'TASK_STATE_CANCELED',
};
/** Waits for people, as opposed to time or another system. */
const ASKING: readonly unknown[] = ['user', 'approval'];

/** A task's state after an event of its run; undefined if unchanged. */
export function pushedState({ type, data }: Pick<Notice, 'type' | 'data'>): string | undefined {
  const end = ENDS[type];
  if (end !== undefined) return end;
  const { from, to, waiting_for: waiting } = data.payload;
  if (to === 'awaiting_human') {
    const kind = typeof waiting === 'object' && waiting !== null && 'type' in waiting ? waiting.type : undefined;
    // Between turns no wait is named: the run waits for the next message.
    return kind === undefined || ASKING.includes(kind) ? 'TASK_STATE_INPUT_REQUIRED' : undefined;
  }
  return from === 'created' || from === 'awaiting_human' ? 'TASK_STATE_WORKING' : undefined;
}

export const A2A_PUSH: Channel = {
  protocols: ['http', 'https'],
  async send(notice, { url, secret, limits }, egress) {
    const { contextId, token, authentication } = pushToken.parse(JSON.parse(secret));
    const { run_id: taskId, seq } = notice.data;
    const status = { state: pushedState(notice), timestamp: notice.timestamp };
    const body = JSON.stringify({ statusUpdate: { taskId, contextId, status, metadata: { seq, event: notice.type } } });
    const headers = {
      'content-type': 'application/a2a+json',
      'webhook-id': notice.id,
      ...(authentication && { authorization: `${authentication.scheme} ${authentication.credentials}` }),
      ...(token !== undefined && { 'x-a2a-notification-token': token }),
    };
    return (await egress.fetch(url, { method: 'POST', headers, body, ...limits })).status;
  },
};
