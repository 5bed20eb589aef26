/** How the outcome of an attempt changes its row in the ledger (docs/design/engine.md, "Ledger"). */
import { backoffMs, lengthenedMs } from './backoff.ts';
import { LIMITS } from './limits.ts';
import type { MessageOrigin } from './origin.ts';
import type { RemoteWork, ToolDefinition, ToolEffect, ToolOutcome } from './tool.ts';
import type { OutputPart } from './tool-output.ts';

export type Settlement =
  | { status: 'succeeded'; output: unknown; content?: OutputPart[] | undefined; untrusted?: true | undefined }
  /** `output`: what the tool has answered all the same. `remote` goes on, and is to be cancelled. `origin`: the tool has said nothing; Drover says so in its place. */
  | {
      status: 'failed';
      code: string;
      message: string;
      output?: unknown;
      remote?: RemoteWork | undefined;
      origin?: Extract<MessageOrigin, 'drover'> | undefined;
    }
  | { status: 'unknown'; code: string; message: string }
  /** `remote` goes on, and the next attempt looks at it; with a `question`, once that is answered. */
  | {
      status: 'retry';
      waitMs: number;
      code: string;
      message: string;
      remote?: RemoteWork | undefined;
      question?: string | undefined;
      /** As in `ToolOutcome`. */
      quotes?: boolean | undefined;
    };

/**
 * Codes of calls that have failed although they were made, and had their effect for all that is known: their answer could not be read,
 * mapped or kept, or what they had begun elsewhere was left to itself.
 */
export const MADE_THOUGH_FAILED: readonly string[] = [
  'response-mapping',
  'output-invalid',
  'not-text',
  'output-too-large',
  'bad-output',
  'run_output_limit',
  'abandoned',
];

export interface AttemptRules {
  effect: ToolEffect;
  /** The agent accepts that a call of unknown outcome is made again. */
  acceptsDuplicates?: boolean | undefined;
  /** Attempts made so far, this one included. */
  attempt: number;
  /** The attempt only looked at work that goes on elsewhere. */
  looked?: boolean | undefined;
  retry: ToolDefinition['execution']['retry_config'];
  /** Longest pause in ms that a tool may ask for; that of a call in the queue where it is absent. */
  longestPauseMs?: number | undefined;
  /** At least 0 and below 1: what of a tenth is added to the pause. None where it is absent. */
  chance?: number | undefined;
}

/**
 * Settles an attempt. What surely had no effect is retried after 1, 2, 4 s (or as the tool is configured) and up to a
 * tenth of that; what may have had its effect is retried only where the tool is read-only or idempotent, else it is `unknown`
 * and never sent again. What was not begun is retried also where the tool allows no retries.
 */
export function settleAttempt(outcome: ToolOutcome, rules: AttemptRules): Settlement {
  if (outcome.kind === 'succeeded') {
    const { output, content, untrusted } = outcome;
    return { status: 'succeeded', output, ...(content && { content }), ...(untrusted && { untrusted }) };
  }
  const { code, message } = outcome;
  if (outcome.kind === 'error') {
    if (outcome.output !== undefined && outcome.output !== null)
      return { status: 'failed', code, message, output: outcome.output, ...remoteOf(outcome) };
    const said = outcome.origin && { origin: outcome.origin };
    return { status: 'failed', code, message, ...remoteOf(outcome), ...said };
  }
  if (outcome.kind === 'elsewhere') {
    const { waitMs, question } = outcome;
    return {
      status: 'retry',
      waitMs,
      code,
      message,
      ...remoteOf(outcome),
      ...(question !== undefined && { question }),
    };
  }
  const { chance = 0, attempt } = rules;
  const quotes = 'quotes' in outcome && outcome.quotes && { quotes: true };
  // It has begun for sure, and nothing was begun anew.
  if (rules.looked) {
    return {
      status: 'retry',
      waitMs: lengthenedMs(Math.max(rules.retry.backoff_ms, LIMITS.toolBackoffMs), chance),
      code,
      message,
      ...quotes,
    };
  }
  if (mayHaveHappened(outcome) && rules.effect === 'unknown' && !rules.acceptsDuplicates)
    return { status: 'unknown', code, message };
  const isUnsent = outcome.kind === 'unreached' && outcome.unsent === true;
  const mostRetries = Math.max(rules.retry.max_retries, isUnsent ? LIMITS.unsentRetries : 0);
  if (attempt > mostRetries) return { status: 'failed', code, message, ...saidBy(quotes) };
  const pauseMs = backoffMs({ firstMs: rules.retry.backoff_ms, attempt });
  const askedForMs = outcome.kind === 'unreached' ? (outcome.retryAfterMs ?? 0) : 0;
  if (askedForMs > Math.max(rules.longestPauseMs ?? LIMITS.toolPauseMs, pauseMs)) {
    const seconds = Math.ceil(askedForMs / 1000);
    return {
      status: 'failed',
      code,
      message: `${message}; it asks for a pause of ${seconds} s, longer than any call waits.`,
      ...saidBy(quotes),
    };
  }
  return { status: 'retry', waitMs: lengthenedMs(Math.max(pauseMs, askedForMs), chance), code, message, ...quotes };
}

/** Who says how an attempt without an answer has ended: Drover, but for what it quotes. */
function saidBy(quotes: unknown): { origin?: 'drover' } {
  return quotes ? {} : { origin: 'drover' };
}

/** Whether an attempt without an answer may have had its effect. */
export function mayHaveHappened(outcome: ToolOutcome): boolean {
  return (
    outcome.kind === 'lost' || outcome.kind === 'elsewhere' || (outcome.kind === 'aborted' && outcome.sent !== false)
  );
}

/** How an attempt ended whose worker is gone: nobody knows whether it had its effect. */
export const INTERRUPTED: ToolOutcome = {
  kind: 'lost',
  code: 'interrupted',
  message: 'The worker was lost during the call.',
};

/** How a call ends whose work goes on elsewhere, and that nobody waits for any more. */
export function abandoned(
  remote: RemoteWork,
  message = 'The run ended during the call.',
): Extract<Settlement, { status: 'failed' }> {
  return { status: 'failed', code: 'abandoned', message, remote, origin: 'drover' };
}

/**
 * Settles an attempt of a run or turn that has ended: there is no next one, by which that of an idempotent tool would come to an
 * end that is known.
 */
export function settleForGood(outcome: ToolOutcome, effect: ToolEffect): Exclude<Settlement, { status: 'retry' }> {
  const leaves = effect === 'read_only' ? effect : 'unknown';
  const rules = { effect: leaves, attempt: 1, retry: { max_retries: 0, backoff_ms: 0 } } as const;
  const settlement = settleAttempt(outcome, rules);
  if (settlement.status !== 'retry') return settlement;
  const { code, message } = settlement;
  const { quotes = settlement.question !== undefined } = settlement;
  return { status: 'failed', code, message, ...saidBy(quotes), ...remoteOf(settlement) };
}

function remoteOf({ remote }: { remote?: RemoteWork | undefined }): { remote?: RemoteWork } {
  return remote ? { remote } : {};
}

/** What the model reads about a call of unknown outcome. */
export const UNKNOWN_OUTCOME =
  'The outcome of this call is unknown: it may or may not have taken effect. It was not sent again. ' +
  'Check with another tool, or tell the user, before you repeat it.';
