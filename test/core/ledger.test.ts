import assert from 'node:assert/strict';
import fc from 'fast-check';
import {
  INTERRUPTED,
  MAY_HAVE_HAPPENED,
  attemptError,
  settleAttempt,
  settleForGood,
  settleUnmade,
  type AttemptError,
  type Settlement,
} from '../../core/ledger.ts';
import { LIMITS } from '../../core/limits.ts';
import { TOO_LATE, type ToolEffect, type ToolOutcome } from '../../core/tool.ts';

const effects = fc.constantFrom<ToolEffect>('read_only', 'idempotent', 'unknown');
const failure = { code: 'c', message: 'm' };
const outcomes = fc.oneof(
  fc.jsonValue().map((output): ToolOutcome => ({ kind: 'succeeded', output })),
  fc.constantFrom<ToolOutcome>(
    { kind: 'error', ...failure },
    { kind: 'unreached', ...failure },
    { kind: 'lost', ...failure },
    { kind: 'aborted', ...failure },
    INTERRUPTED,
  ),
  fc.nat(2 * LIMITS.toolPauseMs).map((retryAfterMs): ToolOutcome => ({ kind: 'unreached', ...failure, retryAfterMs })),
);
const retries = fc.record({ max_retries: fc.nat(10), backoff_ms: fc.nat(10_000) });
const DEFAULT_RETRY = { max_retries: LIMITS.toolRetries, backoff_ms: LIMITS.toolBackoffMs };
const mayHaveHappened = ({ kind }: ToolOutcome) => kind === 'lost' || kind === 'aborted';

