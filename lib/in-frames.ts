/** What comes in many small pieces, sent a frame at a time. */
export interface Frames<Piece> {
  push: (piece: Piece) => void;
  /** Sends what is held back, if there is anything. */
  flush: () => void;
}

interface FrameOptions<Piece> {
  /** The shortest time between two frames. */
  frameMs: number;
  /** Both pieces as one; undefined where they do not go together, so that the first is sent at once. */
  join: (first: Piece, second: Piece) => Piece | undefined;
  send: (piece: Piece) => void;
}

/** Sends the first piece at once, and then what has come since the last frame, in order. Whoever has pushed the last one flushes. */
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
