import assert from 'node:assert/strict';
import fc from 'fast-check';
import { LIMITS } from '../../core/limits.ts';
import { createTenantSlots } from '../../workers/tenant-slots.ts';

describe("a tenant's slots in a worker", () => {
  it('are all of them while nobody else wants to run', () => {
    const slots = createTenantSlots(8);
    for (let count = 0; count < 8; count++) assert.ok(slots.take('only'));
  });

  it('are its share once another has come, and what is given back can be taken again', () => {
    const slots = createTenantSlots(8);
    const held = Array.from({ length: 6 }, () => slots.take('many'));
    assert.ok(slots.take('few'));
    assert.equal(slots.take('many'), undefined);
    held[0]?.();
    assert.ok(slots.take('many'));
    assert.equal(slots.take('many'), undefined);
  });

  it('are all of them again when the others have been quiet for a minute', () => {
    let now = 1_000_000;
    const slots = createTenantSlots(1, () => now);
    slots.take('few')?.();
    assert.ok(slots.take('many'));
    assert.equal(slots.take('many'), undefined);
    now += 61_000;
    assert.ok(slots.take('many'));
  });

  it('leave room for others, whatever comes and goes, and one for each', () => {
    const act = fc.record({ tenant: fc.constantFrom('a', 'b'), give: fc.boolean() });
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 20 }), fc.array(act), (concurrency, acts) => {
        const slots = createTenantSlots(concurrency, () => 0);
        const held: Record<string, (() => void)[]> = { a: [], b: [] };
        slots.take('b')?.();
        slots.take('a')?.();
        const most = Math.ceil((concurrency * LIMITS.tenantSharePercent) / 100);
        for (const { tenant, give } of acts) {
          const own = held[tenant] ?? [];
          if (give) own.pop()?.();
          else {
            const release = slots.take(tenant);
            assert.equal(release === undefined, own.length >= most);
            if (release) own.push(release);
          }
        }
      }),
    );
  });

  it('keep those longer that are put back in numbers, up to a bound', () => {
    const slots = createTenantSlots(4);
    const pauses = Array.from({ length: 1000 }, () => slots.pauseMs('many'));
    assert.ok((pauses[0] ?? 0) < 1000);
    assert.ok(pauses.slice(-10).every((ms) => ms > 5000 && ms < 15_000));
  });
});
