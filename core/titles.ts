/** Titles of threads. Pure. */
import { z } from 'zod';

/** Longest title, in characters. */
const TITLE_CHARS = 255;

/** A title as it is kept: on one line, and not empty. */
export const threadTitle = z
  .string()
  .transform((text) => text.replaceAll(/\s+/g, ' ').trim())
  .pipe(z.string().min(1).max(TITLE_CHARS));

const PLAIN_CHARS = 60;

/** A title made of a message itself, the same for the same message: its first sentence, cut between words. */
export function plainTitle(message: string): string | undefined {
  const line = message.replaceAll(/\s+/g, ' ').trim();
  const sentence = /^.*?[.?!](?=\s|$)/.exec(line)?.[0] ?? line;
  if (sentence === '') return undefined;
  if (sentence.length <= PLAIN_CHARS) return sentence.replace(/\.$/, '');
  const cut = sentence.slice(0, PLAIN_CHARS);
  const space = cut.lastIndexOf(' ');
  // Half of a surrogate pair is no character.
  return `${(space > 0 ? cut.slice(0, space) : cut).toWellFormed().replaceAll('\uFFFD', '')}…`;
}
