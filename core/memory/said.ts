/** Separates speaker and text where a client has written both as one: `Ada: I live in Oslo.`, `User: …`. Pure. */
import { readMetadata } from './entry.ts';

interface Said {
  /** A name. */
  speaker: string | undefined;
  /** `user` or `assistant`. */
  role: string | undefined;
  /** The text without the speaker's name. */
  text: string;
}

/** A name of up to three words and a colon, optionally after a time in brackets. */
const NAMED =
  /^\s*(?:\[[^\]\n]{1,40}\]\s*)?\*{0,2}(\p{L}[\p{L}\p{N}.'’-]*(?: \p{L}[\p{L}\p{N}.'’-]*){0,2})\*{0,2}:\*{0,2}\s+(?=\S)/u;

const ROLES: Readonly<Record<string, string>> = {
  user: 'user', human: 'user', customer: 'user', me: 'user',
  assistant: 'assistant', ai: 'assistant', agent: 'assistant', bot: 'assistant', model: 'assistant',
}; // prettier-ignore

/** Metadata takes precedence over the text. */
export function readSaid(content: string, metadata: Readonly<Record<string, unknown>>): Said {
  const { speaker, role } = readMetadata(metadata);
  const named = NAMED.exec(content);
  const name = named?.[1];
  const text = named ? content.slice(named[0].length) : content;
  const ofName = name === undefined ? undefined : ROLES[name.toLowerCase()];
  const ofRole = role === undefined ? undefined : (ROLES[role.toLowerCase()] ?? role);
  return { speaker: speaker ?? (ofName === undefined ? name : undefined), role: ofRole ?? ofName, text };
}
