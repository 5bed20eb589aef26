import { z } from 'zod';
import { messageOf } from '../../core/errors.ts';
import { parseOrText } from '../response-body.ts';
import type { McpConnection } from './pool.ts';
import { statusOf } from './refusal-words.ts';

/**
 * Whether a server refused a request since it does not know the connection's session any more: 404 by the specification;
 * many servers, such as the reference implementation, answer 400 and say why. A tool may answer 400 in words of its own.
 */
export function isSessionGone(error: unknown, { hasSession }: McpConnection): boolean {
  const status = statusOf(error);
  return hasSession && (status === 404 || (status === 400 && namesSession(messageOf(error))));
}

const refusal = z.object({ error: z.object({ code: z.unknown().optional(), message: z.string() }) });
const SESSION_NOT_FOUND = -32_001;
/** How servers of the SDKs say it. */
const UNKNOWN_SESSION =
  /^(?:bad request: )?(?:session not found|could not find session|(?:no valid|invalid|invalid or expired) session id|no transport found for session)/i;

function namesSession(message: string): boolean {
  const [, said = ''] = /Error POSTing to endpoint(?: \(HTTP 400\))?: (.*)$/s.exec(message) ?? [];
  const { data } = refusal.safeParse(parseOrText(said));
  if (!data) return UNKNOWN_SESSION.test(said);
  const { code, message: words } = data.error;
  // Timeouts of the SDK have the same code.
  return UNKNOWN_SESSION.test(words) || (code === SESSION_NOT_FOUND && /session/i.test(words));
}
