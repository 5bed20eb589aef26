/** How the outcome of an attempt changes its row in the ledger (docs/design/engine.md, "Ledger"). */
import { backoffMs, lengthenedMs } from './backoff.ts';
import { LIMITS } from './limits.ts';
import type { MessageOrigin } from './origin.ts';
import type { RemoteWork, ToolDefinition, ToolEffect, ToolOutcome } from './tool.ts';
import type { OutputPart } from './tool-output.ts';

export type Settlement =
  | {
      status: 'succeeded';
      output: unknown;
      content?: OutputPart[] | undefined;
      untrusted?: true | undefined;
      /** As in `ToolOutcome`. */
      replaced?: number | undefined;
    }
  /**
   * `output`: what the tool has answered all the same. `remote` goes on, and is to be cancelled. `origin`: the tool has said nothing; Drover says
   * so in its place. `perhapsIn`: as below, where no attempt was answered.
   */
  | {
      status: 'failed';
      code: string;
      message: string;
      perhapsIn?: number | undefined;
      output?: unknown;
      replaced?: number | undefined;
      remote?: RemoteWork | undefined;
      origin?: Extract<MessageOrigin, 'drover'> | undefined;
    }
  /** `saysWhy`: the model reads the message, too. */
  | {
      status: 'unknown';
      code: string;
      message: string;
      perhapsIn?: number | undefined;
      saysWhy?: true | undefined;
    }
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
      /** The first attempt that may have had its effect, if any. */
      perhapsIn?: number | undefined;
    };

/** Why the newest attempt of a call came to nothing, as the ledger keeps it; `perhaps_in` is nothing that clients are told. */
export interface AttemptError {
  code: string;
  message: string;
  /** The first attempt that may have had its effect; 0: one in the run that this one has been started from. */
  perhaps_in?: number;
}

/** The same of an attempt that is over. */
export function attemptError({
  code,
  message,
  perhapsIn,
}: {
  code: string;
  message: string;
  perhapsIn?: number | undefined;
}): AttemptError {
  return { code, message, ...(perhapsIn !== undefined && { perhaps_in: perhapsIn }) };
}

/** What is to be known of a call's attempts to say whether one of them may have had its effect. */
export interface MadeCall {
  effect: ToolEffect;
  /** Attempts made so far. */
  attempt: number;
  error?: AttemptError | null | undefined;
}

/**
 * Codes of calls that have failed although they were made, and had their effect for all that is known: their answer could not be read,
 * mapped or kept, or what they had begun elsewhere was left to itself.
 */
export const MADE_THOUGH_FAILED: readonly string[] = [
  'response-mapping',
  'output-invalid',
  'not-text',
  'output-too-large',
  'egress-too-large',
  'bad-output',
  'bad-answer',
  'egress-too-large',
  'egress-too-many-redirects',
  'remote-gone',
  'deadline',
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
  /** The first attempt before it that may have had its effect. */
  perhapsIn?: number | undefined;
  retry: ToolDefinition['execution']['retry_config'];
  /** Longest pause in ms that a tool may ask for; that of a call in the queue where it is absent. */
  longestPauseMs?: number | undefined;
  /** At least 0 and below 1: what of a tenth is added to the pause. None where it is absent. */
  chance?: number | undefined;
}

/**
 * Settles an attempt. What surely had no effect is retried after 1, 2, 4 s (or as the tool is configured) and up to a
 * tenth of that; what may have had its effect is retried only where the tool is read-only or idempotent, else it is `unknown`
 * and never sent again. What was not begun is retried also where the tool allows no retries. One whose attempts are used up has
 * failed, and says so where one of them may have had its effect; it is `unknown` where the tool is neither.
 */
export function settleAttempt(outcome: ToolOutcome, rules: AttemptRules): Settlement {
  if (outcome.kind === 'succeeded') {
    const { output, content, untrusted } = outcome;
    const more = { ...(content && { content }), ...(untrusted && { untrusted }), ...replacedOf(outcome) };
    return { status: 'succeeded', output, ...more };
  }
  const { code, message } = outcome;
  if (outcome.kind === 'error') return settleError(outcome, rules);
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
  const perhapsIn = rules.perhapsIn ?? (mayHaveHappened(outcome) ? attempt : undefined);
  const perhaps = perhapsIn !== undefined && { perhapsIn };
  if (mayHaveHappened(outcome) && rules.effect === 'unknown' && !rules.acceptsDuplicates)
    return { status: 'unknown', code, message, ...perhaps };
  const isUnsent = outcome.kind === 'unreached' && outcome.unsent === true;
  const mostRetries = Math.max(rules.retry.max_retries, isUnsent ? LIMITS.unsentRetries : 0);
  if (attempt > mostRetries) return usedUp({ code, message, quotes, perhapsIn }, rules);
  const pauseMs = backoffMs({ firstMs: rules.retry.backoff_ms, attempt });
  const askedForMs = outcome.kind === 'unreached' ? (outcome.retryAfterMs ?? 0) : 0;
  if (askedForMs > Math.max(rules.longestPauseMs ?? LIMITS.toolPauseMs, pauseMs)) {
    const seconds = Math.ceil(askedForMs / 1000);
    const why = `${message}; it asks for a pause of ${seconds} s, longer than any call waits.`;
    return usedUp({ code, message: why, quotes, perhapsIn }, rules);
  }
  const waitMs = lengthenedMs(Math.max(pauseMs, askedForMs), chance);
  return { status: 'retry', waitMs, code, message, ...quotes, ...perhaps };
}

