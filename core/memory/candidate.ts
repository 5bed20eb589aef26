/** What recall ranks, and what it says of each hit. */
import { occurredAtOf, type MemoryType } from './entry.ts';
import type { Signal } from './weights.ts';

export interface Candidate {
  id: string;
  content: string;
  memory_type: MemoryType;
  /** The conversation that it belongs to. */
  thread_id: string | null;
  importance: number;
  metadata: Readonly<Record<string, unknown>>;
  created_at: Date;
  valid_from: Date | null;
  /** BM25 as a share of an entry of middling length with each word once; 0 where no word fits. */
  lexical: number;
  /** The share that the best of its sentences has of the question's words. */
  passage: number;
  /** The question's words that it has, with their weights. */
  words: ReadonlyMap<string, number>;
  /** Undefined where the entry has no vector yet. */
  cosine: number | undefined;
  /** The entries before and after it in its conversation, as far as they are candidates. */
  neighbours: readonly Neighbour[];
}

export interface Neighbour {
  id: string;
  /** 1 for the next one, before or after. */
  steps: number;
}

export interface Ranked<C extends Candidate = Candidate> {
  entry: C;
  /** From 0 to 1. */
  score: number;
  /** What each signal has added to the score, the largest first; those that added nothing are left out. */
  why: Partial<Record<Reason, number>>;
}

/**
 * `change` is what an entry has that was put before an older one, since it says what has changed; `other_side`, that was brought in since it
 * speaks against the best ones; `beside`, below 0, what one loses that stands beside a better one in its conversation.
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
