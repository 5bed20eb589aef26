/** Waits for the end of a turn, for those who want their answer in one request. */
import { setTimeout as sleep } from 'node:timers/promises';
import { findTurn, type TurnRow } from '../../db/turns.ts';
import type { Tx } from '../../db/database.ts';
import { isAsking } from '../../db/waits.ts';
import type { Context } from '../governance/context.ts';
import { watchPosition } from './streams/watch-positions.ts';

export interface WaitedTurn {
  tenantId: string;
  runId: string;
  turnId: string;
}

/** The turn as it is once it has ended or asks somebody, or as it stands after `timeoutMs`. The work goes on either way. */
export async function waitForTurn(
  context: Context,
  ref: WaitedTurn,
  wait: { timeoutMs: number; signal: AbortSignal },
): Promise<TurnRow | undefined> {
  const deadlineMs = Date.now() + wait.timeoutMs;
  let advanced = new AbortController();
  const unsubscribe = context.bus.subscribe(ref.runId, (message) => {
    if (message.kind === 'advanced' && message.isWorking !== true) advanced.abort();
  });
  let position = -1;
  const unwatch = watchPosition(context, { kind: 'run', id: ref.runId }, (now) => {
    if (now !== position) advanced.abort();
    position = now;
  });
  try {
    for (;;) {
      advanced = new AbortController();
      const { turn, isOver } = await context.db.withTenant(ref.tenantId, (tx) => lookAt(tx, ref));
      const leftMs = deadlineMs - Date.now();
      if (isOver || leftMs <= 0 || wait.signal.aborted) return turn;
      await sleep(leftMs, undefined, { signal: AbortSignal.any([advanced.signal, wait.signal]) }).catch(
        () => undefined,
      );
    }
  } finally {
    unwatch();
    unsubscribe();
  }
}

/** A turn whose last question has just been answered is `awaiting_human` until its driver takes it up again. */
async function lookAt(tx: Tx, ref: WaitedTurn): Promise<{ turn: TurnRow | undefined; isOver: boolean }> {
  const turn = await findTurn(tx, ref.runId, ref.turnId);
  if (turn?.status !== 'awaiting_human') return { turn, isOver: turn?.status !== 'running' };
  return { turn, isOver: await isAsking(tx, ref.runId) };
}
