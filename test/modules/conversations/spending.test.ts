import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { NewEvent } from '../../../core/events.ts';
import type { TokenUsage } from '../../../core/model.ts';
import { shownMoney, sumMoney } from '../../../core/money.ts';
import { turns } from '../../../core/projections/turns.ts';
import type { TurnModelCall } from '../../../db/turn-contents.ts';
import { costsOf } from '../../../llm/prices.ts';
import { spendingOf } from '../../../modules/conversations/spending.ts';

const MODEL = { provider: 'anthropic', model: 'claude-sonnet-5' };
const PLACE = { tenantId: 't', workspaceId: 't', runId: 'r', seq: 1, at: '2026-01-01T00:00:00.000Z' };

const some = fc.nat(100_000);
const usage = fc.record({
  input: some,
  output: some,
  thinking: fc.constant(0),
  cache_read: some,
  cache_write_5m: some,
  cache_write_1h: some,
});
type Made = 'model.responded' | 'model.retried' | 'model.failed';
const made = fc.record({
  as: fc.constantFrom<Made[]>('model.responded', 'model.retried', 'model.failed'),
  used: fc.option(usage),
  recorded: fc.boolean(),
});

describe('the spending of a conversation', () => {
  it('comes to the sums of its turn, whatever became of its model calls', () => {
    fc.assert(
      fc.property(fc.array(made), (calls) => {
        const events = calls.map((each) => eventOf(each));
        const sums = events.map((event) => turns.apply(PLACE, event)?.add ?? {});
        const sumOf = (column: string) => sums.reduce((all, add) => all + Number(add[column] ?? 0), 0);
        const told = spendingOf(events.flatMap(toCall));
        const { input_tokens: input, cache_creation_input_tokens: written, cache_read_input_tokens: read } = told.usage;
        assert.deepEqual([input + written + read, told.usage.output_tokens], [sumOf('tokens_in'), sumOf('tokens_out')]);
        const costs = sums.map(({ cost_usd: cost }) => (typeof cost === 'string' ? cost : '0'));
        assert.equal(told.cost.total_cost, shownMoney(sumMoney(costs)));
        const { input_cost, output_cost, cache_write_cost, cache_read_cost } = told.cost;
        const kinds = [input_cost, output_cost, cache_write_cost, cache_read_cost].map(Number);
        const split = kinds.reduce((all, kind) => all + kind, 0);
        assert.ok(Math.abs(split - Number(told.cost.total_cost)) < 1e-9, `${split}`);
      }),
    );
  });
});

/** An event as drivers write it: nothing was paid for without usage, nor for what was taken from a record. */
function eventOf({ as: type, used, recorded }: { as: Made; used: TokenUsage | null; recorded: boolean }): NewEvent {
  const spent = used ?? undefined;
  const cost = spent && sumMoney(Object.values(costsOf(MODEL.provider, MODEL.model, spent) ?? {}));
  const isAnswer = type === 'model.responded';
  const paid = spent ? { usage: spent, cost_usd: isAnswer && recorded ? '0' : cost } : {};
  const answer = { ordinal: 1, usage: { ...NONE, ...spent }, cost_usd: recorded ? '0' : (cost ?? '0'), recorded };
  return { type, turn_id: 'u', payload: { ...MODEL, ...(isAnswer ? answer : paid) } } as unknown as NewEvent;
}

const NONE = { input: 0, output: 0, thinking: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0 };

/** As `listTurnModelCalls` reads it. */
function toCall({ type, payload }: NewEvent): TurnModelCall[] {
  const read = payload as unknown as TurnModelCall;
  const isAnswer = type === 'model.responded';
  return isAnswer || 'usage' in payload ? [{ ...read, turn_id: 'u', is_answer: isAnswer }] : [];
}
