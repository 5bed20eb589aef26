/** What a question asks for, beside what it is about. Pure. */

/** Words about the conversation and the answer, not about what is remembered. */
const ABOUT_THE_ANSWER =
  /\b(?:can|could|would|please|you|help|me|tell|give|provide|list|show|mention|only|items?|summar(?:y|i[sz]e)|comprehensive|detailed|complete|overview|describe|explain|recap|order|chronological(?:ly)?|sequence|different|various|aspects?|topics?|throughout|across|during|over(?= time)|our|conversations?|chats?|discussions?|discussed|brought|mentioned|one|two|three|four|five|six|seven|eight|nine|ten|based)\b/gi;

/** The words of a question that are looked for: those about the answer are left out, unless nothing else would be left. */
export function searchedText(question: string): string {
  if (!asksForOverview(question)) return question;
  const about = question.replaceAll(ABOUT_THE_ANSWER, ' ').replaceAll(/\s+/g, ' ').trim();
  return (about.match(/\p{L}{3,}/gu) ?? []).length >= 2 ? about : question;
}

const OVERVIEW =
  /\b(?:summar(?:y|i[sz]e)|overview|recap|in order|order in which|over time|throughout|across (?:all|our|my)|so far|progress(?:ed)?|evolved|developed|history of|timeline|how many (?:different|times))\b/i;

/** Whether it asks for many things that were said at different times, rather than for one. */
export function asksForOverview(question: string): boolean {
  return OVERVIEW.test(question);
}
