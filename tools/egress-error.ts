import { TOO_LATE, type ToolOutcome } from '../core/tool.ts';

/**
 * - `refused`, `bad-request`: the guard refuses; a retry would not help.
 * - `unreached`: no name, no connection, no handshake.
 * - `too-late`: this process had no time left to send anything, or may not send any more.
 * - `timeout`, `aborted`, `lost` (broken connection): whether effects are possible depends on `sent`.
 * - `too-large`, `too-many-redirects`, `unknown-encoding`: an answer came, but an unusable one.
 */
export type EgressCode =
  | 'refused'
  | 'bad-request'
  | 'unreached'
  | 'too-late'
  | 'timeout'
  | 'aborted'
  | 'lost'
  | 'too-large'
  | 'too-many-redirects'
  | 'unknown-encoding';

/** Why a request through the egress guard failed. The message names hosts, never header values or addresses. */
export class EgressError extends Error {
  readonly code: EgressCode;
  /** False: certainly no server has received the request. */
  readonly sent: boolean;

  constructor(code: EgressCode, message: string, more: { sent: boolean; cause?: unknown }) {
    super(message, { cause: more.cause });
    this.name = 'EgressError';
    this.code = code;
    this.sent = more.sent;
  }
}

/** The outcome of a tool call whose request failed so. */
export function outcomeOfEgressError(error: EgressError): ToolOutcome {
  const { code, message } = error;
  switch (code) {
    case 'refused':
    case 'bad-request':
    case 'too-large':
    case 'too-many-redirects':
    case 'unknown-encoding':
      return { kind: 'error', origin: 'drover', code: `egress-${code}`, message, ...(!error.sent && { unsent: true }) };
    case 'too-late':
      // An answer to an earlier hop may have had its effect.
      return error.sent ? { kind: 'lost', code: 'timeout', message } : TOO_LATE;
    case 'aborted':
      return { kind: 'aborted', code, message, sent: error.sent };
    case 'unreached':
    case 'timeout':
    case 'lost':
      return { kind: error.sent ? 'lost' : 'unreached', code: code === 'unreached' ? 'connection' : code, message };
  }
}
