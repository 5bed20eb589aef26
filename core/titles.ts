/** Titles of threads. Pure. */
import { z } from 'zod';

/** Maximum length of a title, in characters. */
const TITLE_CHARS = 255;

/** A stored title: one line, not empty. */
export const threadTitle = z
  .string()
  .transform((text) => text.replaceAll(/\s+/g, ' ').trim())
  .pipe(z.string().min(1).max(TITLE_CHARS));

const PLAIN_CHARS = 60;

/** A title derived deterministically from a message: its first sentence, cut between words. */
export function plainTitle(message: string): string | undefined {
  const line = message.replaceAll(/\s+/g, ' ').trim();
  const sentence = /^.*?[.?!](?=\s|$)/.exec(line)?.[0] ?? line;
  if (sentence === '') return undefined;
  if (sentence.length <= PLAIN_CHARS) return sentence.replace(/\.$/, '');
  const cut = sentence.slice(0, PLAIN_CHARS);
  const space = cut.lastIndexOf(' ');
  // Half of a surrogate pair is not a character.
  return `${(space > 0 ? cut.slice(0, space) : cut).toWellFormed().replaceAll('\uFFFD', '')}…`;
}
