/** Calls whose transport this build does not have: a process of a newer build may take them, for a bounded time. */
import { backoffMs } from '../core/backoff.ts';
import { LIMITS } from '../core/limits.ts';
import type { RemoteWork, ToolAttempt, ToolOutcome, ToolTransport } from '../core/tool.ts';

/** The shortest pause before another process may take the call. */
const PAUSE_MS = 5000;
/** How many looks in a row met a process without the transport, beside what the transport keeps of its work. */
const MISSED = 'missed_looks';

/** The outcome of an attempt that this process cannot make. Looks at work elsewhere use up no attempts, and are counted here. */
export function outcomeOfUnknown({ type }: ToolTransport, { remote }: Pick<ToolAttempt, 'remote'>): ToolOutcome {
  const about = { code: 'unknown-transport', message: `The transport "${type}" is not known here.` };
  if (!remote) return { kind: 'unreached', unsent: true, ...about, retryAfterMs: PAUSE_MS };
  const missed = Number(remote[MISSED] ?? 0) + 1;
  if (missed > LIMITS.unsentRetries) return { kind: 'error', origin: 'drover', ...about, remote: ownPart(remote) };
  const waitMs = backoffMs({ firstMs: LIMITS.toolBackoffMs, attempt: missed });
  return { kind: 'elsewhere', ...about, remote: { ...remote, [MISSED]: missed }, waitMs };
}

/** The attempt as a transport gets it: its work elsewhere as the transport itself keeps it. */
export function forTransport(attempt: ToolAttempt): ToolAttempt {
  return attempt.remote ? { ...attempt, remote: ownPart(attempt.remote) } : attempt;
}

function ownPart(remote: RemoteWork): RemoteWork {
  const { [MISSED]: _, ...own } = remote;
  return own;
}
