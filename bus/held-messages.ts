/** Holds messages for the watchers of runs that nobody watches yet. */
import type { BusMessage } from './bus.ts';

type Piece = Extract<BusMessage, { kind: 'delta' | 'call_piece' }>;
type Advanced = Extract<BusMessage, { kind: 'advanced' }>;

/** An answer longer than this is dropped: a piece is worth nothing without those before it. */
const MAX_CHARS = 64 * 1024;
const MAX_RUNS = 1000;

interface Held {
  advanced: Advanced | undefined;
  pieces: Piece[];
  chars: number;
}

/** Keeps each run's position and the pieces of its newest answer until they are taken or forgotten. */
export function holdMessages() {
  const runs = new Map<string, Held>();
  const hold = (subject: string, held: Held) => {
    runs.set(subject, held);
    // Bounded: a driver that loses its run clears nothing.
    const [oldest] = runs.keys();
    if (oldest !== undefined && runs.size > MAX_RUNS) runs.delete(oldest);
  };
  return {
    /** Replaces the pieces held: the log has them now. */
    advance: (advanced: Advanced) => hold(advanced.subject, { advanced, pieces: [], chars: 0 }),
    push(piece: Piece): void {
      const held = runs.get(piece.subject) ?? { advanced: undefined, pieces: [], chars: 0 };
      held.chars += piece.kind === 'delta' ? piece.delta.text.length : piece.text.length;
      if (held.chars <= MAX_CHARS) held.pieces.push(piece);
      else held.pieces = [];
      hold(piece.subject, held);
    },
    take(subject: string): readonly BusMessage[] {
      const held = runs.get(subject);
      runs.delete(subject);
      return held ? [...(held.advanced ? [held.advanced] : []), ...held.pieces] : [];
    },
    forget: (subject: string) => void runs.delete(subject),
  };
}
