import assert from 'node:assert/strict';
import fc from 'fast-check';
import { LIMITS } from '../../core/limits.ts';
import { createFairOrder, ROUND_MS } from '../../jobs/fair-order.ts';

const START = 1_763_770_000_000;

describe('the order of jobs between tenants', () => {
  it("puts five jobs of one tenant among the first of another's three hundred", () => {
    const order = createFairOrder(() => START);
    const jobs = Array.from({ length: 300 }, () => ({ tenant: 'flood', priority: order.next('flood') }));
    for (let count = 0; count < 5; count++) jobs.push({ tenant: 'few', priority: order.next('few') });
    // Of the same priority the earlier one goes first, as BullMQ does it.
    const places = jobs
      .toSorted((a, b) => a.priority - b.priority)
      .flatMap(({ tenant }, place) => (tenant === 'few' ? [place] : []));
    assert.deepEqual(places, [1, 3, 5, 7, 9]);
  });

  it('puts a tenant back by the time that its jobs have taken', () => {
    const order = createFairOrder(() => START);
    const [long, short] = [order.next('long'), order.next('short')];
    assert.equal(long, short);
    order.spent('long', 20_000);
    order.spent('short', 10);
    assert.ok(order.next('long') - order.next('short') >= 19);
  });

  it('never puts a job behind those that come an hour and more later, and stays within what BullMQ takes', () => {
    const act = fc.record({ tenant: fc.constantFrom('a', 'b'), ms: fc.nat(100_000), pause: fc.nat(5000) });
    fc.assert(
      fc.property(fc.array(act, { maxLength: 200 }), (acts) => {
        let now = START;
        const order = createFairOrder(() => now);
        for (const { tenant, ms, pause } of acts) {
          now += pause;
          const priority = order.next(tenant);
          order.spent(tenant, ms);
          assert.ok(Number.isInteger(priority) && priority >= 1 && priority < 2 ** 21);
          const later = createFairOrder(() => now + LIMITS.fairAheadSeconds * 1000).next('newcomer');
          assert.ok((later - priority + 2 ** 21) % 2 ** 21 <= LIMITS.fairAheadSeconds, `${priority}, ${later}`);
        }
      }),
    );
  });

  it('does not put a tenant to the front whose time has gone into the next round of priorities', () => {
    const order = createFairOrder(() => 850 * ROUND_MS - 3000);
    const flood = Array.from({ length: 10 }, () => order.next('flood'));
    assert.deepEqual(
      flood,
      flood.toSorted((a, b) => a - b),
    );
    assert.ok(order.next('few') < (flood.at(-1) ?? 0));
  });
});
