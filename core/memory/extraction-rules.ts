/**
 * Extracts memories from a turn by rules alone: what users say about themselves, how they want to be answered, and what they
 * ask to be remembered (docs/memory.md). Takes the user's own sentences verbatim, and nothing that an agent or a tool said.
 */
import { contradicts } from './contradiction.ts';
import type { Proposal, ShownMemory } from './extraction.ts';
import { wordsOf } from './words.ts';

const LONGEST_SENTENCE = 300;
const MOST = 10;

const ASKED = /^(?:please\s+)?(?:remember|note|keep in mind|don['’]t forget)\b(?:\s+that\b|\s*[:,])?\s+/i;
const CORRECTION =
  /^(?:no|sorry|actually|correction|wait)\b[\s,:.!-]+|\b(?:not any ?more|no longer|instead|from now on|these days|now)\b/i;
const INSTRUCTION = /^(?:please\s+)?(?:always|never|from now on|in (?:the )?future|call me)\b/i;
const PREFERENCE =
  /\bI(?:['’]d)?\s+(?:(?:really|much|now|always|usually|still)\s+)*(?:prefer|like|love|enjoy|hate|dislike|avoid|can['’]t stand|don['’]t (?:like|eat|drink|want))\b|\bmy favou?rite\b|\bI(?:['’]m| am) allergic\b/i;
const FACT =
  /\bI(?:['’]m| am)\s+(?:an?|from|based|called|\d+|married|allergic|the|vegetarian|vegan)\b|\bI\s+(?:(?:now|still|currently|have)\s+)*(?:live|lived|work|worked|study|moved|own|drive|speak|was born|grew up|have)\b|\b(?:my|our)\s+[\p{L}\s'’-]{2,40}?\s+(?:is|are|was|lives|works|moved)\b|\bwe\s+(?:live|moved|use)\b/iu;

/** The entries proposed for a message; `known` are live entries similar to it. */
export function extractByRules(message: string, known: readonly ShownMemory[]): Proposal {
  const add: Proposal['add'][number][] = [];
  const supersede: Proposal['supersede'][number][] = [];
  for (const sentence of sentencesOf(message)) {
    const learnt = learn(sentence);
    if (!learnt || add.length + supersede.length >= MOST) continue;
    const before = replacedBy(learnt.content, { known, isCorrection: CORRECTION.test(sentence) });
    if (before)
      supersede.push({ id: before.id, content: learnt.content, reason: 'The user has said otherwise since.' });
    else add.push(learnt);
  }
  return { add, supersede };
}

function sentencesOf(message: string): string[] {
  const prose = message.replaceAll(/```[\s\S]*?(?:```|$)/g, '\n');
  return (prose.match(/[^.!?\n]+(?:[.!?](?=\S)[^.!?\n]+)*[.!?]*/g) ?? [])
    .map((sentence) => sentence.trim())
    .filter((sentence) => sentence.length <= LONGEST_SENTENCE && !sentence.endsWith('?'));
}

function learn(sentence: string): Proposal['add'][number] | undefined {
  const isAsked = ASKED.test(sentence);
  const content = upperFirst(
    sentence.replace(ASKED, '').replace(/^(?:no|sorry|actually|correction|wait)\b[\s,:.!-]+/i, ''),
  );
  if (INSTRUCTION.test(content)) return { content, memory_type: 'PROCEDURAL', importance: 0.8, tags: ['instruction'] };
  if (PREFERENCE.test(content)) return { content, memory_type: 'SEMANTIC', importance: 0.7, tags: ['preference'] };
  if (FACT.test(content)) return { content, memory_type: 'SEMANTIC', importance: 0.6 };
  return isAsked ? { content, memory_type: 'SEMANTIC', importance: 0.7 } : undefined;
}

/** Facts that a person has only one of: home, work, name, language of answers, and each `my …`. */
const FRAMES: readonly [RegExp, (match: RegExpMatchArray) => string][] = [
  [/\b(?:I|we)\s+(?:\p{L}+\s+)?(?:live|lived|moved)\b/iu, () => 'home'],
  [/\bI\s+(?:\p{L}+\s+)?(?:work|worked)\s+(?:at|for|as)\b/iu, () => 'work'],
  [/\b(?:my name is|call me|I(?:['’]m| am) called)\b/i, () => 'name'],
  [/\b(?:answer|reply|respond|speak|write)(?:\s+to\s+me)?\s+in\s+\p{Lu}\p{L}+\s*[.!]*$/u, () => 'language'],
  [/\b(?:my|our)\s+([\p{L}\s'’-]{2,40}?)\s+(?:is|are|was)\b/iu, ([, what = '']) => `my ${what.toLowerCase()}`],
];

function frameOf(content: string): string | undefined {
  for (const [pattern, name] of FRAMES) {
    const match = pattern.exec(content);
    if (match) return name(match);
  }
  return undefined;
}

/**
 * The user's entry that a sentence replaces: it fills the same frame, is another request for the same, or is corrected by it
 * and shares most words.
 */
function replacedBy(
  content: string,
  { known, isCorrection }: { known: readonly ShownMemory[]; isCorrection: boolean },
): ShownMemory | undefined {
  const own = known.filter(({ origin }) => origin === 'user');
  const frame = frameOf(content);
  const framed = frame === undefined ? undefined : own.find((entry) => frameOf(entry.content) === frame);
  if (framed) return framed;
  const isAsked = INSTRUCTION.test(content);
  const asked = own.find((entry) => isAsked && INSTRUCTION.test(entry.content) && contradicts(entry.content, content));
  if (asked || !isCorrection) return asked;
  return own.find((entry) => sharedShare(content, entry.content) >= 0.5);
}

function sharedShare(left: string, right: string): number {
  const words = (text: string) => new Set(wordsOf(text).filter((word) => word.length >= 4));
  const [a, b] = [words(left), words(right)];
  const shared = [...a].filter((word) => b.has(word)).length;
  return shared / Math.max(1, Math.min(a.size, b.size));
}

function upperFirst(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
