/** A session's open requests to its ACP client. */
import { RequestError } from '@agentclientprotocol/sdk';
import type { Caller } from '../../core/caller.ts';
import { DroverError } from '../../core/errors.ts';
import type { Context } from '../../modules/governance/context.ts';
import { answerOnThread, type WaitAnswer } from '../../modules/sessions/converse.ts';
import type { AcpAsk, AcpFrame } from './acp.ts';

export interface AskingParts {
  caller: Caller;
  sessionId: string;
  canAsk: (asked: AcpAsk) => boolean;
  /** The client's answer; undefined if it gives none. */
  ask: (asked: AcpAsk, sessionId: string, signal: AbortSignal) => Promise<WaitAnswer | undefined>;
  onFault: (error: unknown) => void;
}

export interface AcpAsking {
  /**
   * Sends requests not sent yet. Returns whether the client has to answer by a prompt: a question for which it has no
   * form.
   */
  ask: (asks: readonly AcpAsk[]) => boolean;
  /** Cancels the requests that these frames report as answered. */
  withdraw: (frames: readonly AcpFrame[]) => void;
  withdrawAll: () => void;
}

interface Asking extends AskingParts {
  /** The key may not make the decision that its client has made, as under four eyes. */
  onRefusal: (error: DroverError) => void;
}

export function createAsking(
  context: Context,
  { caller, sessionId, canAsk, ask, onRefusal, onFault }: Asking,
): AcpAsking {
  const open = new Map<string, AbortController>();
  const withdraw = (id: string) => {
    open.get(id)?.abort();
    open.delete(id);
  };
  const request = async (asked: AcpAsk, signal: AbortSignal) => {
    const answer = await ask(asked, sessionId, signal);
    if (!answer || signal.aborted) return;
    const idempotency = { tenantId: caller.tenantId, route: 'ACP answer', body: null };
    const choose = (answerable: readonly { id: string }[]) =>
      answerable.some(({ id }) => id === answer.waitId) ? [answer] : [];
    await answerOnThread(context, { caller, threadId: sessionId, choose, idempotency });
  };
  return {
    ask(asks) {
      for (const asked of asks) {
        const { id } = asked.ask;
        if (open.has(id) || !canAsk(asked)) continue;
        const control = new AbortController();
        open.set(id, control);
        request(asked, control.signal).catch((error: unknown) => {
          if (error instanceof DroverError && error.status === 403 && !control.signal.aborted) return onRefusal(error);
          // Another client answered first, or this one has refused or left.
          const isTheirs = error instanceof RequestError || (error instanceof DroverError && error.status < 500);
          if (!isTheirs && !control.signal.aborted) onFault(error);
        });
      }
      return asks.some((asked) => asked.ask.kind === 'question' && !canAsk(asked));
    },
    withdraw(frames) {
      for (const frame of frames) if (frame.kind === 'answered') withdraw(frame.askId);
    },
    withdrawAll: () => [...open.keys()].forEach(withdraw),
  };
}
