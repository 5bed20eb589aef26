/** The origin of content, and whether somebody vouches for it. */

export const MESSAGE_ORIGINS = ['user', 'model', 'tool', 'drover'] as const;
/**
 * `drover`: text that Drover itself adds to a conversation; it starts no turn. As the origin of a call's result: Drover
 * answers in place of whoever was asked.
 */
export type MessageOrigin = (typeof MESSAGE_ORIGINS)[number];

/** `untrusted` content may have been written by somebody other than the client, the agent's owner or its model. */
export type Trust = 'trusted' | 'untrusted';

/** Default for files: the sender need not be the author, and must vouch explicitly. */
export const UPLOAD_TRUST: Trust = 'untrusted';

/** The origin of a message that does not state it: follows from its role, and whether it holds results. */
export function originOf(message: {
  role: 'user' | 'assistant';
  content: readonly { type: string }[];
  origin?: MessageOrigin | undefined;
}): MessageOrigin {
  if (message.origin) return message.origin;
  if (message.role === 'assistant') return 'model';
  return message.content.some(({ type }) => type === 'tool_result') ? 'tool' : 'user';
}