/** What the tool has answered is the end; what it has not had says nothing of the attempts before. */
function settleError(
  outcome: Extract<ToolOutcome, { kind: 'error' }>,
  { effect, perhapsIn }: AttemptRules,
): Extract<Settlement, { status: 'failed' | 'unknown' }> {
  const { code, message, output, origin } = outcome;
  if (outcome.unsent && perhapsIn !== undefined && effect !== 'read_only')
    return { status: 'unknown', code, message, perhapsIn, saysWhy: true };
  if (output !== undefined && output !== null)
    return { status: 'failed', code, message, output, ...remoteOf(outcome), ...replacedOf(outcome) };
  return { status: 'failed', code, message, ...remoteOf(outcome), ...(origin && { origin }) };
}

/** A call that no attempt has answered, and that is not made again. */
function usedUp(
  last: { code: string; message: string; quotes: unknown; perhapsIn: number | undefined },
  { effect, acceptsDuplicates }: AttemptRules,
): Extract<Settlement, { status: 'failed' | 'unknown' }> {
  const { code, message, quotes, perhapsIn } = last;
  const said = { status: 'failed', code, ...saidBy(quotes) } as const;
  if (perhapsIn === undefined || effect === 'read_only') return { ...said, message };
  if (effect === 'unknown' && !acceptsDuplicates) return { status: 'unknown', code, message, perhapsIn, saysWhy: true };
  return { ...said, message: `${message.replace(/[^.!?]$/, '$&.')} ${MAY_HAVE_HAPPENED}`, perhapsIn };
}

function replacedOf({ replaced }: { replaced?: number | undefined }): { replaced?: number } {
  return replaced === undefined ? {} : { replaced };
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
export const INTERRUPTED = {
  kind: 'lost',
  code: 'interrupted',
  message: 'The worker was lost during the call.',
} as const satisfies ToolOutcome;

/** What the ledger keeps of such an attempt, where another one follows. */
export function interruptedAttempt({ attempt, error }: MadeCall): AttemptError {
  return attemptError({ ...INTERRUPTED, perhapsIn: error?.perhaps_in ?? attempt });
}

/** How a call ends whose work goes on elsewhere, and that nobody waits for any more. */
export function abandoned(
  remote: RemoteWork,
  message = 'The run ended during the call.',
): Extract<Settlement, { status: 'failed' }> {
  return { status: 'failed', code: 'abandoned', message, remote, origin: 'drover' };
}

/**
 * Settles an attempt of a run or turn that has ended: there is no next one, by which that of an idempotent tool would come to an
 * end that is known. One that surely had no effect says nothing of those before it.
 */
export function settleForGood(outcome: ToolOutcome, call: MadeCall): Exclude<Settlement, { status: 'retry' }> {
  const leaves = call.effect === 'read_only' ? call.effect : 'unknown';
  const { attempt, error } = call;
  const before = error?.perhaps_in !== undefined && error.perhaps_in < attempt ? error.perhaps_in : undefined;
  const rules = { effect: leaves, attempt, retry: { max_retries: 0, backoff_ms: 0 }, perhapsIn: before } as const;
  if (before !== undefined && leaves === 'unknown' && (outcome.kind === 'unreached' || outcome.kind === 'aborted'))
    return { status: 'unknown', code: outcome.code, message: outcome.message, perhapsIn: before };
  const settlement = settleAttempt(outcome, rules);
  if (settlement.status !== 'retry') return settlement;
  const { code, message } = settlement;
  const { quotes = settlement.question !== undefined } = settlement;
  return { status: 'failed', code, message, ...saidBy(quotes), ...remoteOf(settlement) };
}

/** How a call ends that is given up before its next attempt; undefined if it surely had no effect. */
export function settleUnmade(
  call: MadeCall,
  why: { code: string; message: string },
): Extract<Settlement, { status: 'unknown' }> | undefined {
  return isInDoubt(call) ? { status: 'unknown', ...why, perhapsIn: call.error?.perhaps_in, saysWhy: true } : undefined;
}

/** Whether an attempt of the call may have had its effect. */
export function isInDoubt({ effect, error }: Pick<MadeCall, 'effect' | 'error'>): boolean {
  return effect !== 'read_only' && error?.perhaps_in !== undefined;
}

function remoteOf({ remote }: { remote?: RemoteWork | undefined }): { remote?: RemoteWork } {
  return remote ? { remote } : {};
}

/** What the model reads about a call that has failed for want of an answer, and may have had its effect. */
export const MAY_HAVE_HAPPENED =
  'It may or may not have taken effect: check with another tool, or tell the user, before you repeat it.';

/** What the model reads about a call of unknown outcome. */
export const UNKNOWN_OUTCOME =
  'The outcome of this call is unknown: it may or may not have taken effect. It was not sent again. ' +
  'Check with another tool, or tell the user, before you repeat it.';
