/**
 * Shortens the content of a handoff until it fits its target agent (002, "Algorithm 3"). Priorities: first decisions, findings
 * and the last turns, then key points of the conversation and the best memories, then the rest. Pure.
 */
import type { HandoffContext } from './handoff.ts';
import { canonicalJson } from './canonical-json.ts';
import { beginningOf } from './content.ts';

/** A message of the conversation, as text; `isAction` where it calls a tool. */
export interface HandoffMessage {
  role: 'user' | 'assistant';
  text: string;
  isAction?: boolean;
}

export interface HandoffFragment {
  id: string;
  content: unknown;
  createdMs: number;
  accessCount: number;
  /** Relevance to the task, from 0 to 1. */
  relevance: number;
}

/** Everything that could be handed over. */
export interface FullHandoff {
  context: HandoffContext;
  history: readonly HandoffMessage[];
  fragments: readonly HandoffFragment[];
  /** A model's summary of `messagesToTell`; rules replace it if it does not fit. */
  told?: string | undefined;
}

/** The content for the target. */
interface HandoffSummary {
  content: Record<string, unknown>;
  tokens: number;
  /** Tokens of everything that could be handed over. */
  fullTokens: number;
  isShortened: boolean;
}

interface SummaryLimits {
  targetTokens: number;
  nowMs: number;
  countTokens: (text: string) => number;
}

const LAST_TURNS = 3;
const TOP_FINDINGS = 5;
const HISTORY_SHARE = 0.6;
const MEMORY_SHARE = 0.3;
/** With fewer tokens left, background is not included. */
const LEAST_BACKGROUND = 100;
const MOST_ACCESSES = 100;
const DAY_MS = 86_400_000;
/** Maximum length of a key point; and the length to which texts are cut before whole ones are dropped. In characters. */
const POINT_CHARS = 240;
const SHORTEST_TEXT = 40;

/** Everything if it fits, otherwise the most important parts; never more than `targetTokens`. */
export function summarizeHandoff(full: FullHandoff, limits: SummaryLimits): HandoffSummary {
  const { targetTokens } = limits;
  const whole = wholeOf(full);
  const fullTokens = tokensOf(whole, limits);
  if (fullTokens <= targetTokens) return { content: whole, tokens: fullTokens, fullTokens, isShortened: false };
  const content = shorten(full, limits);
  return { content, tokens: tokensOf(content, limits), fullTokens, isShortened: true };
}

function wholeOf({ context, history, fragments }: FullHandoff): Record<string, unknown> {
  return present({
    ...context,
    conversation_history: history.map(({ role, text }) => ({ role, text })),
    memory_fragments: fragments.map(({ id, content }) => ({ id, content })),
  });
}

function shorten(full: FullHandoff, limits: SummaryLimits): Record<string, unknown> {
  const { targetTokens } = limits;
  const essential = essentialOf(full);
  const remaining = targetTokens - tokensOf(essential, limits);
  if (remaining <= 0) return toldInstead(full, limits) ?? squeeze(essential, limits);
  const important = present({
    ...essential,
    summarized_history: historyPoints(full, { ...limits, targetTokens: Math.floor(remaining * HISTORY_SHARE) }),
    relevant_memories: topMemories(full.fragments, {
      ...limits,
      targetTokens: Math.floor(remaining * MEMORY_SHARE),
    }),
  });
  const left = targetTokens - tokensOf(important, limits);
  // The shares leave a tenth for separators; if that is not enough, only the essential part is used.
  if (left < 0) return essential;
  return left > LEAST_BACKGROUND ? withBackground(important, backgroundOf(full), limits) : important;
}

/** The part to keep in any case: task, decisions, first findings, last turns. */
function essentialOf({ context, history }: FullHandoff): Record<string, unknown> {
  return present({
    task_context: context.task_context,
    handoff_metadata: context.handoff_metadata,
    decisions: context.execution_context?.decisions_made,
    key_findings: context.reasoning_context?.key_findings?.slice(0, TOP_FINDINGS),
    last_turns: lastTurns(history).map(({ role, text }) => ({ role, text })),
  });
}

