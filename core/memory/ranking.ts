/**
 * Which memories answer a question: a weighted sum of signals, each from 0 to 1. Not a fusion of ranks: an embedding that is
 * weak on conversations would then outvote words that fit (docs/memory.md has the figures).
 */
import { timeOf, type Candidate, type Ranked } from './candidate.ts';
import { bringOtherSide, countLessBeside } from './other-side.ts';
import { newestFirst } from './newest-first.ts';
import { asksForBefore, asksForOverview, asksForPast } from './question.ts';
import { readSaid } from './said.ts';
import { resolveTime, type TimeSpan } from './time-expressions.ts';
import { RECALL_WEIGHTS, type Signal, type Weights } from './weights.ts';
import { entitiesOf, wordsOf } from './words.ts';

/** BM25: saturation of a word's count, and how much a long text counts for less. Short messages of users hold more than long answers. */
export const BM25 = { k1: 5, b: 1 } as const;
/** The share of the best fit that is half of the signal. */
const HALF_LEXICAL = 0.5;

/** Half of an entry's newness is gone after so many days. */
const RECENCY_HALF_LIFE_DAYS = 30;
const DAY_MS = 86_400_000;

export interface Question {
  text: string;
  /** When it is asked. */
  at: Date;
}

/** Candidates by their score, best first; of two with one score the newer. Those that only time speaks for are left out. */
export function rank<C extends Candidate>(
  question: Question,
  candidates: readonly C[],
  weights: Weights = RECALL_WEIGHTS,
): Ranked<C>[] {
  const asked = readQuestion(question);
  const middling = meanOf(candidates.flatMap(({ cosine }) => cosine ?? []));
  const own = candidates.map((candidate) => {
    const at = timeOf(candidate);
    return { candidate, at, signals: ownSignals(asked, candidate, { at, middling }) };
  });
  const bases = new Map(own.map(({ candidate, signals }) => [candidate.id, baseOf(signals, weights)]));
  const sessions = sessionsOf(candidates, bases);
  const most = mostOf(asked, own, weights);
  const ranked = own.map(({ candidate, signals }): Ranked<C> => {
    const all = {
      ...signals,
      neighbourhood: neighbourhoodOf(candidate, bases),
      session: candidate.thread_id === null ? 0 : (sessions.get(candidate.thread_id) ?? 0),
    };
    return { entry: candidate, ...summed(all, { weights, most }) };
  });
  const times = new Map(own.map(({ candidate, at }) => [candidate.id, at]));
  const newness = ({ entry }: Ranked) => times.get(entry.id) ?? 0;
  const sorted = ranked
    .filter(({ entry, why }) => speaksFor(entry, why))
    .toSorted((a, b) => b.score - a.score || newness(b) - newness(a) || (a.entry.id < b.entry.id ? 1 : -1));
  if (asked.isOverview) return spread(sorted);
  if (asked.span) return sorted;
  const paired = bringOtherSide(asked.text, countLessBeside(sorted));
  return asksForBefore(asked.text) ? paired : newestFirst(asked.text, paired);
}

/** Half of it is the best of the neighbours, half their mean, where those that are no candidates count nothing. */
function neighbourhoodOf({ neighbours }: Candidate, bases: ReadonlyMap<string, number>): number {
  const around = neighbours.map(({ id, steps }) => (bases.get(id) ?? 0) * STEP ** (steps - 1));
  const mean = around.reduce((sum, each) => sum + each, 0) / AROUND;
  return (Math.max(0, ...around) + Math.min(1, mean)) / 2;
}

/** What is the second of its conversation counts for less, the third for less again: an overview has something of each. */
function spread<C extends Candidate>(ranked: readonly Ranked<C>[]): Ranked<C>[] {
  const taken = new Map<string, number>();
  const keyed = ranked.map((each) => {
    const thread = each.entry.thread_id;
    const before = thread === null ? 0 : (taken.get(thread) ?? 0);
    if (thread !== null) taken.set(thread, before + 1);
    return { each, weight: each.score * SPREAD ** before };
  });
  return keyed.toSorted((a, b) => b.weight - a.weight).map(({ each }) => each);
}

