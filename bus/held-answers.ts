/** Answers that are being written and that nobody watches yet. */
import type { BusMessage } from './bus.ts';

type Piece = Extract<BusMessage, { kind: 'delta' }>;

/** Beyond it an answer is held no more: a piece is worth nothing without those before it. */
const MAX_CHARS = 64 * 1024;
const MAX_RUNS = 1000;

interface HeldAnswer {
  pieces: Piece[];
  chars: number;
}

/** Keeps the pieces of each run's newest answer, until they are taken or the log has it. */
export function holdAnswers() {
  const answers = new Map<string, HeldAnswer>();
  return {
    push(piece: Piece): void {
      const answer = answers.get(piece.runId) ?? { pieces: [], chars: 0 };
      answers.set(piece.runId, answer);
      answer.chars += piece.delta.text.length;
      if (answer.chars <= MAX_CHARS) answer.pieces.push(piece);
      else answer.pieces = [];
      // A driver that has lost its run ends without a word.
      const [oldest] = answers.keys();
      if (oldest !== undefined && answers.size > MAX_RUNS) answers.delete(oldest);
    },
    take(runId: string): readonly Piece[] {
      const answer = answers.get(runId);
      answers.delete(runId);
      return answer?.pieces ?? [];
    },
    forget: (runId: string) => void answers.delete(runId),
  };
}
