/** Consolidation of short-term memory: what is kept, merged, shortened and taken away. Pure. */
import { beginningOf } from '../content.ts';
import type { MemoryType } from './entry.ts';
import { denies, entitiesOf, numbersOf } from './words.ts';

export const CONSOLIDATION_STRATEGIES = ['importance', 'age', 'hybrid'] as const;
export type ConsolidationStrategy = (typeof CONSOLIDATION_STRATEGIES)[number];

export interface ConsolidationSettings {
  /** Entries older than this are candidates. */
  minAgeHours: number;
  /** So are the oldest beyond these tokens together. */
  maxTokens: number;
  importanceThreshold: number;
  /** Longer entries are shortened. */
  maxEntryTokens: number;
  archiveEvicted: boolean;
  halfLifeHours: number;
}

/** An entry of the short term, as far as consolidation looks at it. */
export interface ShortTermEntry {
  id: string;
  content: string;
  memory_type: MemoryType;
  importance: number;
  relevance_score: number;
  access_count: number;
  last_accessed: Date | null;
  created_at: Date;
  tokens: number;
  is_profile: boolean;
  /** Another entry contradicts it, and people are asked which of the two is so. */
  is_disputed: boolean;
}

/** Entries that are nearly the same text, or the same. */
export interface SimilarEntry {
  id: string;
  other: string;
  /** The text of the other, which is of the long term unless it is a candidate itself. */
  content: string;
}

/** What is to be done; ids only, and what was so before. */
export interface ConsolidationPlan {
  /** Become EPISODIC, as they are. */
  kept: { id: string; importance: number }[];
  /** Become EPISODIC in fewer words. */
  summarized: { id: string; importance: number; content: string }[];
  /** Their uses count for another one. */
  merged: { id: string; into: string }[];
  evicted: string[];
}

const IMPORTANCE_WEIGHTS = { recency: 0.3, frequency: 0.3, relevance: 0.4 } as const;
/** Cosine from which two texts may be one. */
export const DUPLICATE_COSINE = 0.95;

const HOUR_MS = 3_600_000;

/** 0.3 recency + 0.3 frequency + 0.4 relevance, from 0 to 1: recency falls to 1/e in a half-life, frequency is ln(uses + 1). */
export function importanceOf(
  entry: Pick<ShortTermEntry, 'last_accessed' | 'created_at' | 'access_count' | 'relevance_score'>,
  { at, halfLifeHours }: { at: Date; halfLifeHours: number },
): number {
  const hours = Math.max(0, at.getTime() - (entry.last_accessed ?? entry.created_at).getTime()) / HOUR_MS;
  const { recency, frequency, relevance } = IMPORTANCE_WEIGHTS;
  const sum =
    recency * Math.exp(-hours / halfLifeHours) +
    frequency * Math.log(entry.access_count + 1) +
    relevance * entry.relevance_score;
  return Math.min(1, Math.max(0, sum));
}

interface Asked {
  at: Date;
  strategy: ConsolidationStrategy;
  maxEntries: number;
  settings: ConsolidationSettings;
}

/**
 * The candidates among entries of the short term: by age, the old ones and the oldest beyond the token budget; by importance
 * all, the most important first; hybrid both. `maxEntries` caps them.
 */
export function candidatesOf(entries: readonly ShortTermEntry[], asked: Asked): ShortTermEntry[] {
  const { at, strategy, maxEntries, settings } = asked;
  const oldest = entries.toSorted((a, b) => a.created_at.getTime() - b.created_at.getTime() || (a.id < b.id ? -1 : 1));
  const scoreOf = (entry: ShortTermEntry) => importanceOf(entry, { at, halfLifeHours: settings.halfLifeHours });
  if (strategy === 'importance') return oldest.toSorted((a, b) => scoreOf(b) - scoreOf(a)).slice(0, maxEntries);
  const aged = oldest.filter((entry) => (at.getTime() - entry.created_at.getTime()) / HOUR_MS > settings.minAgeHours);
  const overflow = beyond(oldest, settings.maxTokens);
  const important =
    strategy === 'hybrid' ? oldest.filter((entry) => scoreOf(entry) >= settings.importanceThreshold) : [];
  return [...new Set([...aged, ...overflow, ...important])].slice(0, maxEntries);
}