describe('Settling an attempt', () => {
  it('never sends a call of unknown effect again that may have happened', () => {
    fc.assert(
      fc.property(
        outcomes.filter(mayHaveHappened),
        fc.integer({ min: 1, max: 20 }),
        retries,
        (outcome, attempt, retry) => {
          assert.equal(settleAttempt(outcome, { effect: 'unknown', attempt, retry }).status, 'unknown');
        },
      ),
    );
  });

  it('is unknown only where the call may have happened and may not be repeated', () => {
    fc.assert(
      fc.property(outcomes, effects, retries, (outcome, effect, retry) => {
        const { status } = settleAttempt(outcome, { effect, attempt: 1, retry });
        assert.equal(status === 'unknown', mayHaveHappened(outcome) && effect === 'unknown');
      }),
    );
  });

  it('looks again at what goes on elsewhere, however often nobody answers, until there is an answer', () => {
    fc.assert(
      fc.property(outcomes, retries, fc.integer({ min: 1, max: 1000 }), (outcome, retry, attempt) => {
        const settlement = settleAttempt(outcome, { effect: 'unknown', attempt, retry, looked: true });
        const isAnswer = outcome.kind === 'succeeded' || outcome.kind === 'error';
        assert.equal(settlement.status === 'retry', !isAnswer);
        if (settlement.status === 'retry') assert.ok(settlement.waitMs >= LIMITS.toolBackoffMs);
      }),
    );
  });

  it('fails a call whose tool asks for a longer pause than a call waits for, and says so', () => {
    const asks = (retryAfterMs: number, longestPauseMs?: number) =>
      settleAttempt(
        { kind: 'unreached', ...failure, retryAfterMs },
        { effect: 'unknown', attempt: 1, retry: DEFAULT_RETRY, longestPauseMs },
      );
    assert.deepEqual(asks(LIMITS.toolPauseMs), { status: 'retry', waitMs: LIMITS.toolPauseMs, ...failure });
    const message = 'm; it asks for a pause of 2592000 s, longer than any call waits.';
    assert.deepEqual(asks(2_592_000_000), { status: 'failed', code: 'c', message, origin: 'drover' });
    assert.equal(asks(LIMITS.inlinePauseMs, LIMITS.inlinePauseMs).status, 'retry');
    assert.equal(asks(LIMITS.inlinePauseMs + 1, LIMITS.inlinePauseMs).status, 'failed');
  });

  it('makes one attempt and as many further ones as the tool allows, whatever goes wrong, and says at the end what is in doubt', () => {
    fc.assert(
      fc.property(fc.array(outcomes, { minLength: 1 }), effects, retries, (script, effect, retry) => {
        const made: ToolOutcome[] = [];
        let end: Settlement;
        let perhapsIn: number | undefined;
        do {
          made.push(script[made.length % script.length] ?? INTERRUPTED);
          end = settleAttempt(made.at(-1) ?? INTERRUPTED, { effect, attempt: made.length, retry, perhapsIn });
          if (end.status === 'retry') ({ perhapsIn } = end);
        } while (end.status === 'retry');
        assert.ok(made.length <= 1 + retry.max_retries, `${made.length} attempts`);
        const last = made.at(-1)?.kind;
        if (last === 'succeeded' || last === 'error') return;
        const doubtful = made.findIndex(mayHaveHappened) + 1 || undefined;
        if (effect === 'unknown') assert.equal(end.status, doubtful ? 'unknown' : 'failed');
        if (effect === 'read_only') assert.equal(end.status, 'failed');
        if (effect !== 'read_only' && 'perhapsIn' in end) assert.equal(end.perhapsIn, doubtful);
        if (effect === 'idempotent') assert.equal('perhapsIn' in end, doubtful !== undefined);
      }),
    );
  });

  it('makes an attempt again that was not begun, also where the tool allows no retries, and not without end', () => {
    const retry = { max_retries: 0, backoff_ms: 10 };
    const most = LIMITS.unsentRetries;
    const ends = [1, 2, most, most + 1].map(
      (attempt) => settleAttempt(TOO_LATE, { effect: 'unknown', attempt, retry }).status,
    );
    assert.deepEqual(ends, ['retry', 'retry', 'retry', 'failed']);
  });

  it('waits 1, 2 and 4 s and then gives up where the tool says nothing else', () => {
    const ends = [1, 2, 3, 4].map((attempt) =>
      settleAttempt({ kind: 'unreached', ...failure }, { effect: 'unknown', attempt, retry: DEFAULT_RETRY }),
    );
    const waits = ends.map((end) => (end.status === 'retry' ? end.waitMs : end.status));
    assert.deepEqual(waits, [1000, 2000, 4000, 'failed']);
  });

  it('waits for as long as the other side asks, and never for less than the backoff', () => {
    fc.assert(
      fc.property(fc.nat(100_000), fc.integer({ min: 1, max: 3 }), (retryAfterMs, attempt) => {
        const outcome: ToolOutcome = { kind: 'unreached', ...failure, retryAfterMs };
        const end = settleAttempt(outcome, { effect: 'unknown', attempt, retry: DEFAULT_RETRY });
        assert.equal(end.status === 'retry' && end.waitMs, Math.max(retryAfterMs, 1000 * 2 ** (attempt - 1)));
      }),
    );
  });

  it('waits up to a tenth longer by chance, so that calls which failed together do not come back together', () => {
    const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(outcomes, retries, fc.boolean(), (outcome, retry, looked) => {
        const rules = { effect: 'idempotent', attempt: 1, retry, looked } as const;
        const settled = settleAttempt(outcome, rules);
        if (settled.status !== 'retry') return;
        const waits = fc.sample(chance, 20).map((each) => settleAttempt(outcome, { ...rules, chance: each }));
        for (const end of waits) {
          assert.ok(end.status === 'retry' && end.waitMs >= settled.waitMs);
          assert.ok(end.waitMs <= Math.ceil(1.1 * settled.waitMs));
        }
      }),
    );
    const late = settleAttempt(INTERRUPTED, { effect: 'idempotent', attempt: 1, retry: DEFAULT_RETRY, chance: 0.5 });
    assert.equal(late.status === 'retry' && late.waitMs, 1050);
  });

  it('says of a call whose attempts are used up whether one of them may have had its effect, if it does more than read', () => {
    const end = (
      outcome: ToolOutcome,
      effect: ToolEffect,
      more: { perhapsIn?: number; acceptsDuplicates?: true } = {},
    ) => {
      const settled = settleAttempt(outcome, { effect, attempt: 4, retry: DEFAULT_RETRY, ...more });
      assert.ok(settled.status === 'failed');
      assert.deepEqual([settled.code, settled.message.startsWith('m')], ['c', true]);
      return [settled.message.endsWith(MAY_HAVE_HAPPENED), settled.perhapsIn];
    };
    const lost = { kind: 'lost', ...failure } as const;
    const refused = { kind: 'unreached', ...failure } as const;
    assert.deepEqual(end(lost, 'idempotent'), [true, 4]);
    assert.deepEqual(end(refused, 'idempotent', { perhapsIn: 2 }), [true, 2]);
    assert.deepEqual(end({ ...refused, retryAfterMs: 2_592_000_000 }, 'idempotent', { perhapsIn: 0 }), [true, 0]);
    assert.deepEqual(end(lost, 'unknown', { acceptsDuplicates: true }), [true, 4]);
    assert.deepEqual(end(refused, 'idempotent'), [false, undefined]);
    assert.deepEqual(end(lost, 'read_only', { perhapsIn: 2 }), [false, undefined]);
  });

  it('is unknown where an attempt that the tool has not had is the last, and one before it may have had its effect', () => {
    const unsent = { kind: 'error', unsent: true, ...failure } as const;
    const refused = { kind: 'unreached', ...failure } as const;
    const end = (
      outcome: ToolOutcome,
      effect: ToolEffect,
      more: { perhapsIn?: number; acceptsDuplicates?: true } = {},
    ) => settleAttempt(outcome, { effect, attempt: 4, retry: DEFAULT_RETRY, ...more }).status;
    assert.equal(end(unsent, 'idempotent', { perhapsIn: 2 }), 'unknown');
    assert.equal(end(unsent, 'unknown', { perhapsIn: 0 }), 'unknown');
    assert.equal(end(unsent, 'read_only', { perhapsIn: 2 }), 'failed');
    assert.equal(end(unsent, 'idempotent'), 'failed');
    assert.equal(end({ kind: 'error', ...failure }, 'idempotent', { perhapsIn: 2 }), 'failed');
    // A person has had it made again.
    assert.equal(end(refused, 'unknown', { perhapsIn: 1 }), 'unknown');
    assert.equal(end(refused, 'unknown'), 'failed');
    assert.equal(end(refused, 'unknown', { perhapsIn: 1, acceptsDuplicates: true }), 'failed');
    const call = { effect: 'idempotent', attempt: 2, error: { ...failure, perhaps_in: 1 } } as const;
    assert.equal(settleForGood(unsent, call).status, 'unknown');
  });

  it('says of an error of the tool that an earlier attempt may have had its effect, where the answer is not of that one, too', () => {
    const refused = { kind: 'error', code: 'http-409', message: 'No money left.', output: { left: 0 } } as const;
    const end = (effect: ToolEffect, perhapsIn?: number) => {
      const settled = settleAttempt(refused, { effect, attempt: 2, retry: DEFAULT_RETRY, perhapsIn });
      assert.ok(settled.status === 'failed');
      assert.deepEqual([settled.message.startsWith('No money left.'), settled.output], [true, refused.output]);
      return [settled.message.endsWith(MAY_HAVE_HAPPENED), settled.perhapsIn];
    };
    assert.deepEqual(end('unknown', 1), [true, 1]);
    assert.deepEqual(end('unknown'), [false, undefined]);
    assert.deepEqual(end('idempotent', 1), [false, undefined]);
    assert.deepEqual(end('read_only', 1), [false, undefined]);
    const call = { effect: 'idempotent', attempt: 2, error: { ...failure, perhaps_in: 1 } } as const;
    const ofEnded = (effect: ToolEffect) => {
      const { message } = settleForGood(refused, { ...call, effect }) as { message: string };
      return message.endsWith(MAY_HAVE_HAPPENED);
    };
    assert.deepEqual([ofEnded('unknown'), ofEnded('idempotent'), ofEnded('read_only')], [true, false, false]);
  });

  it('never repeats what the tool itself has answered', () => {
    fc.assert(
      fc.property(effects, retries, (effect, retry) => {
        assert.equal(settleAttempt({ kind: 'error', ...failure }, { effect, attempt: 1, retry }).status, 'failed');
        assert.equal(
          settleAttempt({ kind: 'succeeded', output: 1 }, { effect, attempt: 1, retry }).status,
          'succeeded',
        );
      }),
    );
  });

  it('for good gives no further attempt and says the same otherwise', () => {
    fc.assert(
      fc.property(outcomes, effects, retries, (outcome, effect, retry) => {
        const end = settleAttempt(outcome, { effect, attempt: 1, retry });
        fc.pre(!mayHaveHappened(outcome) || effect !== 'idempotent');
        assert.equal(
          settleForGood(outcome, { effect, attempt: 1 }).status,
          end.status === 'retry' ? 'failed' : end.status,
        );
      }),
    );
  });

  it('for good is unknown of what may have had its effect, also where it might have been repeated', () => {
    fc.assert(
      fc.property(outcomes, (outcome) => {
        const isUnknown = outcome.kind === 'lost' || (outcome.kind === 'aborted' && outcome.sent !== false);
        assert.equal(settleForGood(outcome, { effect: 'idempotent', attempt: 1 }).status === 'unknown', isUnknown);
      }),
    );
  });

  it('knows, whenever no further attempt is made, whether one of them may have had its effect', () => {
    fc.assert(
      fc.property(fc.array(outcomes, { minLength: 1, maxLength: 5 }), effects, (script, effect) => {
        const retry = { max_retries: script.length, backoff_ms: 1 };
        let error: AttemptError | undefined;
        for (const [before, outcome] of script.entries()) {
          const attempt = before + 1;
          const made = script.slice(0, attempt);
          const isInDoubt = made.some(mayHaveHappened) && effect !== 'read_only';
          const isAnswered = outcome.kind === 'succeeded' || outcome.kind === 'error';
          const ended = settleForGood(outcome, { effect, attempt, error });
          assert.equal(ended.status === 'unknown', isInDoubt && !isAnswered);
          const next = settleAttempt(outcome, { effect, attempt, retry, perhapsIn: error?.perhaps_in });
          if (next.status !== 'retry') return;
          error = attemptError(next);
          assert.equal(settleUnmade({ effect, attempt, error }, failure)?.status, isInDoubt ? 'unknown' : undefined);
          assert.equal(error.perhaps_in, made.findIndex(mayHaveHappened) + 1 || undefined);
        }
      }),
    );
  });
});
