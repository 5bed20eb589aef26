import { SseError } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPError } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { messageOf } from '../../core/errors.ts';

/** The HTTP status with which a server refused a request; 0 if there is none. The old transport has it only in the text. */
export function statusOf(error: unknown): number {
  if (error instanceof StreamableHTTPError || error instanceof SseError) return error.code ?? 0;
  const [, status] = /^Error POSTing to endpoint \(HTTP (\d{3})\)/.exec(messageOf(error)) ?? [];
  return Number(status ?? 0);
}

const LOGIN_STATUSES = [401, 403];
const WANTS_LOGIN = ' and wants a credential that it takes in the `headers` of its transport';

/** What a server did that refused a request, without the server itself: its HTTP status, what it said, and what that asks for. */
export function wordsOfRefusal(error: unknown): string {
  const status = statusOf(error);
  const [, said = ''] = /Error POSTing to endpoint(?: \(HTTP \d{3}\))?: (.*)$/s.exec(messageOf(error)) ?? [];
  const wants = LOGIN_STATUSES.includes(status) ? WANTS_LOGIN : '';
  return `answered with HTTP ${status}${wants}${said.trim() === '' ? '' : `: ${said}`}`;
}

/** An error of connecting in words. */
export function wordsOfFailure(error: unknown): string {
  return statusOf(error) > 0 ? `it ${wordsOfRefusal(error)}` : messageOf(error);
}
