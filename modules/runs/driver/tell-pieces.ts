/** Pieces of an answer on their way to whoever watches the run. */
import type { Bus, BusMessage } from '../../../bus/bus.ts';
import { LIMITS } from '../../../core/limits.ts';
import { inFrames, type Frames } from '../../../lib/in-frames.ts';

type Piece = Pick<Extract<BusMessage, { kind: 'delta' }>, 'delta' | 'at'>;

/** Tells the first piece at once, then those of a frame together, as far as they are of one kind. The end of the answer flushes. */
export function tellPieces(
  bus: Pick<Bus, 'publish'>,
  of: { runId: string; turnId: string; step: number },
): Frames<Piece> {
  return inFrames<Piece>({
    frameMs: LIMITS.streamFrameMs,
    send: (piece) => bus.publish({ kind: 'delta', ...of, ...piece }),
    join: (first, { delta: { type, text } }) =>
      first.delta.type === type ? { ...first, delta: { type, text: first.delta.text + text } } : undefined,
  });
}
