import type { ToolOutcome } from '../core/tool.ts';

/**
 * - `refused`, `bad-request`: the guard says no; trying again is no use.
 * - `unreached`: no name, no connection, no handshake.
 * - `timeout`, `aborted`, `lost` (broken connection): `sent` says what that means for effects.
 * - `too-large`, `too-many-redirects`: an answer came, but not one that can be used.
 */
export type EgressCode =
  | 'refused'
  | 'bad-request'
  | 'unreached'
  | 'timeout'
  | 'aborted'
  | 'lost'
  | 'too-large'
  | 'too-many-redirects';

/** Why a request through the egress guard has no answer. The message names hosts, never header values or addresses. */
export class EgressError extends Error {
  readonly code: EgressCode;
  /** False: surely no server has had the request. */
  readonly sent: boolean;

  constructor(code: EgressCode, message: string, more: { sent: boolean; cause?: unknown }) {
    super(message, { cause: more.cause });
    this.name = 'EgressError';
    this.code = code;
    this.sent = more.sent;
  }
}

/** What such a failure means for the tool call that made the request. */
export function outcomeOfEgressError(error: EgressError): ToolOutcome {
  const { code, message } = error;
  switch (code) {
    case 'refused':
    case 'bad-request':
    case 'too-large':
    case 'too-many-redirects':
      return { kind: 'error', origin: 'drover', code: `egress-${code}`, message, ...(!error.sent && { unsent: true }) };
    case 'aborted':
      return { kind: 'aborted', code, message, sent: error.sent };
    case 'unreached':
    case 'timeout':
    case 'lost':
      return { kind: error.sent ? 'lost' : 'unreached', code: code === 'unreached' ? 'connection' : code, message };
  }
}
