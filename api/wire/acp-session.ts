/** A session of an ACP connection: shows, asks and takes answers. */
import type { SessionNotification } from '@agentclientprotocol/sdk';
import type { DroverError } from '../../core/errors.ts';
import { digestOf } from '../../core/ids.ts';
import { toSessionSeq, type SessionPosition } from '../../core/session-position.ts';
import type { Context } from '../../modules/governance/context.ts';
import { stopTurnOf } from '../../modules/sessions/client-thread.ts';
import {
  readShownTurn,
  say,
  type GivenInput,
  type MessageMode,
  type ShownTurn,
} from '../../modules/sessions/converse.ts';
import { ACP, type AcpFrame } from './acp.ts';
import { createAsking, type AskingParts } from './acp-asking.ts';
import { createFollower, type AcpFollower, type Stop } from './acp-follow.ts';
import { toRequestError } from './acp-request.ts';
import { watchMessage } from './follow-message.ts';
import { replayThread } from './replay-thread.ts';

export interface AcpSessionParts extends AskingParts {
  agentId: string;
  update: (notification: SessionNotification) => Promise<void>;
  /** Fires when the connection has ended. */
  signal: AbortSignal;
}

export interface AcpSession {
  /** Shows what has happened after a position, and what happens from then on. */
  load: (after: SessionPosition) => Promise<void>;
  /** Asks what is open and shows what happens from now on, without the past. */
  resume: () => Promise<void>;
  /** Sends a message and shows its turn until that stops. An `id` makes it be sent once. */
  prompt: (said: Prompt) => Promise<Stop>;
  cancel: () => Promise<void>;
  isFollowing: () => boolean;
}

interface Prompt {
  input: GivenInput;
  id: string | undefined;
  mode: MessageMode | undefined;
}

/** A session's state. */
interface Session extends AcpSessionParts {
  context: Context;
  follower: AcpFollower;
  tell: (frames: readonly AcpFrame[], at: SessionPosition | undefined) => Promise<void>;
  /** The client's position; undefined if it was shown nothing yet. */
  at: SessionPosition | undefined;
}

export function openAcpSession(context: Context, parts: AcpSessionParts): AcpSession {
  const { caller, sessionId, signal, onFault } = parts;
  const tell: Session['tell'] = async (frames, at) => {
    await tellUpdates(parts, frames, at);
    if (at) session.at = at;
  };
  const onRefusal = (error: DroverError) => follower.refuse(toRequestError(error));
  const asking = createAsking(context, { ...parts, onRefusal });
  const { tenantId } = caller;
  const follower = createFollower(context, { tenantId, sessionId, asking, tell, signal, onFault });
  const session: Session = { ...parts, context, follower, tell, at: undefined };
  let loading: Promise<void> = Promise.resolve();
  const inTurn = (act: () => Promise<void>) => {
    const next = loading.then(act);
    loading = next.catch(() => undefined);
    return next;
  };
  return {
    load: (after) => inTurn(() => load(session, after)),
    resume: () =>
      inTurn(async () => {
        const turn = await readShownTurn(context, caller, sessionId);
        await load(session, turn ? { place: turn.place, seq: turn.head } : { place: 1, seq: 0 });
      }),
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
  let stands = await replay(session, after);
  let turn = await readShownTurn(context, caller, threadId);
  // A turn that ended after the replay is replayed, too.
  if (turn?.isOpen === false) {
    stands = await replay(session, stands);
    turn = await readShownTurn(context, caller, threadId);
  }
  if (!turn || signal.aborted) return;
  // A prompt that waits for the turn must learn of its end.
  if (!turn.isOpen && !follower.isAwaited()) return;
  follower.follow(turn, stands.place === turn.place ? stands.seq : turn.start - 1);
}

/** Shows what has happened after a position; returns the position reached. */
async function replay({ context, caller, sessionId: threadId, tell, signal }: Session, after: SessionPosition) {
  let stands = after;
  for await (const { frames, at } of replayThread(context, { caller, threadId, after }, ACP)) {
    if (signal.aborted) break;
    await tell(frames, at);
    stands = at ?? stands;
  }
  return stands;
}

const ID_USED = 'This _meta.drover.id was used for another prompt of the session; a new one needs an id of its own.';

async function prompt(session: Session, { input, id, mode }: Prompt): Promise<Stop> {
  const { context, caller, agentId, sessionId: threadId, signal } = session;
  const before = await readShownTurn(context, caller, threadId);
  const { replaced: _noted, ...words } = input;
  const asked = { thread: threadId, input: words };
  const idempotency = {
    tenantId: caller.tenantId,
    route: 'ACP session/prompt',
    body: asked,
    // Clients number prompts per session: the same id on another thread is another prompt.
    ...(id !== undefined && { key: digestOf({ thread: threadId, id }), reused: ID_USED }),
  };
  const { turn, waiting } = await say(context, { caller, agentId, threadId, input, mode, idempotency });
  if (waiting === undefined) return stopOf(session, turn, before?.turnId === turn.turnId ? before.head : undefined);
  const watching = watchMessage(context, {
    tenantId: caller.tenantId,
    turn,
    messageId: waiting,
    passesPauses: true,
    signal,
  });
  let step = await watching.next();
  while (!step.done) step = await watching.next();
  const { turn: next, fate } = step.value;
  if (!next) return { turn, seq: turn.head, end: undefined, fate };
  return stopOf(session, next, fate === 'read' ? next.head : undefined);
}

/** Shows a turn until it stops; if it was there before the prompt, what comes after `stood`. */
async function stopOf(session: Session, turn: ShownTurn, stood: number | undefined): Promise<Stop> {
  const { follower } = session;
  const stopped = follower.stopOf(turn.turnId, stood === undefined ? turn.start : stood + 1);
  if (follower.current() === turn.turnId) return stopped;
  // The previous turn is over; the rest of it is shown first.
  await follower.done();
  await catchUp(session, turn);
  const { at } = session;
  const isShown = at !== undefined && at.place === turn.place && at.seq >= turn.start;
  const seen = isShown ? at.seq : (stood ?? turn.start);
  await session.tell([begun(turn)], { place: turn.place, seq: seen });
  follower.follow(turn, seen);
  return stopped;
}

/**
 * Shows what happened on the thread between the client's position and the turn, such as the turn of another agent after
 * a handoff.
 */
async function catchUp(
  { context, caller, sessionId: threadId, tell, at, signal }: Session,
  turn: ShownTurn,
): Promise<void> {
  if (!at) return;
  for await (const { frames, at: next } of replayThread(context, { caller, threadId, after: at }, ACP)) {
    if (signal.aborted || (next && isReached(next, turn))) return;
    await tell(frames, next);
  }
}

function isReached({ place, seq }: SessionPosition, turn: ShownTurn): boolean {
  return place > turn.place || (place === turn.place && seq >= turn.start);
}

/** Lets a client that is cut off later know that its prompt was taken. */
function begun({ turnId, runId }: ShownTurn): AcpFrame {
  const drover = { turn: { turn_id: turnId, run_id: runId, status: 'running' } };
  return { kind: 'update', update: { sessionUpdate: 'session_info_update', _meta: { drover } } };
}

/** Sends updates; the last one of an event carries its position. */
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
