/** The input and output of ranking in recall. */
import { occurredAtOf, type MemoryType } from './entry.ts';
import type { Signal } from './weights.ts';

export interface Candidate {
  id: string;
  content: string;
  memory_type: MemoryType;
  /** The entry's conversation. */
  thread_id: string | null;
  importance: number;
  metadata: Readonly<Record<string, unknown>>;
  created_at: Date;
  valid_from: Date | null;
  /** BM25, relative to an entry of average length with each word once; 0 if no word matches. */
  lexical: number;
  /** The share of the question's words in its best sentence. */
  passage: number;
  /** Words of the question that it contains, with their weights. */
  words: ReadonlyMap<string, number>;
  /** Undefined where the entry has no vector yet. */
  cosine: number | undefined;
  /** Entries before and after it in its conversation, as far as they are candidates. */
  neighbours: readonly Neighbour[];
}

export interface Neighbour {
  id: string;
  /** Distance: 1 for the next one, before or after. */
  steps: number;
}

export interface Ranked<C extends Candidate = Candidate> {
  entry: C;
  /** From 0 to 1. */
  score: number;
  /** Each signal's contribution to the score, largest first, without zeros. */
  why: Partial<Record<Reason, number>>;
}

/**
 * `change`: gained by an entry moved ahead of an older one that it supersedes. `other_side`: gained by an entry brought in
 * because it contradicts the best ones. `beside`, negative: lost by an entry next to a better one of its conversation.
 */
export type Reason = Signal | 'change' | 'other_side' | 'beside';

/** When it was said or happened, in ms. */
export function timeOf({
  metadata,
  valid_from,
  created_at,
}: Pick<Candidate, 'metadata' | 'valid_from' | 'created_at'>): number {
  return (occurredAtOf(metadata) ?? valid_from ?? created_at).getTime();
}