/** What each further entry of one conversation counts, of the one before it, in an overview. */
const SPREAD = 0.97;

/** What each further step to a neighbour counts, of the one before it. */
const STEP = 0.85;
/** So many are looked at before an entry, and after it. */
export const NEIGHBOUR_STEPS = 2;
/** What all neighbours count that an entry can have. */
const AROUND = 2 * Array.from({ length: NEIGHBOUR_STEPS }, (_, steps) => STEP ** steps).reduce((a, b) => a + b);

/** Signals that say that an entry has to do with the question. */
const SPEAKING: readonly Signal[] = ['lexical', 'entity', 'time', 'neighbourhood'];

/** A vector that is still to come says nothing. */
function speaksFor({ cosine }: Candidate, why: Ranked['why']): boolean {
  return (cosine !== undefined && (why.vector ?? 0) > 0) || SPEAKING.some((signal) => (why[signal] ?? 0) > 0);
}

interface Asked extends Question {
  isOverview: boolean;
  /** It asks for what was said or done: how to answer hardly matters then. */
  isOfPast: boolean;
  words: ReadonlySet<string>;
  entities: readonly string[];
  span: TimeSpan | undefined;
  role: 'user' | 'assistant' | undefined;
}

function readQuestion(question: Question): Asked {
  const words = new Set(wordsOf(question.text).map((word) => word.replace(/['’]s$/, '')));
  return {
    ...question,
    isOverview: asksForOverview(question.text),
    isOfPast: asksForPast(question.text),
    words,
    entities: entitiesOf(question.text),
    span: resolveTime(question.text, question.at),
    role: roleAskedOf(question.text),
  };
}

const INSTRUCTION =
  /^\W*(?:please\s+)?(?:always|never|from now on|when(?:ever)? I ask|in (?:the )?future|make sure (?:to|you) always)\b/i;
const PREFERENCE = /\bI (?:really |strongly |usually |generally |would )*prefer\b/i;
/** What a preference counts of an instruction: people prefer something in passing. */
const PREFERRED = 0.55;

/** What it counts how to answer, where a question asks for what was said or done. */
const STANDING_IN_PAST = 0.3;

/** Whether it says how its writer wants to be answered. */
function standingSignal(text: string): number {
  if (INSTRUCTION.test(text)) return 1;
  return PREFERENCE.test(text) ? PREFERRED : 0;
}

/** Whose words a question asks for. */
function roleAskedOf(text: string): Asked['role'] {
  if (/\b(?:did|have|had) (?:you|the assistant)\b|\byou (?:said|told|recommended|suggested|gave)\b/i.test(text))
    return 'assistant';
  return /\b(?:did|have|had|do|am|was) (?:i|the user)\b|\b(?:i|user) (?:said|told|mentioned|like|prefer)|\bmy\b/i.test(
    text,
  )
    ? 'user'
    : undefined;
}

type Signals = Record<Signal, number>;

/** `middling` is the cosine of an entry whose vector is still to come: it is neither put before nor behind those that have theirs. */
function ownSignals(asked: Asked, candidate: Candidate, { at, middling }: { at: number; middling: number }): Signals {
  const { speaker, role, text } = readSaid(candidate.content, candidate.metadata);
  const ageDays = Math.max(0, asked.at.getTime() - at) / DAY_MS;
  return {
    lexical: candidate.lexical / (candidate.lexical + HALF_LEXICAL),
    passage: clamp(candidate.passage),
    vector: clamp(candidate.cosine ?? middling),
    entity: entitySignal(asked, candidate.content),
    standing: role === 'assistant' ? 0 : standingSignal(text) * (asked.isOfPast ? STANDING_IN_PAST : 1),
    said: role === 'user' ? 1 : 0,
    role: (asked.role !== undefined && role === asked.role) || isNamed(asked, speaker) ? 1 : 0,
    time: asked.span ? timeSignal(asked.span, at) : 0,
    neighbourhood: 0,
    session: 0,
    recency: 2 ** (-ageDays / RECENCY_HALF_LIFE_DAYS),
    importance: clamp(candidate.importance),
  };
}

function isNamed({ words }: Asked, speaker: string | undefined): boolean {
  return speaker !== undefined && wordsOf(speaker).some((name) => words.has(name.replace(/['’]s$/, '')));
}

function entitySignal({ entities }: Asked, content: string): number {
  if (entities.length === 0) return 0;
  const lower = content.toLowerCase();
  return entities.filter((entity) => lower.includes(entity)).length / entities.length;
}

/** 1 within the time that was named; outside it a half at most, halved with each length of that time, and nothing after four. */
function timeSignal({ from, to }: TimeSpan, at: number): number {
  const outside = Math.max(from.getTime() - at, at - to.getTime(), 0);
  const lengths = outside / (to.getTime() - from.getTime());
  if (lengths === 0) return 1;
  return lengths > 4 ? 0 : 2 ** -(lengths + 1);
}

/** What the question and the entry alone say, of what they could: it is what neighbours are judged by. */
function baseOf(signals: Signals, weights: Weights): number {
  const parts: Signal[] = ['lexical', 'vector', 'entity'];
  const most = parts.reduce((sum, signal) => sum + weights[signal], 0);
  return most === 0 ? 0 : parts.reduce((sum, signal) => sum + weights[signal] * signals[signal], 0) / most;
}

/** By conversation the mean of its three best entries, so that a single word does not lift all of it. */
function sessionsOf(candidates: readonly Candidate[], bases: ReadonlyMap<string, number>): Map<string, number> {
  const byThread = new Map<string, number[]>();
  for (const { thread_id: thread, id } of candidates) {
    if (thread === null) continue;
    const of = byThread.get(thread) ?? [];
    of.push(bases.get(id) ?? 0);
    byThread.set(thread, of);
  }
  const mean = (values: number[]) =>
    values
      .toSorted((a, b) => b - a)
      .slice(0, 3)
      .reduce((sum, each) => sum + each, 0) / 3;
  return new Map([...byThread].map(([thread, values]) => [thread, mean(values)]));
}

/** The largest sum there can be: what nobody can have for this question counts against no entry. */
function mostOf(asked: Asked, own: readonly { candidate: Candidate; signals: Signals }[], weights: Weights): number {
  const candidates = own.map(({ candidate }) => candidate);
  const absent = new Set<Signal>();
  if (!candidates.some(({ cosine }) => cosine !== undefined)) absent.add('vector');
  if (asked.span === undefined) absent.add('time');
  if (asked.role === undefined && !own.some(({ signals }) => signals.role > 0)) absent.add('role');
  if (asked.entities.length === 0) absent.add('entity');
  if (!own.some(({ signals }) => signals.standing > 0)) absent.add('standing');
  if (!own.some(({ signals }) => signals.said > 0)) absent.add('said');
  if (!candidates.some(({ neighbours }) => neighbours.length > 0)) absent.add('neighbourhood');
  if (candidates.every(({ thread_id: thread }) => thread === null)) absent.add('session');
  return SIGNALS.reduce((sum, signal) => sum + (absent.has(signal) ? 0 : weights[signal]), 0);
}

const SIGNALS = Object.keys(RECALL_WEIGHTS) as Signal[];

function summed(
  signals: Signals,
  { weights, most }: { weights: Weights; most: number },
): Pick<Ranked, 'score' | 'why'> {
  const parts: [Signal, number][] = [];
  let sum = 0;
  // A loop: it runs for each of some hundred candidates, and what it leaves behind is most of what recall leaves to collect.
  for (const signal of SIGNALS) {
    const part = most === 0 ? 0 : (weights[signal] * signals[signal]) / most;
    sum += part;
    const shown = round(part);
    if (shown > 0) parts.push([signal, shown]);
  }
  return { score: round(clamp(sum)), why: Object.fromEntries(parts.toSorted(([, one], [, other]) => other - one)) };
}

function meanOf(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}

function clamp(value: number): number {
  return Math.min(1, Math.max(0, value));
}

function round(value: number): number {
  return Math.round(value * 10_000) / 10_000;
}
