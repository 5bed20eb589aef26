/** Combines many small pieces into frames. */
export interface Frames<Piece> {
  push: (piece: Piece) => void;
  /** Sends what is held back, if anything. */
  flush: () => void;
}

interface FrameOptions<Piece> {
  /** The shortest time between two frames. */
  frameMs: number;
  /** Joins two pieces; undefined if they cannot be joined, so that the first is sent at once. */
  join: (first: Piece, second: Piece) => Piece | undefined;
  send: (piece: Piece) => void;
}

/**
 * Sends the first piece at once, then at intervals what has come since the last frame, in order. The caller flushes
 * after its last piece.
 */
export function inFrames<Piece>({ frameMs, join, send }: FrameOptions<Piece>): Frames<Piece> {
  let held: Piece | undefined;
  let sentAtMs = Number.NEGATIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;
  const flush = () => {
    clearTimeout(timer);
    timer = undefined;
    if (held === undefined) return;
    const piece = held;
    held = undefined;
    sentAtMs = performance.now();
    send(piece);
  };
  return {
    push(piece) {
      const joined = held === undefined ? piece : join(held, piece);
      if (joined === undefined) flush();
      held = joined ?? piece;
      const waitMs = sentAtMs + frameMs - performance.now();
      if (waitMs <= 0) flush();
      else timer ??= setTimeout(flush, waitMs);
    },
    flush,
  };
}
