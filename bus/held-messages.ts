/** What a run's watchers would have been told, of runs that nobody watches yet. */
import type { BusMessage } from './bus.ts';

type Piece = Extract<BusMessage, { kind: 'delta' | 'call_piece' }>;
type Advanced = Extract<BusMessage, { kind: 'advanced' }>;

/** Beyond it an answer is held no more: a piece is worth nothing without those before it. */
const MAX_CHARS = 64 * 1024;
const MAX_RUNS = 1000;

interface Held {
  advanced: Advanced | undefined;
  pieces: Piece[];
  chars: number;
}

/** Keeps how far each run is and the pieces of its newest answer, until they are taken or told. */
export function holdMessages() {
  const runs = new Map<string, Held>();
  const hold = (subject: string, held: Held) => {
    runs.set(subject, held);
    // A driver that has lost its run ends without a word.
    const [oldest] = runs.keys();
    if (oldest !== undefined && runs.size > MAX_RUNS) runs.delete(oldest);
  };
  return {
    /** What the log has by now takes the place of what was held. */
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
