/** Holds how far runs are, and the pieces of the answers that they write, for watchers who come later. */
import type { BusMessage } from './bus.ts';

export type Piece = Extract<BusMessage, { kind: 'delta' | 'call_piece' }>;
type Advanced = Extract<BusMessage, { kind: 'advanced' }>;

/** An answer longer than this is dropped: a piece is worth nothing without those before it. */
const MAX_CHARS = 64 * 1024;
const MAX_RUNS = 1000;

interface Held {
  advanced: Advanced | undefined;
  /** Of the newest answer, from its beginning; empty if one before them is missing. */
  pieces: Piece[];
  /** Their characters: of the answer, and of each call's arguments by its id. */
  text: number;
  calls: Map<string, number>;
}

/** Keeps each run's position and the pieces of its newest answer until they are forgotten. */
export function holdMessages() {
  const runs = new Map<string, Held>();
  const hold = (subject: string, advanced?: Advanced): Held => {
    const held: Held = { advanced, pieces: [], text: 0, calls: new Map() };
    runs.delete(subject);
    runs.set(subject, held);
    // Bounded: a driver that loses its run clears nothing.
    const [oldest] = runs.keys();
    if (oldest !== undefined && runs.size > MAX_RUNS) runs.delete(oldest);
    return held;
  };
  const fits = (piece: Piece): boolean => piece.at === reachOf(runs.get(piece.subject), piece);
  /** Whether a piece begins an answer that is not the one held. */
  const beginsAnother = (piece: Piece): boolean => {
    if (piece.kind !== 'delta' || piece.at !== 0) return false;
    const texts = (runs.get(piece.subject)?.pieces ?? []).map((each) => (each.kind === 'delta' ? each.delta.text : ''));
    const [text, begun] = [piece.delta.text, texts.join('')];
    return !begun.startsWith(text) && !text.startsWith(begun);
  };
  return {
    /** Drops the pieces held, since the log has them now; a position that is not beyond the one held changes nothing. */
    advance(advanced: Advanced): void {
      const { subject, seq } = advanced;
      if (seq > (runs.get(subject)?.advanced?.seq ?? -1)) hold(subject, advanced);
    },
    /** Whether a piece that is told again is news: it goes on where those held end, or begins another answer. */
    isNews: (piece: Piece): boolean => fits(piece) || beginsAnother(piece),
    push(piece: Piece): void {
      const { subject } = piece;
      const known = runs.get(subject);
      const begins = piece.kind === 'delta' && piece.at === 0;
      const isWhole = begins || fits(piece);
      const held = known && isWhole && !begins ? known : hold(subject, known?.advanced);
      if (!isWhole) return;
      const chars = piece.kind === 'delta' ? piece.delta.text.length : piece.text.length;
      if (held.text + sum(held.calls.values()) + chars > MAX_CHARS) return void hold(subject, held.advanced);
      held.pieces.push(piece);
      if (piece.kind === 'delta') held.text += chars;
      else held.calls.set(piece.callId, reachOf(held, piece) + chars);
    },
    piecesOf: (subject: string): readonly Piece[] => runs.get(subject)?.pieces ?? [],
    of(subject: string): readonly BusMessage[] {
      const held = runs.get(subject);
      return held ? [...(held.advanced ? [held.advanced] : []), ...held.pieces] : [];
    },
    forget: (subject: string) => void runs.delete(subject),
  };
}

/** The number of characters of what the piece belongs to, an answer or a call of it. */
function reachOf(held: Held | undefined, piece: Piece): number {
  if (piece.kind === 'delta') return held?.text ?? 0;
  return held?.calls.get(piece.callId) ?? 0;
}

function sum(numbers: Iterable<number>): number {
  let total = 0;
  for (const each of numbers) total += each;
  return total;
}
