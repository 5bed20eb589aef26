/** Waits for the end of a turn, for clients that want the answer in one request. */
import { findTurn, findTurnRow, wasCutOff, type TurnRow } from '../../db/turns.ts';
import { isAsking } from '../../db/waits.ts';
import type { Context } from '../governance/context.ts';

interface WaitedTurn {
  tenantId: string;
  runId: string;
  turnId: string;
}

interface TurnListener {
  /**
   * Returns the turn once it has ended or asks something, or as it stands after `timeoutMs`; the work continues either way.
   * `since`: the position from which it continued after listening began; there is nothing to see before a later one.
   */
  ended: (
    turnId: string,
    wait: { timeoutMs: number; signal: AbortSignal; since?: number | undefined },
  ) => Promise<TurnRow | undefined>;
  close: () => void;
}

/** Starts listening for events that end a turn of the run, or make it ask. */
export function listenForTurn(context: Context, { tenantId, runId }: Omit<WaitedTurn, 'turnId'>): TurnListener {
  let heard = -1;
  let wake: () => void = () => undefined;
  const hear = (position: number) => {
    if (position <= heard) return;
    heard = position;
    wake();
  };
  const unsubscribe = context.bus.subscribe(runId, (message) => {
    if (message.kind === 'advanced' && message.isWorking !== true) hear(message.seq);
  });
  const unwatch = context.positions.watch({ kind: 'run', id: runId }, hear);
  return {
    async ended(turnId, { timeoutMs, signal, since }) {
      const deadlineMs = performance.now() + timeoutMs;
      let seen = since ?? Number.NEGATIVE_INFINITY;
      for (;;) {
        const leftMs = deadlineMs - performance.now();
        const isLast = leftMs <= 0 || signal.aborted;
        if (heard > seen || isLast) {
          seen = heard;
          const { turn, isOver } = await lookAt(context, { tenantId, runId, turnId });
          if (isOver || isLast) return turn;
        } else {
          await pause(leftMs, signal, (end) => {
            wake = end;
          });
        }
      }
    },
    close: () => {
      unwatch();
      unsubscribe();
    },
  };
}

/**
 * Waits until the time is up, the signal fires, or the callback passed to `give` is called. Creates no error, whose stack
 * would cost more than the look.
 */
async function pause(ms: number, signal: AbortSignal, give: (end: () => void) => void): Promise<void> {
  let end: () => void = () => undefined;
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  const timer = setTimeout(end, ms);
  signal.addEventListener('abort', end, { once: true });
  give(end);
  await ended;
  clearTimeout(timer);
  signal.removeEventListener('abort', end);
}

/** The same for a turn already under way. */
export async function waitForTurn(
  context: Context,
  ref: WaitedTurn,
  wait: { timeoutMs: number; signal: AbortSignal },
): Promise<TurnRow | undefined> {
  const listener = listenForTurn(context, ref);
  try {
    return await listener.ended(ref.turnId, wait);
  } finally {
    listener.close();
  }
}

/** Reads the turn, and whether the wait is over. After an answer a turn stays `awaiting_human` until its driver continues. */
async function lookAt(
  { db }: Pick<Context, 'db'>,
  { tenantId, runId, turnId }: WaitedTurn,
): Promise<{ turn: TurnRow | undefined; isOver: boolean }> {
  const turn = await db.withTenantOnce(tenantId, (tx) => findTurnRow(tx, runId, turnId));
  if (turn?.status === 'awaiting_human')
    return { turn, isOver: await db.withTenantOnce(tenantId, (tx) => isAsking(tx, runId)) };
  if (turn && wasCutOff(turn))
    return { turn: await db.withTenant(tenantId, (tx) => findTurn(tx, runId, turnId)), isOver: true };
  return { turn, isOver: turn?.status !== 'running' };
}
