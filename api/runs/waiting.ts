/** What a run waits for, as its row and the rows of its waits say. */
import { z } from 'zod';
import { LIMITS } from '../../core/limits.ts';
import type { OpenWait, ProviderWait, RunView } from '../../modules/runs/read-runs.ts';

export const waitingFor = z.object({
  type: z.enum(['approval', 'tool_results', 'user', 'webhook', 'timer', 'provider']),
  name: z.string().nullable(),
  until: z.iso.datetime(),
  since: z.iso.datetime().optional().describe('Of `provider`: since when no model has answered.'),
  next_at: z.iso.datetime().optional().describe('Of `provider`: when it is asked next.'),
  error: z.object({ code: z.string(), message: z.string() }).optional().describe('Of `provider`: what it said.'),
  hook_url: z.url().optional(),
});

/**
 * Waits that somebody can act on come first: the client's calls, an approval, a question, a webhook, then the
 * time, then the next turn. `until` is when it gives up waiting. Undefined if it works, or is about to.
 */
export function presentWaiting(
  row: RunView,
  hookUrls?: ReadonlyMap<string, string>,
): z.input<typeof waitingFor> | undefined {
  const first = (type: OpenWait['type']) => row.waits?.find((wait) => wait.type === type);
  if (row.provider_wait) return presentProviderWait(row.provider_wait);
  const client = first('tool_results');
  if (client) return presentWait(client);
  if (row.approval_until) return { type: 'approval', name: null, until: row.approval_until.toISOString() };
  const wait = first('user') ?? first('webhook') ?? first('timer');
  const hook_url = wait && hookUrls?.get(wait.id);
  if (wait) return { ...presentWait(wait), ...(hook_url && { hook_url }) };
  if (!row.idle_since || row.status !== 'awaiting_human') return undefined;
  const until = new Date(row.idle_since.getTime() + LIMITS.idleSeconds * 1000).toISOString();
  return { type: 'user', name: null, until };
}

export const openWait = waitingFor.extend({ tool_call_id: z.uuid() });

/** All that calls of a run wait for, ordered by the time at which it ends. `hookUrls` are by wait. */
export function presentWaits(row: RunView, hookUrls?: ReadonlyMap<string, string>): z.input<typeof openWait>[] {
  return (row.waits ?? []).map((wait) => {
    const hook_url = hookUrls?.get(wait.id);
    return { ...presentWait(wait), ...(hook_url && { hook_url }), tool_call_id: wait.id };
  });
}

function presentProviderWait({ since, next_at, until, error }: ProviderWait): z.input<typeof waitingFor> {
  const when = (time: string) => new Date(time).toISOString();
  return { type: 'provider', name: null, since: when(since), next_at: when(next_at), until: when(until), error };
}

function presentWait({ type, name, until }: OpenWait): z.input<typeof waitingFor> {
  return { type, name, until: new Date(until).toISOString() };
}
