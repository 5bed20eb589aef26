/** Of hits that say different things of one subject, the newer one comes first. Pure. */
import { timeOf, type Candidate, type Ranked } from './candidate.ts';
import { contradicts } from './contradiction.ts';
import { weightOf } from './passage.ts';
import { readSaid } from './said.ts';

/** So many of the best are looked at: no more are read together. */
const LOOKED_AT = 10;
/** An entry that says what has changed has at least this share of the question's words that the older one has, by weight, */
const LEAST_COMMON = 0.5;
/** and this share of its score. */
const LEAST_SCORE = 0.85;
/** Longer texts are not compared word by word. */
const MOST_COMPARED_CHARS = 500;
/** Of a longer text its beginning says what it is about. */
const BEGINNING_CHARS = 800;

const CHANGE =
  /\b(?:now|new|newly|recently|no longer|instead|actually|updated|changed|moved|increased|decreased|reduced|raised|lowered|extended|rescheduled|postponed|shifted|switched|revised|adjusted|(?:up|down) from)\b/i;

/**
 * Puts an entry that says what has changed before the first older one that it has changed, and one that contradicts an older one
 * before that. It takes over the score of the one that it is put before; `why.change` is the difference.
 */
export function newestFirst<C extends Candidate>(ranked: readonly Ranked<C>[]): Ranked<C>[] {
  const ordered: Ranked<C>[] = [];
  for (const hit of ranked.slice(0, LOOKED_AT)) {
    const at = ordered.findIndex((before) => replaces(hit, before));
    const { score } = ordered[at] ?? hit;
    const change = Math.round((score - hit.score) * 10_000) / 10_000;
    if (at < 0) ordered.push(hit);
    else ordered.splice(at, 0, change > 0 ? { ...hit, score, why: { ...hit.why, change } } : hit);
  }
  return [...ordered, ...ranked.slice(LOOKED_AT)];
}

function replaces(newer: Ranked, older: Ranked): boolean {
  if (!isNewer(newer.entry, older.entry)) return false;
  const [said, before] = [newer.entry, older.entry].map(({ content, metadata }) => readSaid(content, metadata));
  if (!said || !before || said.role === 'assistant' || before.role === 'assistant') return false;
  if (said.text.length <= MOST_COMPARED_CHARS && before.text.length <= MOST_COMPARED_CHARS)
    if (contradicts(before.text, said.text)) return true;
  if (newer.score < LEAST_SCORE * older.score) return false;
  return tellsChange(said.text) && !tellsChange(before.text) && isOfSame(newer.entry, older.entry);
}

function isNewer(one: Candidate, other: Candidate): boolean {
  const [at, before] = [timeOf(one), timeOf(other)];
  return at === before ? one.id > other.id : at > before;
}

function tellsChange(text: string): boolean {
  return CHANGE.test(text.slice(0, BEGINNING_CHARS).replaceAll(/```[\s\S]*?(?:```|$)/g, ' '));
}

function isOfSame(one: Candidate, other: Candidate): boolean {
  const common = new Map([...other.words].filter(([word]) => one.words.has(word)));
  return common.size > 0 && weightOf(common) >= LEAST_COMMON * weightOf(other.words);
}
