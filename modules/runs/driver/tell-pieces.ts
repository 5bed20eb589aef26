/** Sends pieces of an answer to those who watch the run. */
import type { Bus, BusMessage } from '../../../bus/bus.ts';
import { LIMITS } from '../../../core/limits.ts';
import { inFrames, type Frames } from '../../../lib/in-frames.ts';

interface Answer {
  subject: string;
  turnId: string;
  step: number;
}

type PieceOf<Message> = Message extends unknown ? Omit<Message, keyof Answer> : never;
export type Piece = PieceOf<Extract<BusMessage, { kind: 'delta' | 'call_piece' }>>;

/** Sends the first piece at once, then those of each frame together, if of the same text or call. The answer's end flushes. */
export function tellPieces(bus: Pick<Bus, 'publish'>, of: Answer): Frames<Piece> {
  return inFrames<Piece>({ frameMs: LIMITS.streamFrameMs, send: (piece) => bus.publish({ ...of, ...piece }), join });
}

function join(first: Piece, second: Piece): Piece | undefined {
  if (first.kind === 'delta' && second.kind === 'delta') {
    const { type, text } = second.delta;
    return first.delta.type === type ? { ...first, delta: { type, text: first.delta.text + text } } : undefined;
  }
  const isSameCall = first.kind === 'call_piece' && second.kind === 'call_piece' && first.callId === second.callId;
  return isSameCall ? { ...first, text: first.text + second.text } : undefined;
}
