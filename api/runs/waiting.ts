/** What a run waits for, from its row, approvals and waits. */
import { z } from 'zod';
import { LIMITS } from '../../core/limits.ts';
import type { AwaitedApproval, OpenWait, ProviderWait, RunView } from '../../modules/runs/read-runs.ts';
import type { WaitingTask } from '../../modules/workflows/read-workflows.ts';

export const waitingFor = z.object({
  wait_id: z
    .uuid()
    .nullable()
    .describe("The call's id, or the approval's: what `resume` answers. Null for `turn` and `provider`."),
  type: z.enum(['turn', 'user', 'approval', 'client_tools', 'timer', 'webhook', 'provider', 'child']),
  name: z.string().nullable(),
  until: z.iso.datetime(),
  question: z.string().optional().describe('Of `user`: what is asked.'),
  tool_call_id: z.uuid().nullable().optional().describe('The call that waits; null where an approval is for none.'),
  tool: z.string().optional().describe('Of `approval` and `client_tools`.'),
  tool_use_id: z.string().optional().describe('Of `client_tools`: names the call in `tool_results`.'),
  input: z.record(z.string(), z.unknown()).optional().describe('Of `client_tools`: the arguments of the call.'),
  approval_id: z.uuid().optional(),
  plan_id: z.uuid().nullable().optional(),
  kind: z.enum(['approval', 'unknown', 'conflict']).optional().describe('Of `approval`.'),
  message: z.string().nullable().optional().describe('Of `approval`: why a person is asked.'),
  since: z.iso.datetime().optional().describe('Of `provider`: since when no model has answered.'),
  next_at: z.iso.datetime().optional().describe('Of `provider`: when it is asked next; now while it is being asked.'),
  error: z.object({ code: z.string(), message: z.string() }).optional().describe('Of `provider`: what it said.'),
  run_id: z
    .uuid()
    .optional()
    .describe('Of `child`: the run whose end is waited for. What it waits for is shown there.'),
  hook_url: z.url().optional(),
});

type Waiting = z.input<typeof waitingFor>;

/** Waits that somebody can act on come first, time last. */
const ORDER = ['client_tools', 'approval', 'user', 'webhook', 'child', 'timer'] as const;

/**
 * The main wait: for a provider, else the first by `ORDER`, else for the next turn. `until`: when it gives up.
 * Undefined if the run is at work, or about to be.
 */
export function presentWaiting(row: RunView, hookUrls?: ReadonlyMap<string, string>): Waiting | undefined {
  if (row.provider_wait) return presentProviderWait(row.provider_wait);
  const waits = presentWaits(row, hookUrls);
  for (const type of ORDER) {
    const first = waits.find((wait) => wait.type === type);
    if (first) return first;
  }
  if (!row.idle_since || (row.status !== 'awaiting_human' && row.status !== 'created')) return undefined;
  const until = new Date(row.idle_since.getTime() + LIMITS.idleSeconds * 1000).toISOString();
  return { wait_id: null, type: 'turn', name: null, until };
}

/**
 * The first waiting child of a workflow, which goes on beside it: nothing else would say that somebody has to answer.
 * `children`: by task.
 */
export function presentWaitingChild(
  tasks: readonly WaitingTask[],
  children: ReadonlyMap<string, RunView>,
): Waiting | undefined {
  for (const { id, name } of tasks) {
    const child = children.get(id);
    const waiting = child && presentWaiting(child);
    if (waiting) return { wait_id: id, type: 'child', name, until: waiting.until, run_id: child.id };
  }
  return undefined;
}

/** All answerable waits, by the time they end. `hookUrls`: by wait. */
export function presentWaits(row: RunView, hookUrls?: ReadonlyMap<string, string>): Waiting[] {
  const calls = (row.waits ?? []).map((wait) => presentWait(wait, hookUrls?.get(wait.id)));
  const approvals = (row.approvals ?? []).map(presentApproval);
  return [...calls, ...approvals].toSorted((left, right) => Date.parse(left.until) - Date.parse(right.until));
}

function presentProviderWait({ since, next_at, until, error }: ProviderWait): Waiting {
  const times = { since: toInstant(since), next_at: notBeforeNow(toInstant(next_at)), until: toInstant(until) };
  return { wait_id: null, type: 'provider', name: null, ...times, error };
}

/** A time in the past means now: the run is just asking. */
function notBeforeNow(instant: string): string {
  const now = new Date().toISOString();
  return instant < now ? now : instant;
}

function presentApproval({ id, name, until, ...approval }: AwaitedApproval): Waiting {
  return { wait_id: id, type: 'approval', name, until: toInstant(until), approval_id: id, ...approval };
}

function presentWait(
  { id, type, name, until, question, call, run_id }: OpenWait,
  hookUrl: string | undefined,
): Waiting {
  return {
    wait_id: id,
    type: type === 'tool_results' ? 'client_tools' : type,
    name,
    until: toInstant(until),
    tool_call_id: id,
    ...(typeof question === 'string' && { question }),
    ...call,
    ...(typeof run_id === 'string' && { run_id }),
    ...(hookUrl !== undefined && { hook_url: hookUrl }),
  };
}

/** A time as ISO text. Waits of older builds may exceed the largest time, and get that one. */
function toInstant(time: string): string {
  const at = new Date(time);
  return Number.isNaN(at.getTime()) || at.getUTCFullYear() > 9999 ? '9999-12-31T23:59:59.999Z' : at.toISOString();
}
