/** Waits for the end of a turn, for those who want their answer in one request. */
import { setTimeout as sleep } from 'node:timers/promises';
import { LIMITS } from '../../core/limits.ts';
import { findTurn, type TurnRow } from '../../db/turns.ts';
import type { Context } from '../governance/context.ts';

export interface WaitedTurn {
  tenantId: string;
  runId: string;
  turnId: string;
}

/** The turn as it is once it has ended, or as it stands after `timeoutMs`. The work goes on either way. */
export async function waitForTurn(
  context: Context,
  ref: WaitedTurn,
  wait: { timeoutMs: number; signal: AbortSignal },
): Promise<TurnRow | undefined> {
  const deadlineMs = Date.now() + wait.timeoutMs;
  let advanced = new AbortController();
  const unsubscribe = context.bus.subscribe(ref.runId, (message) => {
    if (message.kind === 'advanced') advanced.abort();
  });
  try {
    for (;;) {
      advanced = new AbortController();
      const turn = await context.db.withTenant(ref.tenantId, (tx) => findTurn(tx, ref.runId, ref.turnId));
      const leftMs = deadlineMs - Date.now();
      if (!turn || turn.status !== 'running' || leftMs <= 0 || wait.signal.aborted) return turn;
      const pollMs = Math.min(leftMs, LIMITS.streamPollSeconds * 1000);
      await sleep(pollMs, undefined, { signal: AbortSignal.any([advanced.signal, wait.signal]) }).catch(
        () => undefined,
      );
    }
  } finally {
    unsubscribe();
  }
}