/** The oldest, until the rest fits. */
function beyond(oldest: readonly ShortTermEntry[], maxTokens: number): ShortTermEntry[] {
  let over = oldest.reduce((sum, { tokens }) => sum + tokens, 0) - maxTokens;
  return oldest.filter(({ tokens }) => {
    if (over <= 0) return false;
    over -= tokens;
    return true;
  });
}

/** What becomes of candidates. Of two that are one, the first stays; what is always loaded is never taken away, and what is disputed stays as it is. */
export function planConsolidation(
  candidates: readonly ShortTermEntry[],
  similar: readonly SimilarEntry[],
  { at, settings }: Pick<Asked, 'at' | 'settings'>,
): ConsolidationPlan {
  const plan: ConsolidationPlan = { kept: [], summarized: [], merged: [], evicted: [] };
  const ids = new Set(candidates.map(({ id }) => id));
  const stays = new Set<string>();
  for (const entry of candidates) {
    const importance = importanceOf(entry, { at, halfLifeHours: settings.halfLifeHours });
    if (importance < settings.importanceThreshold && !entry.is_profile && !entry.is_disputed) {
      plan.evicted.push(entry.id);
      continue;
    }
    const same = similar.find(
      ({ id, other, content }) =>
        id === entry.id &&
        !entry.is_disputed &&
        (!ids.has(other) || stays.has(other)) &&
        isSameFact(entry.content, content),
    );
    if (same) plan.merged.push({ id: entry.id, into: same.other });
    else if (entry.tokens > settings.maxEntryTokens && !entry.is_disputed) {
      plan.summarized.push({ id: entry.id, importance, content: shorten(entry.content, settings.maxEntryTokens) });
    } else plan.kept.push({ id: entry.id, importance });
    if (!same) stays.add(entry.id);
  }
  return plan;
}

/** Whether two texts of nearly one meaning say the same: another number, another name or a "not" makes another fact. */
export function isSameFact(left: string, right: string): boolean {
  const same = (a: readonly string[], b: readonly string[]) => a.toSorted().join(' ') === b.toSorted().join(' ');
  return (
    denies(left) === denies(right) &&
    same(numbersOf(left), numbersOf(right)) &&
    same(entitiesOf(left), entitiesOf(right))
  );
}

const CHARS_PER_TOKEN = 4;

/** The sentences that say most, by the words that the whole text uses most, in their order, within a budget. */
export function shorten(text: string, maxTokens: number): string {
  const sentences = text.match(/[^.!?\n]+[.!?]*\s*/g) ?? [text];
  const counts = new Map<string, number>();
  const wordsIn = (sentence: string) => sentence.toLowerCase().match(/\p{L}{4,}/gu) ?? [];
  for (const word of sentences.flatMap(wordsIn)) counts.set(word, (counts.get(word) ?? 0) + 1);
  const weighed = sentences.map((sentence, place) => {
    const words = wordsIn(sentence);
    const weight = words.reduce((sum, word) => sum + (counts.get(word) ?? 0), 0) / Math.max(words.length, 5);
    return { sentence, place, weight };
  });
  let left = maxTokens * CHARS_PER_TOKEN;
  const chosen = weighed
    .toSorted((a, b) => b.weight - a.weight || a.place - b.place)
    .filter(({ sentence }) => {
      if (sentence.length > left) return false;
      left -= sentence.length;
      return true;
    });
  const short = chosen
    .toSorted((a, b) => a.place - b.place)
    .map(({ sentence }) => sentence.trim())
    .join(' ');
  return beginningOf(short === '' ? text : short, maxTokens * CHARS_PER_TOKEN);
}