/** The last three turns: from the third-last user message on. */
function lastTurns(history: readonly HandoffMessage[]): readonly HandoffMessage[] {
  const starts = history.flatMap(({ role }, index) => (role === 'user' ? [index] : []));
  return history.slice(starts.at(-LAST_TURNS) ?? 0);
}

/**
 * The messages that a model should summarise: those before the last turns, or all if even the essential part does not fit.
 * Empty if nothing must be shortened.
 */
export function messagesToTell(full: FullHandoff, limits: SummaryLimits): readonly HandoffMessage[] {
  if (!summarizeHandoff(full, limits).isShortened) return [];
  return tokensOf(essentialOf(full), limits) < limits.targetTokens ? earlierOf(full.history) : full.history;
}

/** The essential part with the model's summary in place of the last turns; undefined if that does not fit. */
function toldInstead(full: FullHandoff, limits: SummaryLimits): Record<string, unknown> | undefined {
  if (full.told === undefined) return undefined;
  const content = { ...essentialOf({ ...full, history: [] }), summarized_history: [full.told] };
  return tokensOf(content, limits) <= limits.targetTokens ? content : undefined;
}

/** The conversation without its last turns. */
function earlierOf(history: readonly HandoffMessage[]): readonly HandoffMessage[] {
  return history.slice(0, history.length - lastTurns(history).length);
}

function historyPoints({ told, history }: FullHandoff, limits: SummaryLimits): string[] {
  const fits = told !== undefined && tokensOf({ summarized_history: [told] }, limits) <= limits.targetTokens;
  return fits ? [told] : keyPoints(earlierOf(history), limits);
}

const DECISION = /\b(decid|decision|chose|chosen|agreed|conclu|must|will not|because|therefore|result|found that)/i;

/** Key points: messages about decisions and actions, in order; if there is no room for all, the newest. */
function keyPoints(history: readonly HandoffMessage[], limits: SummaryLimits): string[] {
  const points: string[] = [];
  let used = limits.countTokens('"summarized_history":[],');
  for (const message of history.toReversed()) {
    const point = keyPointOf(message);
    if (point === undefined) continue;
    used += tokensOf(point, limits) + 1;
    if (used > limits.targetTokens) break;
    points.unshift(point);
  }
  return points;
}

function keyPointOf({ role, text, isAction }: HandoffMessage): string | undefined {
  const sentences = text.split(/(?<=[.!?])\s+|\n+/).filter((sentence) => sentence.trim() !== '');
  const telling = sentences.find((sentence) => DECISION.test(sentence)) ?? (isAction ? sentences[0] : undefined);
  return telling && `${role}: ${cut(telling.trim(), POINT_CHARS)}`;
}

/** The memories with the highest scores that fit. */
function topMemories(fragments: readonly HandoffFragment[], limits: SummaryLimits): { id: string; content: unknown }[] {
  const ranked = fragments
    .map((fragment) => ({ fragment, score: memoryScore(fragment, limits.nowMs) }))
    .toSorted((a, b) => b.score - a.score);
  let used = limits.countTokens('"relevant_memories":[],');
  return ranked.flatMap(({ fragment: { id, content } }) => {
    const tokens = tokensOf({ id, content }, limits) + 1;
    if (used + tokens > limits.targetTokens) return [];
    used += tokens;
    return [{ id, content }];
  });
}

/** 0.4 relevance + 0.4 recency + 0.2 access. Recency halves every day. */
export function memoryScore({ relevance, createdMs, accessCount }: HandoffFragment, nowMs: number): number {
  const recency = 0.5 ** (Math.max(0, nowMs - createdMs) / DAY_MS);
  return 0.4 * relevance + 0.4 * recency + 0.2 * Math.min(1, accessCount / MOST_ACCESSES);
}

