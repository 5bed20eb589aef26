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

export type Signal = keyof typeof RECALL_WEIGHTS;
export type Weights = Readonly<Record<Signal, number>>;
