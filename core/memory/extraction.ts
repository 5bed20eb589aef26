/** Judges what a turn's extraction proposes: rules that refuse, and the origin of what is kept. Pure. */
import { isTrusted, type MemoryOrigin, type MemoryType } from './entry.ts';
import { junkRuleOf, type JunkRule } from './junk.ts';
import { isSameFact, plainOf } from './same-fact.ts';
import { entitiesOf, hasUnspaced, numbersOf, wordsOf } from './words.ts';

/** What a model, or the rules, propose to remember. */
export interface Proposal {
  add: readonly ProposedMemory[];
  supersede: readonly ProposedCorrection[];
}

interface ProposedMemory {
  content: string;
  memory_type: MemoryType;
  importance?: number | undefined;
  tags?: readonly string[] | undefined;
}

interface ProposedCorrection {
  id: string;
  content: string;
  reason: string;
}

/** A live entry that was shown for the proposal. */
export interface ShownMemory {
  id: string;
  content: string;
  origin: MemoryOrigin;
}

/** The context against which a proposal is judged. */
export interface Evidence {
  systemPrompt: string;
  /** Memories given to the turn: they are never remembered again. */
  recalled: readonly string[];
  shown: readonly ShownMemory[];
  /** For each proposed text: live entries of nearly the same meaning, or the same text. */
  similar: ReadonlyMap<string, readonly string[]>;
  userText: string;
  /** If the turn had read untrusted content: its origin. */
  taintedBy: MemoryOrigin | undefined;
}

export interface Judged {
  add: (ProposedMemory & { origin: MemoryOrigin })[];
  supersede: (ProposedCorrection & { origin: MemoryOrigin })[];
  refused: Partial<Record<JunkRule, number>>;
}

/** Judges the parts of a proposal in order, so that later duplicates of earlier ones are refused. */
export function judgeProposal({ add, supersede }: Proposal, evidence: Evidence): Judged {
  const judged: Judged = { add: [], supersede: [], refused: {} };
  const taken = new Set<string>();
  const judge = (rule: JunkRule | undefined, accept: () => void, content: string) => {
    if (rule) judged.refused[rule] = (judged.refused[rule] ?? 0) + 1;
    else {
      accept();
      taken.add(plainOf(content));
    }
  };
  const replaced = new Set<string>();
  for (const each of supersede) {
    const origin = originOf(each.content, evidence);
    const rule = replaced.has(each.id) ? 'duplicate' : ruleForCorrection(each, origin, evidence);
    const accept = () => {
      replaced.add(each.id);
      judged.supersede.push({ ...each, origin });
    };
    judge(rule, accept, each.content);
  }
  for (const each of add) {
    const rule = taken.has(plainOf(each.content)) ? 'duplicate' : ruleForNew(each.content, evidence);
    judge(rule, () => judged.add.push({ ...each, origin: originOf(each.content, evidence) }), each.content);
  }
  return judged;
}

function ruleForNew(content: string, { systemPrompt, recalled, shown, similar }: Evidence): JunkRule | undefined {
  const said = [...recalled, ...shown.map((entry) => entry.content)];
  if ((similar.get(content) ?? []).some((other) => isSameFact(content, other))) return 'duplicate';
  return junkRuleOf(content, { systemPrompt, recalled: said });
}

function ruleForCorrection(
  { id, content }: ProposedCorrection,
  origin: MemoryOrigin,
  { systemPrompt, shown }: Evidence,
): JunkRule | undefined {
  const before = shown.find((entry) => entry.id === id);
  if (!before) return 'unknown_entry';
  if (isTrusted(before.origin) && !isTrusted(origin)) return 'untrusted';
  // Whoever corrects says another value, however alike the two are.
  if (plainOf(content) === plainOf(before.content)) return 'duplicate';
  // Most of its words were in the entry that it replaces.
  return junkRuleOf(content, { systemPrompt, recalled: [] });
}

/** Minimum share of a text's significant words that somebody must have said for it to be theirs. */
const COVERED = 0.6;

/** The origin of an extracted text: the user, if they said it; otherwise the agent, or the untrusted source. */
function originOf(content: string, { userText, taintedBy }: Pick<Evidence, 'userText' | 'taintedBy'>): MemoryOrigin {
  const said = new Set(stemsOf(userText));
  const stems = stemsOf(content);
  const lower = userText.toLowerCase();
  const isNamed = [...entitiesOf(content), ...numbersOf(content)].every(
    (name) => lower.includes(name) || STRANGERS.has(name),
  );
  const covered = stems.filter((stem) => said.has(stem)).length;
  const isCovered = stems.length > 0 && covered >= (taintedBy ? stems.length : Math.ceil(stems.length * COVERED));
  if (isNamed && isCovered) return 'user';
  return taintedBy ?? 'agent';
}

/** The message that shares most words with a learnt text; the first of equal ones. */
export function heardIn<M extends { message: string }>(heard: readonly M[], content: string): M | undefined {
  const stems = stemsOf(content);
  const shared = heard.map((each) => {
    const said = new Set(stemsOf(each.message));
    return stems.filter((stem) => said.has(stem)).length;
  });
  return heard[shared.indexOf(Math.max(...shared))];
}

/** How models refer to the user. */
const STRANGERS = new Set(['user', 'they', 'their']);

/** The first four letters of longer words, so that `lives` and `live` match. In scripts without spaces all words are short. */
function stemsOf(text: string): string[] {
  const isLong = (word: string) => word.length >= 4 || hasUnspaced(word);
  const words = wordsOf(text).filter((word) => isLong(word) && !FILLERS.has(word) && !STRANGERS.has(word));
  return [...new Set(words.map((word) => word.replace(/['’]s$/, '').slice(0, 4)))];
}

const FILLERS = new Set([
  'that', 'this', 'with', 'have', 'they', 'them', 'their', 'there', 'from', 'would', 'will', 'also', 'very', 'user', 'users',
  "user's", 'said', 'wants', 'about',
]); // prettier-ignore
