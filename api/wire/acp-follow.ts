/** Shows turns in a session of an ACP connection: one at a time, to its end. */
import { RequestError } from '@agentclientprotocol/sdk';
import type { SessionPosition } from '../../core/session-position.ts';
import type { Context } from '../../modules/governance/context.ts';
import type { ShownTurn } from '../../modules/sessions/converse.ts';
import type { AcpFrame, TurnEnd } from './acp.ts';
import { ACP } from './acp.ts';
import type { AcpAsking } from './acp-asking.ts';
import type { MessageFate } from './follow-message.ts';
import { followTurn } from './form.ts';

/** Where a prompt ends: its turn has ended, or waits for the client's next prompt. */
export interface Stop {
  turn: ShownTurn;
  seq: number;
  end: TurnEnd | undefined;
  /** Why the prompt got no turn: a newer one replaced it, or its run was ended from outside. */
  fate?: MessageFate;
}

interface FollowParts {
  tenantId: string;
  sessionId: string;
  asking: AcpAsking;
  tell: (frames: readonly AcpFrame[], at: SessionPosition | undefined) => Promise<void>;
  /** Fires when the connection has ended. */
  signal: AbortSignal;
  /** The stream broke off: the client should connect again. */
  onFault: (error: unknown) => void;
}

export interface AcpFollower {
  /** Shows a turn, starting after a position. */
  follow: (turn: ShownTurn, after: number) => void;
  /** Resolves when the turn ends, or stops at `from` or later. Rejects with a `RequestError`. */
  stopOf: (turnId: string, from: number) => Promise<Stop>;
  /** The turn being shown. */
  current: () => string | undefined;
  /** Whether somebody waits for a turn to stop. */
  isAwaited: () => boolean;
  /** Fails the prompts that wait for the turn being shown, which goes on. */
  refuse: (error: RequestError) => void;
  /** Resolves once nothing is being shown. */
  done: () => Promise<void>;
  /** Stops showing, and resolves once it has. */
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
    refuse: (error) => settle(error, ({ turnId }) => turnId === shown?.turnId),
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

/** Shows a turn to its end, past the points where it waits: others may answer, too. */
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
    for await (const { frames, at, isLast = false } of followTurn(context, about, ACP)) {
      await tell(frames, at);
      asking.withdraw(frames);
      if (isLast) last = { seq: at?.seq ?? head, frame: frames.at(-1) };
    }
    if (signal.aborted) return;
    // Its content was erased meanwhile.
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
