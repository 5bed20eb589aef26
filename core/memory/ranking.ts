/**
 * Ranks memories for a question by a weighted sum of signals, each from 0 to 1. Ranks are not fused: an embedding that is weak
 * on conversations would then outvote matching words (docs/memory.md has the figures).
 */
import { timeOf, type Candidate, type Ranked } from './candidate.ts';
import { bringOtherSide, countLessBeside } from './other-side.ts';
import { newestFirst } from './newest-first.ts';
import { asksForBefore, asksForOverview, asksForPast } from './question.ts';
import { readSaid } from './said.ts';
import { resolveTime, type TimeSpan } from './time-expressions.ts';
import { RECALL_WEIGHTS, type Signal } from './weights.ts';
import { entitiesOf, wordsOf } from './words.ts';

/** BM25 parameters: saturation of word counts, and length penalty. Users' short messages contain more than long answers. */
export const BM25 = { k1: 5, b: 1 } as const;
/** Lexical value, relative to the best possible, that gives half of the signal. */
const HALF_LEXICAL = 0.5;

/** Age in days at which recency is halved. */
const RECENCY_HALF_LIFE_DAYS = 30;
const DAY_MS = 86_400_000;

export interface Question {
  text: string;
  /** When it is asked. */
  at: Date;
}

/** Ranks candidates by score, best first; of equal ones the newer first. Those that nothing relates to the question are dropped. */
export function rank<C extends Candidate>(question: Question, candidates: readonly C[]): Ranked<C>[] {
  const asked = readQuestion(question);
  const middling = meanOf(candidates.flatMap(({ cosine }) => cosine ?? []));
  const own = candidates.map((candidate) => {
    const at = timeOf(candidate);
    return { candidate, at, signals: ownSignals(asked, candidate, { at, middling }) };
  });
  const bases = new Map(own.map(({ candidate, signals }) => [candidate.id, baseOf(signals)]));
  const sessions = sessionsOf(candidates, bases);
  const most = mostOf(asked, own);
  const ranked = own.map(({ candidate, signals }): Ranked<C> => {
    const all = {
      ...signals,
      neighbourhood: neighbourhoodOf(candidate, bases),
      session: candidate.thread_id === null ? 0 : (sessions.get(candidate.thread_id) ?? 0),
    };
    return { entry: candidate, ...summed(all, most) };
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

/** Half the best neighbour, half the mean of all, where neighbours that are not candidates count as 0. */
function neighbourhoodOf({ neighbours }: Candidate, bases: ReadonlyMap<string, number>): number {
  const around = neighbours.map(({ id, steps }) => (bases.get(id) ?? 0) * STEP ** (steps - 1));
  const mean = around.reduce((sum, each) => sum + each, 0) / AROUND;
  return (Math.max(0, ...around) + Math.min(1, mean)) / 2;
}

/** For overviews: lowers the second hit of a conversation, the third more, so that each conversation is represented. */
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

/** Factor for each further entry of a conversation in an overview. */
const SPREAD = 0.97;

/** Factor for each further step to a neighbour. */
const STEP = 0.85;
/** Number of neighbours considered before and after an entry. */
export const NEIGHBOUR_STEPS = 2;
/** Sum of all neighbours' factors. */
const AROUND = 2 * Array.from({ length: NEIGHBOUR_STEPS }, (_, steps) => STEP ** steps).reduce((a, b) => a + b);

/** Signals that show that an entry is related to the question. */
const SPEAKING: readonly Signal[] = ['lexical', 'entity', 'time', 'neighbourhood'];

/** Entries without a vector yet get no support from it. */
function speaksFor({ cosine }: Candidate, why: Ranked['why']): boolean {
  return (cosine !== undefined && (why.vector ?? 0) > 0) || SPEAKING.some((signal) => (why[signal] ?? 0) > 0);
}

interface Asked extends Question {
  isOverview: boolean;
  /** It asks for something said or done: preferences about answers hardly matter then. */
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
/** Weight of a preference relative to an instruction: people mention preferences in passing. */
const PREFERRED = 0.55;

/** Weight of instructions and preferences in questions about the past. */
const STANDING_IN_PAST = 0.3;

/** How clearly a text says how its writer wants to be answered. */
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

/** `middling`: used as the cosine of entries without a vector yet, so that they are neither preferred nor penalised. */
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

/** 1 within the named period; outside at most 0.5, halved with each length of the period, and 0 after four. */
function timeSignal({ from, to }: TimeSpan, at: number): number {
  const outside = Math.max(from.getTime() - at, at - to.getTime(), 0);
  const lengths = outside / (to.getTime() - from.getTime());
  if (lengths === 0) return 1;
  return lengths > 4 ? 0 : 2 ** -(lengths + 1);
}

/** The weighted mean of the signals that compare question and entry directly; used to judge neighbours. */
function baseOf(signals: Signals): number {
  const parts: Signal[] = ['lexical', 'vector', 'entity'];
  const most = parts.reduce((sum, signal) => sum + RECALL_WEIGHTS[signal], 0);
  return most === 0 ? 0 : parts.reduce((sum, signal) => sum + RECALL_WEIGHTS[signal] * signals[signal], 0) / most;
}

/** By conversation, the mean of its three best entries, so that a single match does not lift the whole conversation. */
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

/** The highest possible score. Signals that no entry can have for this question are left out. */
function mostOf(asked: Asked, own: readonly { candidate: Candidate; signals: Signals }[]): number {
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
  return SIGNALS.reduce((sum, signal) => sum + (absent.has(signal) ? 0 : RECALL_WEIGHTS[signal]), 0);
}

const SIGNALS = Object.keys(RECALL_WEIGHTS) as Signal[];

function summed(signals: Signals, most: number): Pick<Ranked, 'score' | 'why'> {
  const parts: [Signal, number][] = [];
  let sum = 0;
  // A loop, for speed: it runs for hundreds of candidates, and its allocations dominate the garbage of recall.
  for (const signal of SIGNALS) {
    const part = most === 0 ? 0 : (RECALL_WEIGHTS[signal] * signals[signal]) / most;
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
