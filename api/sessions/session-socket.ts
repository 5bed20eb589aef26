/** A session's stream on one WebSocket. */
import type { RawData } from 'ws';
import { z } from 'zod';
import { DroverError } from '../../core/errors.ts';
import { fromSessionSeq, toSessionSeq, type SessionPosition } from '../../core/session-position.ts';
import type { Context } from '../../modules/governance/context.ts';
import { streamSession, type SessionStreamItem } from '../../modules/sessions/stream-session.ts';
import type { OpenSocket } from '../kit/sockets.ts';
import type { SessionFrame } from './session-frame.ts';
import { deltaFrame, foldEvent, FOLDED } from './session-view.ts';
import { beforeTurns } from './turn-view.ts';

interface WatchedSession {
  tenantId: string;
  sessionId: string;
}

/** Close codes: an invalid message, an internal fault, and a deleted session. */
const BAD_MESSAGE = 1008;
const INTERNAL = 1011;
const DELETED = 4010;
/** Too many requests (IANA's registry of WebSocket close codes: "Try Again Later"). */
const TRY_LATER = 1013;

const clientMessage = z.strictObject({ type: z.literal('resume'), after: z.int().min(0) });

interface Watched {
  open: OpenSocket;
  session: WatchedSession;
  after: SessionPosition;
  /** Counts a message that requires reading the log as a request. Throws 429. */
  count: () => Promise<void>;
}

/** Streams what comes after a position, until the client asks for another or either side closes. */
export function watchSession(context: Context, { open, session, after, count }: Watched): void {
  const { socket } = open;
  let current = new AbortController();
  const follow = (from: SessionPosition) => stream(context, { open, session, after: from, signal: current.signal });
  let running = follow(after);
  socket.on('message', (data, isBinary) => {
    // After a close of ours.
    if (socket.readyState !== socket.OPEN) return;
    const message = isBinary ? undefined : readMessage(data);
    if (!message) {
      current.abort();
      socket.close(BAD_MESSAGE, 'Known messages: {"type":"resume","after":seq}.');
      return;
    }
    current.abort();
    const next = new AbortController();
    current = next;
    const refused = count().then(
      () => undefined,
      (error: unknown) => ({ error }),
    );
    // The earlier stream ends first: nothing of it follows this answer.
    running = running.then(async () => {
      const refusal = await refused;
      if (refusal) refuse(context, { open, session, ...refusal });
      if (refusal || next.signal.aborted) return;
      open.send(JSON.stringify(resumedFrame(session.sessionId, message.after)));
      await follow(fromSessionSeq(message.after));
    });
  });
  socket.once('close', () => current.abort());
}

function refuse(
  context: Context,
  { open, session, error }: { open: OpenSocket; session: WatchedSession; error: unknown },
): void {
  // Its key has ended, and the connection with it.
  if (error instanceof DroverError && error.status === 401) return;
  if (error instanceof DroverError && error.status === 429) {
    open.socket.close(TRY_LATER, `${error.message} Again in ${error.retryAfterSeconds ?? 1} s.`.slice(0, CLOSE_REASON));
    return;
  }
  context.log.error({ err: error, session: session.sessionId }, 'a message on a stream could not be counted');
  open.socket.close(INTERNAL, 'Something went wrong; resume.');
}

/** Most bytes in a close frame's reason. */
const CLOSE_REASON = 123;

function readMessage(data: RawData): z.output<typeof clientMessage> | undefined {
  try {
    const text = (Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data as Buffer)).toString();
    return clientMessage.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

/** Tells the client to treat what it received before as not sent. */
function resumedFrame(sessionId: string, after: number): SessionFrame {
  return { type: 'resumed', session_id: sessionId, payload: { after }, timestamp: new Date().toISOString() };
}

interface Streamed {
  open: OpenSocket;
  session: WatchedSession;
  after: SessionPosition;
  signal: AbortSignal;
}

async function stream(context: Context, { open, session, after, signal }: Streamed): Promise<void> {
  const tell = createTeller(open, session.sessionId);
  try {
    for await (const item of streamSession(context, { ...session, after, types: FOLDED, signal })) {
      await open.room(signal);
      if (signal.aborted) return;
      if (item.kind === 'deleted') {
        open.socket.close(DELETED, 'The session was deleted.');
        return;
      }
      tell(item);
    }
  } catch (error) {
    if (signal.aborted) return;
    const at = toSessionSeq(after);
    context.log.error({ err: error, session: session.sessionId, after: at }, 'a stream of a session broke off');
    open.socket.close(INTERNAL, 'Something went wrong; resume.');
  }
}

/** Sends frames. A client that does not keep up gets no more pieces of the current answer. */
function createTeller(open: OpenSocket, sessionId: string) {
  let turn = beforeTurns();
  let place = 0;
  let leftOut = '';
  return (item: Exclude<SessionStreamItem, { kind: 'deleted' }>) => {
    if (item.kind === 'logged') {
      if (item.place !== place) turn = beforeTurns();
      place = item.place;
      const folded = foldEvent(turn, item, sessionId);
      turn = folded.turn;
      if (folded.frame && !item.isPast) open.send(JSON.stringify(folded.frame));
    } else if (item.kind === 'delta') {
      const answer = `${item.turnId} ${item.step}`;
      // Pieces are useless without those before them.
      if (open.isBusy()) leftOut = answer;
      if (leftOut !== answer) open.send(JSON.stringify(deltaFrame(item, sessionId, new Date())));
    }
  };
}
