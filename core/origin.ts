/** Where content comes from, and whether somebody vouches for it. */

export const MESSAGE_ORIGINS = ['user', 'model', 'tool', 'drover'] as const;
/**
 * `drover`: what Drover itself says to a model in a conversation; nobody else has said it, and it begins no turn. Of what a
 * call is answered with: what it says in the place of whoever was asked.
 */
export type MessageOrigin = (typeof MESSAGE_ORIGINS)[number];

/** What is `untrusted` may have been written by somebody who is neither the client, nor the agent's owner, nor its model. */
export type Trust = 'trusted' | 'untrusted';

/** Of files: their sender need not have written them, and vouches for those alone of which it says so. */
export const UPLOAD_TRUST: Trust = 'untrusted';

/** Of a message that does not say: its role says it, and whether it holds results. */
export function originOf(message: {
  role: 'user' | 'assistant';
  content: readonly { type: string }[];
  origin?: MessageOrigin | undefined;
}): MessageOrigin {
  if (message.origin) return message.origin;
  if (message.role === 'assistant') return 'model';
  return message.content.some(({ type }) => type === 'tool_result') ? 'tool' : 'user';
}
