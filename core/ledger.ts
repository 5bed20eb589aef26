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
   * `output`: the tool's answer despite the failure. `remote`: work that goes on and must be cancelled. `origin`: the message
   * is Drover's, not the tool's. `perhapsIn`: see below, for calls without an answer. `untrusted`: nobody vouches for the
   * message, even if the tool is trusted.
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
      untrusted?: true | undefined;
    }
  /** `saysWhy`: the model reads the message, too. */
  | {
      status: 'unknown';
      code: string;
      message: string;
      perhapsIn?: number | undefined;
      saysWhy?: true | undefined;
    }
  /** `remote`: work that goes on; the next attempt looks at it, after its `question`, if any, is answered. */
  | {
      status: 'retry';
      waitMs: number;
      code: string;
      message: string;
      remote?: RemoteWork | undefined;
      question?: string | undefined;
      /** As in `ToolOutcome`. */
      quotes?: boolean | undefined;
      /** The first attempt that may have had an effect, if any. */
      perhapsIn?: number | undefined;
    };

/** Why the last attempt of a call failed, as stored in the ledger; `perhaps_in` is not shown to clients. */
export interface AttemptError {
  code: string;
  message: string;
  /** The first attempt that may have had an effect; 0: one in the run that this one was started from. */
  perhaps_in?: number;
}

/** Converts the outcome of an attempt. */
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

/** The data that tells whether an attempt of a call may have had an effect. */
export interface MadeCall {
  effect: ToolEffect;
  /** Attempts made so far. */
  attempt: number;
  error?: AttemptError | null | undefined;
}

/**
 * Codes of failed calls that were made, and may well have had their effect: their answer could not be read, mapped or stored,
 * or their work elsewhere was abandoned.
 */
export const MADE_THOUGH_FAILED: readonly string[] = [
  'response-mapping',
  'output-invalid',
  'not-text',
  'output-too-large',
  'egress-too-large',
  'egress-unknown-encoding',
  'bad-output',
  'bad-answer',
  'egress-too-many-redirects',
  'remote-gone',
  'deadline',
  'run_output_limit',
  'abandoned',
];

export interface AttemptRules {
  effect: ToolEffect;
  /** The agent accepts that a call of unknown outcome is repeated. */
  acceptsDuplicates?: boolean | undefined;
  /** Attempts made so far, this one included. */
  attempt: number;
  /** The attempt only looked at work elsewhere. */
  looked?: boolean | undefined;
  /** The first earlier attempt that may have had an effect. */
  perhapsIn?: number | undefined;
  retry: ToolDefinition['execution']['retry_config'];
  /** Longest pause in ms that a tool may request; default: that of queued calls. */
  longestPauseMs?: number | undefined;
  /** At least 0 and below 1: random part of the tenth added to pauses. Default 0. */
  chance?: number | undefined;
}

/**
 * Settles an attempt.
 * - It surely had no effect: retried after 1, 2, 4 s (or as configured) plus up to a tenth; if it was not even begun, also
 *   where the tool allows no retries.
 * - It may have had an effect: retried only if the tool is read-only or idempotent, or the agent accepts duplicates; otherwise
 *   `unknown`, and sent again only if a person says so.
 * - The tool itself answers with an error: final. What it says of this attempt need not hold for an earlier one that may have had
 *   an effect, unless the tool is idempotent: the message says so.
 * - No attempts are left: failed; the message says so if one may have had an effect, or `unknown` then if the tool is neither
 *   read-only nor idempotent.
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
  // The work elsewhere did begin, and this attempt began nothing.
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

/** An answer of the tool is final. If this attempt was not sent, earlier ones may still have had an effect. */
function settleError(
  outcome: Extract<ToolOutcome, { kind: 'error' }>,
  { effect, perhapsIn }: AttemptRules,
): Extract<Settlement, { status: 'failed' | 'unknown' }> {
  const { code, message } = outcome;
  if (outcome.unsent && perhapsIn !== undefined && effect !== 'read_only')
    return { status: 'unknown', code, message, perhapsIn, saysWhy: true };
  if (effect === 'unknown' && perhapsIn !== undefined)
    return { ...failedAs(outcome), message: `${message} ${BEFORE_IT}`, perhapsIn };
  return failedAs(outcome);
}

