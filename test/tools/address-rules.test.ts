import assert from 'node:assert/strict';
import fc from 'fast-check';
import { createAddressRules } from '../../tools/address-rules.ts';

const NOT_PUBLIC = `0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.100.100.200 127.0.0.1 127.255.255.254 168.63.129.16
  169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.192 192.0.2.1 192.168.1.1 198.18.0.1 198.51.100.1 203.0.113.1
  224.0.0.1 240.0.0.1 255.255.255.255 :: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:a9fe:a9fe
  ::ffff:0:127.0.0.1 64:ff9b::7f00:1 64:ff9b::8.8.8.8 64:ff9b:1::1 2002:7f00:1:: 2001:0:4136:e378::1 2001:db8::1 fc00::1
  fd00:ec2::254 fe80::1 fec0::1 ff02::1 100::1 4000::1`.split(/\s+/);

describe('createAddressRules without any rule', () => {
  const none = createAddressRules([], false);
  const isAllowed = (address: string) => none.allows({ hostname: 'host.test', port: 80, address });

  for (const address of NOT_PUBLIC) {
    it(`does not take ${address} for public`, () => assert.equal(isAllowed(address), false));
  }

  for (const address of ['8.8.8.8', '1.1.1.1', '172.32.0.1', '2606:4700::1111', '2a00:1450::1', '::ffff:8.8.8.8']) {
    it(`takes ${address} for public`, () => assert.equal(isAllowed(address), true));
  }

  it('says the same of an IPv4 address and of the IPv6 address that is mapped to it', () => {
    fc.assert(
      fc.property(fc.ipV4(), (address) => {
        assert.equal(isAllowed(`::ffff:${address}`), isAllowed(address));
      }),
    );
  });

  it('does not take what is no address for public', () => {
    fc.assert(fc.property(fc.string(), (text) => /^[0-9a-fx.:%]+$/i.test(text) || !isAllowed(text)));
  });
});

describe('createAddressRules', () => {
  const allows = (allow: string[], target: { hostname?: string; port?: number; address: string }, loopback = false) =>
    createAddressRules(allow, loopback).allows({ hostname: 'host.test', port: 80, ...target });

  it('allows a listed host, whatever its address and case, and no other host', () => {
    assert.equal(allows(['Host.Test'], { address: '10.0.0.1' }), true);
    assert.equal(allows(['host.test'], { hostname: 'HOST.test.', address: '10.0.0.1' }), true);
    assert.equal(allows(['host.test'], { hostname: 'evil.host.test', address: '10.0.0.1' }), false);
  });

  it('allows a listed port only', () => {
    assert.equal(allows(['host.test:8080'], { port: 8080, address: '10.0.0.1' }), true);
    assert.equal(allows(['host.test:8080'], { port: 80, address: '10.0.0.1' }), false);
    assert.equal(allows(['[fd00::1]:8080'], { port: 8080, address: 'fd00::1' }), true);
  });

  it('allows the addresses of a listed network, mapped ones too', () => {
    assert.equal(allows(['10.1.0.0/16'], { address: '10.1.2.3' }), true);
    assert.equal(allows(['10.1.0.0/16'], { address: '::ffff:10.1.2.3' }), true);
    assert.equal(allows(['10.1.0.0/16'], { address: '10.2.0.1' }), false);
    assert.equal(allows(['fd00::/8'], { address: 'fd12::1' }), true);
    assert.equal(allows(['10.1.2.3'], { address: '10.1.2.3' }), true);
    assert.equal(allows(['10.1.2.3'], { address: '10.1.2.4' }), false);
  });

  it('allows loopback where it is told so, and nothing else private', () => {
    for (const address of ['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1']) {
      assert.equal(allows([], { address }, true), true, address);
      assert.equal(allows([], { address }), false, address);
    }
    assert.equal(allows([], { address: '10.0.0.1' }, true), false);
    assert.equal(allows([], { address: '0.0.0.0' }, true), false);
  });

  it('refuses an entry that it cannot read, and shows it', () => {
    for (const entry of ['http://host', 'host:99999', 'host:0', 'a b', '10.0.0.0/99', '[::1', 'host/24']) {
      assert.throws(() => createAddressRules([entry], false), new RegExp(entry.replace(/[[\]/.]/g, '\\$&')));
    }
  });
});
