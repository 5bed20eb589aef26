/** Moves newer hits ahead of older ones that say something else about the same subject. Pure. */
import { timeOf, type Candidate, type Ranked } from './candidate.ts';
import { contradicts } from './contradiction.ts';
import { readPassage, weightOf } from './passage.ts';
import { asksForValue, asksWhether } from './question.ts';
import { readSaid } from './said.ts';
import { saysNotSo } from './words.ts';

/** Number of top hits considered: no more are read together. */
const LOOKED_AT = 10;
/** Minimum shares of the older entry's matched words (by weight) and score, for an entry that announces a change or has another number. */
const LEAST: Shares = { words: 0.4, score: 0.7 };
/** For questions about a value, a change may match fewer words but needs a higher score: it names its subject briefly. */
const LEAST_OF_CHANGE: Shares = { words: 0.25, score: 0.8 };
/** A denial must match more words, to be about the same thing and not a neighbouring one. */
const LEAST_DENIED = 0.6;
/** Words that sentences with the same unit must share; one word of the question suffices, too. */
const LEAST_SHARED = 2;
/** Words that do not tell what is counted. */
const GLUE = new Set(
  'about after also because been before being between both could does doing down each even ever from have having here into just like make many more most much need only other over same should some such than that their them then there these they this those through under until upon very want were what when where which while will with within without would your'.split(
    ' ',
  ),
);
/** Longer texts are not compared for contradictions. */
const MOST_COMPARED_CHARS = 500;
/** Only the beginning of longer texts is examined: it tells what they are about. */
const BEGINNING_CHARS = 800;

/** A number with its unit: `$5`, `5 %`, `5 days`, `5-day`. */
const COUNT = /([$€£])?(?<![\p{L}\d.,])(\d+(?:[.,:]\d+)*)(?:\s*(%)|[\s-]+(\p{L}{2,}))?/gu;

const CLAUSE_ENDS = /[.!?;,]\s|\n|\bbut\b/i;

const CHANGE =
  /\b(?:now|new|newly|recently|no longer|instead|actually|updated|changed|moved|increased|decreased|reduced|raised|lowered|extended|rescheduled|postponed|shifted|switched|revised|adjusted|(?:up|down) from)\b/i;

/**
 * Moves newer entries ahead of older ones they supersede: announced changes, contradictions, other numbers (for value
 * questions), denials (for yes/no questions). The moved entry takes the displaced one's score if higher; `why.change` is the
 * difference.
 */
export function newestFirst<C extends Candidate>(question: string, ranked: readonly Ranked<C>[]): Ranked<C>[] {
  const asked = {
    isWhether: asksWhether(question),
    value: asksForValue(question) ? new Set(tellingWords(question.toLowerCase())) : undefined,
  };
  const ordered: Ranked<C>[] = [];
  for (const hit of ranked.slice(0, LOOKED_AT)) {
    const at = ordered.findIndex((before) => replaces(hit, before, asked));
    const { score } = ordered[at] ?? hit;
    const change = Math.round((score - hit.score) * 10_000) / 10_000;
    if (at < 0) ordered.push(hit);
    else ordered.splice(at, 0, change > 0 ? { ...hit, score, why: { ...hit.why, change } } : hit);
  }
  return [...ordered, ...ranked.slice(LOOKED_AT)];
}

interface Asked {
  /** It is a yes/no question. */
  isWhether: boolean;
  /** Words of a question about a value. */
  value: ReadonlySet<string> | undefined;
}

/** The newer entry's share of the older one's matched words and score. */
interface Shares {
  words: number;
  score: number;
}

const reaches = (of: Shares, least: Shares): boolean => of.words >= least.words && of.score >= least.score;

