/** Weights of recall's signals (`ranking.ts` computes the signals). */

/** All weights are here. Those of conversation signals were fitted on conversations (docs/memory.md, "Figures"). */
export const RECALL_WEIGHTS = {
  /** Words of the question in the entry (BM25), relative to the best possible. */
  lexical: 1,
  /** Words of the question in a single sentence. */
  passage: 0.15,
  /** Cosine of question and entry. */
  vector: 0.4,
  /** Names and numbers of the question that the entry has. */
  entity: 0.05,
  /** Said by the person whom the question asks about, or names. */
  role: 0.1,
  /** Says how the user wants to be answered, which no similarity finds. */
  standing: 0.8,
  /** Said by the user: people say what is worth remembering, and answers repeat it. */
  said: 0.15,
  /** Said in the period that the question names. */
  time: 0.15,
  /** Its neighbours in the conversation match: the best one, and all together. */
  neighbourhood: 0.4,
  /** The best entries of its conversation match. */
  session: 0.5,
  /** Its newness: of two contradicting entries the newer comes first. */
  recency: 0.01,
  importance: 0.05,
} as const;

/**
 * Parameters that reorder scored hits (`other-side.ts`). Figures: evidence at 5 and 10 of BEAM 100K (all vectors) and 500K (by
 * words), and questions with both sides among the ten, of 79 and 136. Without either step: 57.7, 65.7, 70; 47.6, 56.5, 94.
 */
export const RECALL_ORDER = {
  /** Number of hits read together. */
  together: 10,
  /**
   * Factor for each better hit that an entry is next to. 0.98 alone: 58.0, 66.0, 71; 47.4, 56.7, 97. 0.96: 58.0, 66.0, 71;
   * 47.3, 56.9, 99. 0.93 loses 0.7 and more at 5.
   */
  beside: 0.98,
  /**
   * One entry is brought in that contradicts one of this many best hits. 1 and 5 give the same; two entries instead of one
   * cost 0.7 of 100K at 10.
   */
  seeds: 3,
  /** How many hits after the ten are searched. */
  lookedAt: 60,
  /**
   * Its minimum share, by weight, of the best hit's matched words. With 0.98: 58.0, 66.1, 72; 47.5, 57.2, 97. 0.3 finds 0.2
   * less of 100K at 10.
   */
  leastShare: 0.2,
} as const;

export type Signal = keyof typeof RECALL_WEIGHTS;
