/** What a session of an ACP connection shows: one turn at a time, to its end. */
import { RequestError } from '@agentclientprotocol/sdk';
import type { SessionPosition } from '../../core/session-position.ts';
import type { Context } from '../../modules/governance/context.ts';
import type { ShownTurn } from '../../modules/sessions/converse.ts';
import type { AcpFrame, TurnEnd } from './acp.ts';
import { ACP } from './acp.ts';
import type { AcpAsking } from './acp-asking.ts';
import type { MessageFate } from './follow-message.ts';
import { followTurn } from './form.ts';

/** Where a prompt comes to its end: the turn has, or it waits for the client's next prompt. */
export interface Stop {
  turn: ShownTurn;
  seq: number;
  end: TurnEnd | undefined;
  /** Where the prompt has come to nothing: a newer one has taken its place, or its run was ended from outside. */
  fate?: MessageFate;
}

interface FollowParts {
  tenantId: string;
  sessionId: string;
  asking: AcpAsking;
  tell: (frames: readonly AcpFrame[], at: SessionPosition | undefined) => Promise<void>;
  /** Fires when the connection has ended. */
  signal: AbortSignal;
  /** What is shown has broken off: the client is to connect again. */
  onFault: (error: unknown) => void;
}

export interface AcpFollower {
  /** Shows a turn from after a place on. */
  follow: (turn: ShownTurn, after: number) => void;
  /** Resolves where the turn stops, at the earliest at `from`, unless that is its end. Rejects with a `RequestError`. */
  stopOf: (turnId: string, from: number) => Promise<Stop>;
  /** The turn that is shown at the moment. */
  current: () => string | undefined;
  /** Somebody waits for a turn to stop. */
  isAwaited: () => boolean;
  /** Resolves once nothing is shown any more. */
  done: () => Promise<void>;
  /** Shows no more. */
  leave: () => Promise<void>;
}

interface Waiter {
  turnId: string;
  from: number;
  settle: (stop: Stop | RequestError) => void;
}

interface Shown {
  turnId: string;
  leave: AbortController;
  done: Promise<void>;
}

export function createFollower(context: Context, parts: FollowParts): AcpFollower {
  const waiters = new Set<Waiter>();
  let shown: Shown | undefined;
  const settle = (result: Stop | RequestError, fits: (waiter: Waiter) => boolean) => {
    for (const waiter of [...waiters].filter(fits)) {
      waiters.delete(waiter);
      waiter.settle(result);
    }
  };
  const onStop = (stop: Stop) =>
    settle(stop, ({ turnId, from }) => turnId === stop.turn.turnId && (stop.end !== undefined || stop.seq >= from));
  const fail = (error: unknown, left: AbortSignal) => {
    const isGone = error instanceof RequestError;
    settle(isGone ? error : RequestError.internalError(), () => true);
    if (!isGone && !left.aborted) parts.onFault(error);
  };
  return {
    follow(turn, after) {
      const leave = new AbortController();
      const left = AbortSignal.any([leave.signal, parts.signal]);
      const done = show(context, { ...parts, signal: left, onStop }, { turn, after })
        .catch((error: unknown) => fail(error, left))
        .finally(() => {
          if (shown?.leave === leave) shown = undefined;
        });
      shown = { turnId: turn.turnId, leave, done };
    },
    stopOf: (turnId, from) =>
      new Promise((resolve, reject) => {
        waiters.add({ turnId, from, settle: (result) => (result instanceof Error ? reject(result) : resolve(result)) });
      }),
    current: () => shown?.turnId,
    isAwaited: () => waiters.size > 0,
    done: async () => shown?.done,
    async leave() {
      parts.asking.withdrawAll();
      shown?.leave.abort();
      await shown?.done;
    },
  };
}

/** Goes on where the turn waits: others may answer, too. */
async function show(
  context: Context,
  { tenantId, sessionId, asking, tell, signal, onStop }: FollowParts & { onStop: (stop: Stop) => void },
  { turn, after }: { turn: ShownTurn; after: number },
): Promise<void> {
  let from = after;
  let { head } = turn;
  while (!signal.aborted) {
    let last: { seq: number; frame: AcpFrame | undefined } | undefined;
    const about = { tenantId, turn: { ...turn, head }, after: from, signal };
    for await (const { frames, seq, isLast = false } of followTurn(context, about, ACP)) {
      await tell(frames, seq === undefined ? undefined : { place: turn.place, seq });
      asking.withdraw(frames);
      if (isLast) last = { seq: seq ?? head, frame: frames.at(-1) };
    }
    if (signal.aborted) return;
    // What is shown was erased meanwhile.
    if (!last) throw RequestError.sessionNotFound(sessionId);
    const { seq, frame } = last;
    if (frame?.kind === 'ended') {
      asking.withdrawAll();
      onStop({ turn, seq, end: frame.end });
      return;
    }
    if (frame?.kind === 'paused' && asking.ask(frame.asks)) onStop({ turn, seq, end: undefined });
    from = seq;
    head = seq + 1;
  }
}
