import assert from 'node:assert/strict';
import { EgressError } from '../../tools/egress-error.ts';
import { createEgress, type EgressOptions } from '../../tools/egress.ts';
import { startServer, type LocalServer } from '../support/echo-server.ts';
import { attack } from '../support/red-team.ts';

const REFUSED = 'refused before a connection';

describe('Reaching inside through tools', () => {
  let inside: LocalServer;

  before(async () => {
    inside = await startServer(({ path }, response) => {
      if (path === '/to-metadata') response.writeHead(302, { location: 'http://169.254.169.254/latest' }).end();
      else if (path === '/to-file') response.writeHead(302, { location: 'file:///etc/passwd' }).end();
      else if (path === '/loop') response.writeHead(302, { location: '/loop' }).end();
      else response.end('inside');
    });
  });
  after(() => inside.close());

  const fetchFrom = (url: string, options: Partial<EgressOptions> = {}, headers = {}) =>
    createEgress({ allow: [], allowLoopback: false, ...options }).fetch(url, {
      headers,
      maxBytes: 1000,
      timeoutMs: 5000,
      signal: new AbortController().signal,
    });

  async function fails(work: Promise<unknown>, code: EgressError['code']): Promise<void> {
    await assert.rejects(work, (error) => error instanceof EgressError && error.code === code);
  }

  const forms: [string, string, string][] = [
    ['S01', 'the loopback address', '127.0.0.1'],
    ['S02', 'the loopback address as one number', '2130706433'],
    ['S03', 'the loopback address in hexadecimal', '0x7f000001'],
    ['S04', 'the loopback address in octal', '0177.0.0.1'],
    ['S05', 'the loopback address in short', '127.1'],
    ['S06', 'the loopback address of IPv6', '[::1]'],
    ['S07', 'the loopback address mapped into IPv6', '[::ffff:7f00:1]'],
    ['S08', 'the loopback address in full-width digits', '１２７.0.0.1'],
    ['S09', 'the loopback address with ideographic full stops', '127。0。0。1'],
    ['S10', 'the unspecified address', '0.0.0.0'],
    ['S11', 'the name localhost', 'localhost'],
    ['S12', 'an address behind user information', 'example.com@127.0.0.1'],
  ];
  for (const [id, what, host] of forms) {
    attack(id, [what, REFUSED], async () => {
      const seen = inside.seen.length;
      const code = host.includes('@') ? 'invalid' : 'refused';
      await assert.rejects(fetchFrom(`http://${host}:${inside.port}/`), (error) => {
        return error instanceof EgressError && (error.code === code || error.code === 'refused');
      });
      assert.equal(inside.seen.length, seen);
    });
  }

  const networks: [string, string, string][] = [
    ['S13', "a cloud's metadata address, where loopback is allowed", '169.254.169.254'],
    ['S14', "a cloud's metadata address of IPv6, where loopback is allowed", '[fd00:ec2::254]'],
    ['S15', 'a metadata address through NAT64, where loopback is allowed', '[64:ff9b::a9fe:a9fe]'],
    ['S16', 'a private network, where loopback is allowed', '10.0.0.1'],
    ['S17', 'a shared address of a provider, where loopback is allowed', '100.100.100.200'],
  ];
  for (const [id, what, host] of networks) {
    attack(id, [what, REFUSED], () => fails(fetchFrom(`http://${host}/`, { allowLoopback: true }), 'refused'));
  }

  attack('S18', ['a public name that stands for a private address', REFUSED], async () => {
    const lookup = async () => [{ address: '127.0.0.1' }];
    await fails(fetchFrom(`http://public.test:${inside.port}/`, { lookup }), 'refused');
  });

  attack(
    'S19',
    ['a name that stands for another address at the second look', 'looked up once, and pinned'],
    async () => {
      let looks = 0;
      const lookup = async () => [{ address: looks++ === 0 ? '127.0.0.1' : '10.0.0.1' }];
      const answer = await fetchFrom(`http://rebind.test:${inside.port}/`, { lookup, allow: ['127.0.0.1'] });
      assert.equal(answer.body.toString(), 'inside');
      assert.equal(looks, 1);
    },
  );

  attack('S20', ['a redirect to a metadata address', 'the redirect is refused'], () =>
    fails(fetchFrom(`${inside.url}/to-metadata`, { allowLoopback: true }), 'refused'),
  );

  attack('S21', ['a redirect to a file', 'the redirect is refused'], async () => {
    await assert.rejects(fetchFrom(`${inside.url}/to-file`, { allowLoopback: true }), EgressError);
  });

  attack('S22', ['a redirect without end', 'given up after five'], () =>
    fails(fetchFrom(`${inside.url}/loop`, { allowLoopback: true }), 'too-many-redirects'),
  );

  for (const [id, what, url] of [
    ['S23', 'a file', 'file:///etc/passwd'],
    ['S24', 'another protocol', 'gopher://127.0.0.1:6379/_FLUSHALL'],
  ] as const) {
    attack(id, [what, 'refused: only http and https'], async () => {
      await assert.rejects(fetchFrom(url, { allowLoopback: true }), EgressError);
    });
  }

  attack('S25', ['a header with a line break', 'refused before a connection'], async () => {
    const seen = inside.seen.length;
    const headers = { 'x-name': 'a\r\nx-admin: yes' };
    await assert.rejects(fetchFrom(`${inside.url}/`, { allowLoopback: true }, headers), EgressError);
    assert.equal(inside.seen.length, seen);
  });
});
