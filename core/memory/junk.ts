/** Rules that keep an agent from remembering junk on its own. Each refusal names its rule and is counted. */
import { shinglesOf, wordsOf } from './words.ts';

const JUNK_RULES = [
  'too_short',
  'secret',
  'system_prompt',
  'recalled_text',
  'duplicate',
  /** The entry to be replaced is not a live one shown to the model. */
  'unknown_entry',
  /** Untrusted content would replace what somebody has said. */
  'untrusted',
] as const;
export type JunkRule = (typeof JUNK_RULES)[number];

const LEAST_WORDS = 3;
/** This many consecutive words found elsewhere are a copy. */
const SHINGLE = 8;

const SECRETS: readonly RegExp[] = [
  /-----BEGIN [A-Z ]*PRIVATE KEY-----/,
  /\b(?:sk|pk|rk)[-_](?:live|test|proj|ant)?[-_]?[A-Za-z0-9_-]{16,}/,
  /\b(?:ghp|gho|ghs|github_pat|glpat|xox[abprs]|AKIA|ASIA|AIza|drv)[-_A-Za-z0-9]{12,}/,
  /\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}/,
  /\b(?:password|passwd|passphrase|pin|secret|api[ _-]?key|access[ _-]?token)\b\s*(?:is|are|:|=)\s*\S{4,}/i,
  /\b[a-z][a-z0-9+.-]*:\/\/[^\s:@/]+:[^\s:@/]+@/i,
  /\b(?:\d[ -]?){15,16}\b/,
];

/** Texts that a new one is compared with. */
interface KnownTexts {
  systemPrompt: string;
  /** Similar entries. */
  recalled: readonly string[];
}

/** The rule that refuses a text; undefined if it may be remembered. */
export function junkRuleOf(content: string, known: KnownTexts): JunkRule | undefined {
  if (wordsOf(content).length < LEAST_WORDS) return 'too_short';
  if (SECRETS.some((pattern) => pattern.test(content))) return 'secret';
  if (isCopied(content, [known.systemPrompt])) return 'system_prompt';
  return isCopied(content, known.recalled) ? 'recalled_text' : undefined;
}

function isCopied(content: string, texts: readonly string[]): boolean {
  const own = shinglesOf(content, SHINGLE);
  return own.size > 0 && texts.some((text) => [...shinglesOf(text, SHINGLE)].some((shingle) => own.has(shingle)));
}
