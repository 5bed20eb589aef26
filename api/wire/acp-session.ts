/** A session of an ACP connection: what its client is shown, asked and answered. */
import type { SessionNotification } from '@agentclientprotocol/sdk';
import type { TurnInput } from '../../core/events.ts';
import { toSessionSeq, type SessionPosition } from '../../core/session-position.ts';
import type { Context } from '../../modules/governance/context.ts';
import { stopTurnOf } from '../../modules/sessions/client-thread.ts';
import { readShownTurn, say, type ShownTurn } from '../../modules/sessions/converse.ts';
import { ACP, type AcpFrame } from './acp.ts';
import { createAsking, type AskingParts } from './acp-asking.ts';
import { createFollower, type AcpFollower, type Stop } from './acp-follow.ts';
import { replayThread } from './replay-thread.ts';

export interface AcpSessionParts extends AskingParts {
  agentId: string;
  update: (notification: SessionNotification) => Promise<void>;
  /** Fires when the connection has ended. */
  signal: AbortSignal;
}

export interface AcpSession {
  /** Shows what has happened after a place, and goes on with what happens. */
  load: (after: SessionPosition) => Promise<void>;
  /** Says something, and shows the turn to where it stops. With an `id` it is said once. */
  prompt: (said: Prompt) => Promise<Stop>;
  cancel: () => Promise<void>;
  isFollowing: () => boolean;
}

interface Prompt {
  input: TurnInput;
  id: string | undefined;
}

/** A session as its acts have it. */
interface Session extends AcpSessionParts {
  context: Context;
  follower: AcpFollower;
  tell: (frames: readonly AcpFrame[], at: SessionPosition | undefined) => Promise<void>;
  /** Up to where its client has been told. */
  at: SessionPosition | undefined;
}

export function openAcpSession(context: Context, parts: AcpSessionParts): AcpSession {
  const { caller, sessionId, signal, onFault } = parts;
  const tell: Session['tell'] = async (frames, at) => {
    await tellUpdates(parts, frames, at);
    if (at) session.at = at;
  };
  const asking = createAsking(context, parts);
  const { tenantId } = caller;
  const follower = createFollower(context, { tenantId, sessionId, asking, tell, signal, onFault });
  const session: Session = { ...parts, context, follower, tell, at: undefined };
  let loading: Promise<void> = Promise.resolve();
  return {
    load(after) {
      const next = loading.then(() => load(session, after));
      loading = next.catch(() => undefined);
      return next;
    },
    async prompt(said) {
      await loading;
      return prompt(session, said);
    },
    async cancel() {
      await stopTurnOf(context, { caller, threadId: sessionId });
    },
    isFollowing: () => follower.current() !== undefined,
  };
}

async function load(session: Session, after: SessionPosition): Promise<void> {
  const { context, caller, sessionId: threadId, follower, signal } = session;
  await follower.leave();
  session.at = after;
  const { tenantId } = caller;
  let stands = after;
  for await (const { frames, at } of replayThread(context, { tenantId, threadId, after }, ACP)) {
    if (signal.aborted) return;
    await session.tell(frames, at);
    stands = at;
  }
  const turn = await readShownTurn(context, caller, threadId);
  if (!turn || signal.aborted) return;
  // Whoever waits for a turn is told of its end, too.
  if (!turn.isOpen && !follower.isAwaited()) return;
  follower.follow(turn, stands.place === turn.place ? stands.seq : turn.start - 1);
}

async function prompt(session: Session, { input, id }: Prompt): Promise<Stop> {
  const { context, caller, agentId, sessionId: threadId, follower } = session;
  const before = await readShownTurn(context, caller, threadId);
  const asked = { thread: threadId, input };
  const route = 'ACP session/prompt';
  const idempotency = { tenantId: caller.tenantId, route, body: asked, ...(id !== undefined && { key: id }) };
  const turn = await say(context, { caller, agentId, threadId, input, keepsOpen: true, idempotency });
  const isAnswer = before?.turnId === turn.turnId;
  const stopped = follower.stopOf(turn.turnId, isAnswer ? before.head + 1 : turn.start);
  if (follower.current() === turn.turnId) return stopped;
  // The turn before it is over; what is left of it comes first.
  await follower.done();
  const { at } = session;
  const isShown = at !== undefined && at.place === turn.place && at.seq >= turn.start;
  const seen = isShown ? at.seq : isAnswer ? before.head : turn.start;
  await session.tell([begun(turn)], { place: turn.place, seq: seen });
  follower.follow(turn, seen);
  return stopped;
}

/** A client that was cut off after this knows that its prompt was taken. */
function begun({ turnId, runId }: ShownTurn): AcpFrame {
  const drover = { turn: { turn_id: turnId, run_id: runId, status: 'running' } };
  return { kind: 'update', update: { sessionUpdate: 'session_info_update', _meta: { drover } } };
}

/** The last update of an event has its place. */
export async function tellUpdates(
  { sessionId, update: send }: Pick<AcpSessionParts, 'sessionId' | 'update'>,
  frames: readonly AcpFrame[],
  at: SessionPosition | undefined,
): Promise<void> {
  const updates = frames.flatMap((frame) => (frame.kind === 'update' ? [frame.update] : []));
  for (const [place, update] of updates.entries()) {
    const isLast = place === updates.length - 1;
    const meta = at && isLast && { _meta: { drover: { seq: toSessionSeq(at) } } };
    await send({ sessionId, update, ...meta });
  }
}
