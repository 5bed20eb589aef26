import { equal, ok } from 'node:assert/strict';
import { validate, version } from 'uuid';
import { ageMs, newId, newRandomId } from '../../lib/new-id.ts';

describe('a new id', () => {
  it('is a UUIDv7 of now, unlike any other, and sorts after those that were made before it', () => {
    const ids = Array.from({ length: 20_000 }, newId);
    ok(ids.every((id) => validate(id) && version(id) === 7));
    equal(new Set(ids).size, ids.length);
    ok(ids.every((id, index) => index === 0 || id > (ids[index - 1] ?? '')));
    ok((ageMs(ids.at(-1)) ?? Infinity) < 60_000);
  });

  it('has chance of its own, with which none can be guessed from another', () => {
    const ends = Array.from({ length: 2000 }, () => newId().slice(-11));
    equal(new Set(ends).size, ends.length);
  });

  it('of chance alone is as long as was asked, and unlike any other', () => {
    const ids = Array.from({ length: 3000 }, (_, n) => [newId(), newRandomId(n % 3 === 0 ? 16 : 8)] as const);
    ok(ids.every(([, id], n) => /^[0-9a-f]+$/.test(id) && id.length === (n % 3 === 0 ? 32 : 16)));
    const starts = ids.flatMap(([id, random]) => [id.slice(-11), random.slice(0, 16)]);
    equal(new Set(starts).size, starts.length);
  });
});
