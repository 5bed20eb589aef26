import { LIMITS } from '../../core/limits.ts';

export interface MessageLimits {
  maxBytes: number;
  maxValues: number;
}

/** Limits of a server's message. An answer may hold its output twice, as data and as text for clients that read no data. */
export const MESSAGE_LIMITS: MessageLimits = {
  maxBytes: 2 * LIMITS.toolOutputBytes + 65_536,
  maxValues: LIMITS.jsonValues + 10_000,
};
