/** A client of a session's WebSocket, which keeps what came. */
import { WebSocket } from 'ws';
import type { SessionFrame } from '../../api/sessions/session-frame.ts';
import { waitUntil } from './wait-until.ts';

export interface Frame extends SessionFrame {
  payload: FramePayload;
}

/** What tests look at of payloads of all types: each field is there where the type of the frame has it. */
type FramePayload = Record<string, unknown> & {
  content: string;
  answer: string;
  message: string;
  reason: string;
  error: string;
  kind: string;
  approval_id: string;
  tool: string;
  tool_call_id: string;
  step_index: number;
  steps: { tool: string; arguments: unknown }[];
};

export interface Watcher {
  socket: WebSocket;
  /** What came so far; pieces of answers are in `deltas`. */
  frames: Frame[];
  deltas: Frame[];
  closed: Promise<number>;
  until(what: string, holds: (frames: Frame[]) => boolean): Promise<void>;
}

export const last = (type: string) => (frames: readonly Frame[]) => frames.at(-1)?.type === type;
export const typesOf = (frames: readonly Frame[]) => frames.map(({ type }) => type);

/** Keeps what comes over a socket from now on. */
export function listen(socket: WebSocket): Watcher {
  const frames: Frame[] = [];
  const deltas: Frame[] = [];
  socket.on('message', (data) => {
    const frame: Frame = JSON.parse((data as Buffer).toString());
    (frame.seq === undefined && frame.type === 'message_delta' ? deltas : frames).push(frame);
  });
  const closed = new Promise<number>((resolve) => {
    socket.once('close', resolve);
  });
  const until: Watcher['until'] = async (what, holds) => {
    const cut = closed.then((code) => Promise.reject(new Error(`closed with ${code} before: ${what}`)));
    cut.catch(() => undefined);
    await Promise.race([cut, waitUntil(`${what}; there is ${typesOf(frames).join(', ')}`, () => holds(frames))]);
  };
  return { socket, frames, deltas, closed, until };
}

interface WatchedSession {
  /** Of an API. */
  url: string;
  session: string;
  headers: Record<string, string>;
  /** Where to go on; absent: with what happens from now on. */
  after?: number | undefined;
}

/** Opens a session's WebSocket and listens. */
export async function watchSession({ url, session, headers, after }: WatchedSession): Promise<Watcher> {
  const socket = new WebSocket(`${url}/agent/stream/${session}`, { headers });
  const watcher = listen(socket);
  await new Promise<void>((resolve, reject) => {
    socket.once('open', resolve);
    socket.once('error', reject);
  });
  if (after !== undefined) socket.send(JSON.stringify({ type: 'resume', after }));
  return watcher;
}
