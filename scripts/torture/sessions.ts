/** Sessions in a torture: users who send the next message, or interrupt, during a turn. */
import { setTimeout as delay } from 'node:timers/promises';
import type { RetryingClient } from './client.ts';
import type { PlannedCall, Script } from './plan.ts';
import { createRandom, type Random } from './random.ts';

interface PlannedMessage extends Script {
  /** Time after the previous message, or after the torture's start. */
  afterMs: number;
  mode: 'queue' | 'steer';
  /** The user interrupts this long after it was accepted. */
  interruptsAfterMs?: number;
}

interface PlannedSession {
  label: string;
  messages: PlannedMessage[];
}

export interface StartedSession {
  plan: PlannedSession;
  id: string;
  /** Messages that were answered 202, in order. */
  taken: { label: string; text: string }[];
}

const RUNS_PER_SESSION = 8;

/**
 * Plans one session per several runs. The last message is neither interrupted nor steered: it shows whether the session
 * goes on.
 */
export function planSessions(seed: number, { runs, withinMs }: { runs: number; withinMs: number }): PlannedSession[] {
  const random = createRandom(seed, 'sessions');
  return Array.from({ length: Math.ceil(runs / RUNS_PER_SESSION) }, (_session, index) => {
    const label = `session-${index + 1}`;
    const count = random.whole(3, 6);
    const messages = Array.from({ length: count }, (_message, place): PlannedMessage => {
      const afterMs = place === 0 ? random.whole(0, Math.floor(withinMs / 2)) : random.whole(0, 1500);
      const script = { label: `${label}-${place + 1}`, steps: planSteps(random, `${label}-${place + 1}`) };
      const interrupt = random.chance(0.3) && { interruptsAfterMs: random.whole(0, 600) };
      const isLast = place === count - 1;
      const mode = random.chance(0.3) && !isLast ? 'steer' : 'queue';
      return { ...script, afterMs, mode, ...(!isLast && interrupt) };
    });
    return { label, messages };
  });
}

/** Read-only steps, with too few calls for a plan, so that none needs approval. */
function planSteps(random: Random, label: string): Script['steps'] {
  return Array.from({ length: random.whole(1, 2) }, (_step, step) => ({
    calls: Array.from({ length: random.whole(1, 2) }, (_call, place): PlannedCall => {
      const intent = `${label}-${step + 1}-${place + 1}`;
      return { tool: 'lookup', input: { intent, ms: random.whole(2, 800), fault: 'none' } };
    }),
    thinkMs: random.whole(0, 300),
    breaks: false,
  }));
}

/** Talks in each session as planned; `started` grows meanwhile. */
export async function talk(
  client: RetryingClient,
  work: { agent: string; plan: readonly PlannedSession[]; started: StartedSession[]; signal: AbortSignal },
): Promise<void> {
  const talkIn = async (plan: PlannedSession) => {
    let session: StartedSession | undefined;
    for (const message of plan.messages) {
      await delay(message.afterMs, undefined, { signal: work.signal });
      const text = JSON.stringify({ label: message.label, steps: message.steps } satisfies Script);
      const about = session ? { session_id: session.id } : { agent_id: work.agent };
      const body = { ...about, message: text, user_id: plan.label, mode: message.mode };
      const { session_id: id } = await client.post<{ session_id: string }>('/agent/chat', body, message.label);
      if (!session) work.started.push((session = { plan, id, taken: [] }));
      session.taken.push({ label: message.label, text });
      if (message.interruptsAfterMs === undefined) continue;
      await delay(message.interruptsAfterMs, undefined, { signal: work.signal });
      await client.post('/agent/interrupt', { session_id: id });
    }
  };
  await Promise.all(work.plan.map(talkIn));
}
