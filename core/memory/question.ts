/** What kind of answer a question asks for, apart from its subject. Pure. */

/** Words about the conversation and the answer, not about what is remembered. */
const ABOUT_THE_ANSWER =
  /\b(?:can|could|would|please|you|help|me|tell|give|provide|list|show|mention|only|items?|summar(?:y|i[sz]e)|comprehensive|detailed|complete|overview|describe|explain|recap|order|chronological(?:ly)?|sequence|different|various|aspects?|topics?|throughout|across|during|over(?= time)|our|conversations?|chats?|discussions?|discussed|brought|mentioned|one|two|three|four|five|six|seven|eight|nine|ten|based)\b/gi;

const TELLS =
  '(?:mention(?:ed)?|recommend(?:ed)?|suggest(?:ed)?|tell|told|say|said|help(?:ed)?|show(?:n|ed)?|provided?|explain(?:ed)?|discuss(?:ed)?|described?|ask(?:ed)?|advised?|give|gave|given|talk(?:ed)?|chat(?:ted)?)';
const PARTNERS = "(?:i|you|we|the (?:user|assistant))(?:['’](?:ve|d))?";
/** References to telling: `did I mention`, `you have recommended`, `tell me`, `our last chat`. */
const TELLING = new RegExp(
  String.raw`\b(?:${PARTNERS}\s+(?:have\s+|had\s+)?(?:\w+ly\s+)?${TELLS}|${TELLS}\s+(?:me|us|you)|our\s+(?:previous\s+|earlier\s+|past\s+|last\s+)?(?:conversation|chat|discussion)s?)\b`,
  'gi',
);

/** Minimum of words to search for, beyond those that merely ask. */
const LEAST_LEFT = 2;
const ASKING = new Set(
  'what when where which who whom whose why how did does have has had can could would are was were the and for'.split(
    ' ',
  ),
);

/** The words of a question to search for, without those about the conversation and the answer, unless hardly any would be left. */
export function searchedText(question: string): string {
  const about = question.replaceAll(asksForOverview(question) ? ABOUT_THE_ANSWER : TELLING, ' ');
  const words = about.replaceAll(/\s+/g, ' ').trim();
  const left = (words.match(/\p{L}{3,}/gu) ?? []).filter((word) => !ASKING.has(word.toLowerCase()));
  return left.length >= LEAST_LEFT ? words : question;
}

const OVERVIEW =
  /\b(?:summar(?:y|i[sz]e)|overview|recap|in order|order in which|over time|throughout|across (?:all|our|my)|so far|progress(?:ed)?|evolved|developed|history of|timeline|how many (?:different|times))\b/i;

/** Whether it asks for many things said at different times. */
export function asksForOverview(question: string): boolean {
  return OVERVIEW.test(question);
}

const OF_THE_PAST =
  /\b(?:(?:did|have|has|had|was|were)\s+(?:i|we|you|the user|my|our)|(?:i|you|we)(?:['’](?:ve|d))?\s+(?:have\s+|had\s+)?(?:said|told|mentioned|discussed|brought|talked|decided|planned|outlined|described|agreed|asked|used|done|been|made)|our (?:conversation|chat|discussion)s?)\b/i;

/** Whether it asks for something said or done in the past, not for something new. */
export function asksForPast(question: string): boolean {
  return OF_THE_PAST.test(question) || asksForOverview(question);
}

const WHETHER = /^\W*(?:have|has|had|did|do|does|am|is|are|was|were|will|can|could)\b/i;

/** Whether it is a yes/no question. */
export function asksWhether(question: string): boolean {
  return WHETHER.test(question);
}

const OF_A_VALUE =
  /^\W*(?:(?:at|by|for|on|since|until) )?(?:how (?:many|much|long|far|often|old|big|large|high|fast|tall)|when|what)\b/i;

/** Whether it asks for a single value: how much, since when, what. */
export function asksForValue(question: string): boolean {
  return OF_A_VALUE.test(question);
}

const OF_A_BEGINNING = /\b(?:first|original(?:ly)?|initial(?:ly)?|before|previous(?:ly)?|formerly|earlier|used to)\b/i;

/** Whether it asks how things were before a change. */
export function asksForBefore(question: string): boolean {
  return OF_A_BEGINNING.test(question);
}