function replaces(newer: Ranked, older: Ranked, asked: Asked): boolean {
  if (!isNewer(newer.entry, older.entry)) return false;
  const [said, before] = [newer.entry, older.entry].map(({ content, metadata }) => readSaid(content, metadata));
  if (!said || !before || said.role === 'assistant' || before.role === 'assistant') return false;
  if (said.text.length <= MOST_COMPARED_CHARS && before.text.length <= MOST_COMPARED_CHARS)
    if (contradicts(before.text, said.text)) return true;
  const shares = { words: commonOf(newer.entry, older.entry), score: newer.score / older.score };
  const isChange = tellsChange(said.text) && !tellsChange(before.text);
  if (!reaches(shares, LEAST)) return isChange && asked.value !== undefined && reaches(shares, LEAST_OF_CHANGE);
  return (
    isChange ||
    (asked.value !== undefined && countsOtherwise(said.text, before.text, asked.value)) ||
    (asked.isWhether &&
      shares.words >= LEAST_DENIED &&
      isDenied(newer.entry, said.text) &&
      !isDenied(older.entry, before.text))
  );
}

/** Whether the clause with most of the question's words denies something. Other clauses are about something else. */
function isDenied({ words }: Candidate, text: string): boolean {
  const beginning = beginningOf(text);
  if (!saysNotSo(beginning)) return false;
  const clauses = beginning.split(CLAUSE_ENDS);
  const shares = clauses.map((clause) => readPassage(clause, words).share);
  return saysNotSo(clauses[shares.indexOf(Math.max(...shares))] ?? '');
}

/** Whether both texts have different numbers for one unit, in sentences with shared words: `12 % of the budget`, `15 % of the budget`. */
function countsOtherwise(said: string, before: string, asked: ReadonlySet<string>): boolean {
  const earlier = countsOf(before);
  return countsOf(said).some(({ what, numbers, words }) => {
    const same = earlier.filter((count) => count.what === what && isOfOne(words, count.words, asked));
    return same.length > 0 && same.every((count) => !count.numbers.some((number) => numbers.includes(number)));
  });
}

interface Count {
  what: string;
  numbers: string[];
  /** Words of its sentence, without the unit and function words. */
  words: ReadonlySet<string>;
}

function countsOf(text: string): Count[] {
  return beginningOf(text)
    .toLowerCase()
    .split(/[.!?;](?:\s|$)|\n/)
    .flatMap((sentence) => {
      const words = tellingWords(sentence);
      const counts = new Map<string, string[]>();
      for (const [, currency, number = '', percent, noun] of sentence.matchAll(COUNT)) {
        const what = currency ?? percent ?? noun;
        if (what !== undefined) counts.set(what, [...(counts.get(what) ?? []), number]);
      }
      const beside = (what: string) => new Set(words.filter((word) => word !== what));
      return [...counts].map(([what, numbers]) => ({ what, numbers, words: beside(what) }));
    });
}

function isOfOne(words: ReadonlySet<string>, others: ReadonlySet<string>, asked: ReadonlySet<string>): boolean {
  const shared = [...words].filter((word) => others.has(word));
  return shared.length >= LEAST_SHARED || shared.some((word) => asked.has(word));
}

/** The significant words of a text in lower case. */
function tellingWords(text: string): string[] {
  return (text.match(/\p{L}{4,}/gu) ?? []).filter((word) => !GLUE.has(word));
}

function isNewer(one: Candidate, other: Candidate): boolean {
  const [at, before] = [timeOf(one), timeOf(other)];
  return at === before ? one.id > other.id : at > before;
}

function tellsChange(text: string): boolean {
  return CHANGE.test(beginningOf(text));
}

function beginningOf(text: string): string {
  return text.slice(0, BEGINNING_CHARS).replaceAll(/```[\s\S]*?(?:```|$)/g, ' ');
}

/** The share, by weight, of an older entry's matched words that a newer one matches. */
function commonOf(newer: Candidate, older: Candidate): number {
  const common = new Map([...older.words].filter(([word]) => newer.words.has(word)));
  const most = weightOf(older.words);
  return common.size > 0 && most > 0 ? weightOf(common) / most : 0;
}