function failedAs({
  code,
  message,
  output,
  origin,
  ...more
}: Extract<ToolOutcome, { kind: 'error' }>): Extract<Settlement, { status: 'failed' }> {
  if (output !== undefined && output !== null)
    return { status: 'failed', code, message, output, ...remoteOf(more), ...replacedOf(more) };
  return { status: 'failed', code, message, ...remoteOf(more), ...(origin && { origin }) };
}

/** Settles a call that no attempt has answered, and that is not made again. */
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

/** The origin of the message of an attempt without an answer: Drover, unless it quotes others. */
function saidBy(quotes: unknown): { origin?: 'drover' } {
  return quotes ? {} : { origin: 'drover' };
}

/** Whether an attempt without an answer may have had an effect. */
export function mayHaveHappened(outcome: ToolOutcome): boolean {
  return (
    outcome.kind === 'lost' || outcome.kind === 'elsewhere' || (outcome.kind === 'aborted' && outcome.sent !== false)
  );
}

/** Outcome of an attempt whose worker was lost: nobody knows whether it had an effect. */
export const INTERRUPTED = {
  kind: 'lost',
  code: 'interrupted',
  message: 'The worker was lost during the call.',
} as const satisfies ToolOutcome;

/** The ledger's error for such an attempt, if another one follows. */
export function interruptedAttempt({ attempt, error }: MadeCall): AttemptError {
  return attemptError({ ...INTERRUPTED, perhapsIn: error?.perhaps_in ?? attempt });
}

/** The end of a call whose work goes on elsewhere after nobody waits for it any more. */
export function abandoned(
  remote: RemoteWork,
  message = 'The run ended during the call.',
): Extract<Settlement, { status: 'failed' }> {
  return { status: 'failed', code: 'abandoned', message, remote, origin: 'drover' };
}

/**
 * Settles an attempt of a run or turn that has ended. Even for idempotent tools no further attempt will clarify the outcome.
 * If this attempt surely had no effect, earlier ones may still have had one.
 */
export function settleForGood(outcome: ToolOutcome, call: MadeCall): Exclude<Settlement, { status: 'retry' }> {
  const leaves = call.effect === 'read_only' ? call.effect : 'unknown';
  const { attempt, error } = call;
  const before = error?.perhaps_in !== undefined && error.perhaps_in < attempt ? error.perhaps_in : undefined;
  const rules = { effect: leaves, attempt, retry: { max_retries: 0, backoff_ms: 0 }, perhapsIn: before } as const;
  if (before !== undefined && leaves === 'unknown' && (outcome.kind === 'unreached' || outcome.kind === 'aborted'))
    return { status: 'unknown', code: outcome.code, message: outcome.message, perhapsIn: before };
  // What an idempotent tool answers is true of all attempts.
  const settlement = settleAttempt(outcome, outcome.kind === 'error' ? { ...rules, effect: call.effect } : rules);
  if (settlement.status !== 'retry') return settlement;
  const { code, message } = settlement;
  const { quotes = settlement.question !== undefined } = settlement;
  return { status: 'failed', code, message, ...saidBy(quotes), ...remoteOf(settlement) };
}

/** Settles a call that is given up before its next attempt; undefined if it surely had no effect. */
export function settleUnmade(
  call: MadeCall,
  why: { code: string; message: string },
): Extract<Settlement, { status: 'unknown' }> | undefined {
  return isInDoubt(call) ? { status: 'unknown', ...why, perhapsIn: call.error?.perhaps_in, saysWhy: true } : undefined;
}

/** Whether any attempt of the call may have had an effect. */
export function isInDoubt({ effect, error }: Pick<MadeCall, 'effect' | 'error'>): boolean {
  return effect !== 'read_only' && error?.perhaps_in !== undefined;
}

function remoteOf({ remote }: { remote?: RemoteWork | undefined }): { remote?: RemoteWork } {
  return remote ? { remote } : {};
}

/** Told to the model about a failed call without an answer that may have had an effect. */
export const MAY_HAVE_HAPPENED =
  'It may or may not have taken effect: check with another tool, or tell the user, before you repeat it.';

/** Told to the model about a call whose tool has answered with an error after an attempt that may have had its effect. */
const BEFORE_IT = `An earlier attempt of this call had no answer. ${MAY_HAVE_HAPPENED}`;

/** Told to the model about a call of unknown outcome. */
export const UNKNOWN_OUTCOME =
  'The outcome of this call is unknown: it may or may not have taken effect. It was not sent again. ' +
  'Check with another tool, or tell the user, before you repeat it.';
