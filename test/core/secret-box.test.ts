import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { createKeyring, SecretUnreadableError } from '../../core/secret-box.ts';

const owner = { tenantId: 't-1', name: 'api_key' };
const seal = (ring: ReturnType<typeof createKeyring>, value: string) => ring.seal(owner, value, randomBytes(12));

describe('a keyring', () => {
  const ring = createKeyring(['current key']);

  it('opens what it has sealed, whatever the text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (value) => assert.equal(ring.open(owner, seal(ring, value)), value)),
      { numRuns: 50 },
    );
  });

  it('shows nothing of the value or the key in what is stored', () => {
    const { keyId, sealed } = seal(ring, 'canary-value');
    assert.ok(!sealed.toString('latin1').includes('canary'));
    assert.match(keyId, /^[0-9a-f]{16}$/);
    assert.notDeepEqual(seal(ring, 'canary-value').sealed, sealed);
  });

  it('opens nothing for another tenant or under another name', () => {
    const stored = seal(ring, 'v');
    for (const other of [
      { ...owner, tenantId: 't-2' },
      { ...owner, name: 'other' },
      { tenantId: 't-1\0api', name: '_key' },
    ]) {
      assert.throws(() => ring.open(other, stored), SecretUnreadableError);
    }
  });

  it('notices every bit that was changed', () => {
    const { keyId, sealed } = seal(ring, 'value');
    for (let bit = 0; bit < sealed.length * 8; bit += 1) {
      const changed = Buffer.from(sealed);
      changed.writeUInt8(changed.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
      assert.throws(() => ring.open(owner, { keyId, sealed: changed }), SecretUnreadableError);
    }
    for (const cut of [Buffer.alloc(0), sealed.subarray(0, 20), sealed.subarray(0, -1)]) {
      assert.throws(() => ring.open(owner, { keyId, sealed: cut }), SecretUnreadableError);
    }
  });

  it('reads with older keys and writes with the first', () => {
    const rotated = createKeyring(['next key', 'current key']);
    assert.equal(rotated.open(owner, seal(ring, 'old')), 'old');
    assert.notEqual(rotated.currentKeyId(), ring.currentKeyId());
    const fresh = seal(rotated, 'new');
    assert.equal(fresh.keyId, rotated.currentKeyId());
    assert.throws(() => ring.open(owner, fresh), /The secret "api_key" cannot be read: DROVER_SECRET_KEY lacks/);
  });
});