/** Everything that is neither essential nor a reference. */
function backgroundOf({ context }: FullHandoff): Record<string, unknown> {
  const { decisions_made: _decisions, ...execution_context } = context.execution_context ?? {};
  const { key_findings: findings = [], ...reasoning } = context.reasoning_context ?? {};
  const reasoning_context = present({ ...reasoning, key_findings: findings.slice(TOP_FINDINGS) });
  const shared_fragments = context.memory_references?.shared_fragments;
  return present({ execution_context: present(execution_context), reasoning_context, shared_fragments });
}

function withBackground(
  content: Record<string, unknown>,
  background: Record<string, unknown>,
  limits: SummaryLimits,
): Record<string, unknown> {
  if (Object.keys(background).length === 0) return content;
  const text = canonicalJson(background);
  const withText = (chars: number) => ({ ...content, background_context: cut(text, chars) });
  const chars = largest(
    Math.min(text.length, mostChars(limits)),
    (count) => tokensOf(withText(count), limits) <= limits.targetTokens,
  );
  return chars > 0 ? withText(chars) : content;
}

/** For an essential part that is too large: cuts its texts, then drops turns, findings and decisions from their far ends. */
function squeeze(essential: Record<string, unknown>, limits: SummaryLimits): Record<string, unknown> {
  const fits = (value: unknown) => tokensOf(value, limits) <= limits.targetTokens;
  const longest = mostChars(limits);
  let content = essential;
  if (!fits(cutTexts(content, SHORTEST_TEXT))) content = leaveOut(cutTexts(content, SHORTEST_TEXT), fits);
  const chars = largest(longest, (count) => fits(cutTexts(content, count)));
  const squeezed = cutTexts(content, chars) as Record<string, unknown>;
  return fits(squeezed) ? squeezed : {};
}

/** Upper bound of characters that can fit: a token has four at most. */
function mostChars({ targetTokens }: SummaryLimits): number {
  return 4 * targetTokens;
}

function leaveOut(essential: unknown, fits: (value: unknown) => boolean): Record<string, unknown> {
  const content = { ...(essential as Record<string, unknown>) };
  for (const [part, end] of [
    ['last_turns', 'first'],
    ['key_findings', 'last'],
    ['decisions', 'last'],
  ] as const) {
    const items = Array.isArray(content[part]) ? (content[part] as unknown[]) : [];
    const kept = (count: number) => (end === 'last' ? items.slice(0, count) : items.slice(items.length - count));
    const count = largest(items.length, (wanted) => fits({ ...content, [part]: kept(wanted) }));
    content[part] = kept(count);
    if (count === 0) delete content[part];
    if (fits(content)) return content;
  }
  delete content['handoff_metadata'];
  const task = content['task_context'] as HandoffContext['task_context'];
  if (!fits(content) && task) content['task_context'] = present({ ...task, constraints: undefined });
  return content;
}

function cutTexts(value: unknown, chars: number): unknown {
  if (typeof value === 'string') return cut(value, chars);
  if (Array.isArray(value)) return value.map((item) => cutTexts(item, chars));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, cutTexts(item, chars)]));
}

function cut(text: string, chars: number): string {
  return text.length <= chars ? text : `${beginningOf(text, chars - 1)}…`;
}

/** The largest number up to `most` for which `holds`, 0 if none. `holds` must be monotonic. */
function largest(most: number, holds: (count: number) => boolean): number {
  let [low, high] = [0, most];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (holds(middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}

function tokensOf(value: unknown, { countTokens }: SummaryLimits): number {
  return countTokens(canonicalJson(value));
}

/** Removes missing and empty parts. */
function present(parts: Record<string, unknown>): Record<string, unknown> {
  const isThere = (value: unknown) =>
    value !== undefined && !(typeof value === 'object' && value !== null && Object.keys(value).length === 0);
  return Object.fromEntries(Object.entries(parts).filter(([, value]) => isThere(value)));
}
