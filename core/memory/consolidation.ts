/** Consolidation of short-term memory: which entries are kept, merged, shortened and evicted. Pure. */
import { beginningOf } from '../content.ts';
import type { MemoryType } from './entry.ts';
import { isSameFact } from './same-fact.ts';

export const CONSOLIDATION_STRATEGIES = ['importance', 'age', 'hybrid'] as const;
export type ConsolidationStrategy = (typeof CONSOLIDATION_STRATEGIES)[number];

export interface ConsolidationSettings {
  /** Entries older than this are candidates. */
  minAgeHours: number;
  /** The oldest entries in excess of these tokens are candidates, too. */
  maxTokens: number;
  importanceThreshold: number;
  /** Longer entries are shortened. */
  maxEntryTokens: number;
  archiveEvicted: boolean;
  halfLifeHours: number;
}

/** A short-term entry, with the fields that consolidation reads. */
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
  /** It contradicts another entry, and people are asked which of the two is right. */
  is_disputed: boolean;
}

/** A pair of entries with the same or nearly the same text. */
export interface SimilarEntry {
  id: string;
  other: string;
  /** Text of the other entry, which is in long-term memory unless it is a candidate itself. */
  content: string;
}

/** What to do with each candidate. */
export interface ConsolidationPlan {
  /** Become EPISODIC, unchanged. */
  kept: { id: string; importance: number }[];
  /** Become EPISODIC, shortened. */
  summarized: { id: string; importance: number; content: string }[];
  /** Merged into another entry, which gets their access counts. */
  merged: { id: string; into: string }[];
  evicted: string[];
}

const IMPORTANCE_WEIGHTS = { recency: 0.3, frequency: 0.3, relevance: 0.4 } as const;
/** Minimum cosine of possible duplicates. */
export const DUPLICATE_COSINE = 0.95;

const HOUR_MS = 3_600_000;

/** 0.3 recency + 0.3 frequency + 0.4 relevance, capped at 0 and 1. Recency falls to 1/e in `halfLifeHours`; frequency is ln(uses + 1). */
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
 * Selects candidates among short-term entries, `maxEntries` at most. By age: old ones, and the oldest beyond the token budget.
 * By importance: all, most important first. Hybrid: those by age, then the important ones.
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

/** The oldest entries, until the rest fits the budget. */
function beyond(oldest: readonly ShortTermEntry[], maxTokens: number): ShortTermEntry[] {
  let over = oldest.reduce((sum, { tokens }) => sum + tokens, 0) - maxTokens;
  return oldest.filter(({ tokens }) => {
    if (over <= 0) return false;
    over -= tokens;
    return true;
  });
}

/**
 * Plans what to do with candidates. Of duplicates the first stays. Entries that are always loaded are never evicted, and
 * disputed ones stay unchanged.
 */
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

const CHARS_PER_TOKEN = 4;

/** Extracts the sentences with the most frequent words of the text, in their order, within the budget. */
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
