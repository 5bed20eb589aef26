/** What each signal of recall counts (`ranking.ts` has the signals). */

/** The only place where weights are. Those of the signals that conversations have were fitted on one (docs/memory.md, "Figures"). */
export const RECALL_WEIGHTS = {
  /** Words of the question in the entry (BM25), of what would fit best. */
  lexical: 1,
  /** Words of the question in one sentence of it. */
  passage: 0.15,
  /** Cosine of question and entry. */
  vector: 0.4,
  /** Names and numbers of the question that the entry has. */
  entity: 0.05,
  /** The entry was said by the one whom the question asks about, or names. */
  role: 0.1,
  /** It says how the user wants to be answered: no similarity finds that. */
  standing: 0.8,
  /** The user has said it: people say what there is to remember, and answers repeat it. */
  said: 0.15,
  /** It was said at the time that the question names. */
  time: 0.15,
  /** The entries before and after it in its conversation fit, the best of them and all together. */
  neighbourhood: 0.4,
  /** The best entries of its conversation fit. */
  session: 0.5,
  /** It is new: of two that contradict each other the newer one comes first. */
  recency: 0.01,
  importance: 0.05,
} as const;

/**
 * What moves hits once they have their scores (`other-side.ts`). Figures are evidence at 5 and 10 of BEAM 100K (all vectors) and 500K (by words), and
 * questions of which both sides are among ten, of 79 and 136; without either 57.7, 65.7, 70; 47.6, 56.5, 94.
 */
export const RECALL_ORDER = {
  /** So many hits are read together. */
  together: 10,
  /** What an entry counts for each better one that it stands beside. 0.98 alone: 58.0, 66.0, 71; 47.4, 56.7, 97. 0.96: 58.0, 66.0, 71; 47.3, 56.9, 99. 0.93 loses 0.7 and more at 5. */
  beside: 0.98,
  /** One entry is brought in that speaks against one of so many best ones. 1 and 5 give the same; two entries instead of one cost 0.7 of 100K at 10. */
  seeds: 3,
  /** So many after the ten are looked at. */
  lookedAt: 60,
  /** It has so much of the question's words, by weight, as the best has. With 0.98: 58.0, 66.1, 72; 47.5, 57.2, 97. 0.3 finds 0.2 less of 100K at 10. */
  leastShare: 0.2,
} as const;

export type Signal = keyof typeof RECALL_WEIGHTS;
export type Weights = Readonly<Record<Signal, number>>;
