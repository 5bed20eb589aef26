import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { ToolTransport } from '../../core/tool.ts';
import { createSecretValues, NO_SECRETS, REDACTED, secretNamesIn } from '../../tools/secret-values.ts';
import { kindOf } from '../../tools/transports.ts';

const valuesOf = (...values: string[]) =>
  createSecretValues(new Map(values.map((value, index) => [`n${index}`, { value, hosts: null }])));

const namesOf = (transport: ToolTransport) => secretNamesIn(kindOf(transport)?.secretTexts(transport) ?? []);

describe('secretNamesIn', () => {
  it('finds each name once, and nothing in what is no reference', () => {
    const headers = { a: 'Bearer {{secret:x}}{{ secret:y }}', b: '{{secret:x}}', c: '{{secret:}} {secret:z} {{x}}' };
    assert.deepEqual(namesOf({ type: 'http', endpoint: 'https://x.example', headers }), ['x', 'y']);
    assert.deepEqual(namesOf({ type: 'mcp_stdio', command: 'c', env: { A: '{{secret:k}}' } }), ['k']);
    assert.deepEqual(namesOf({ type: 'mcp_sse', endpoint: 'https://x.example', headers }), ['x', 'y']);
    assert.deepEqual(namesOf({ type: 'builtin' }), []);
  });
});

describe('redaction', () => {
  const letters = fc.string({ unit: 'grapheme', minLength: 8, maxLength: 40 });

  it('leaves no value that was put anywhere into an answer, in any common form', () => {
    const forms: ((text: string) => string)[] = [
      (text) => text,
      (text) => JSON.stringify({ text }),
      (text) => encodeURIComponent(text),
      (text) => new URLSearchParams({ q: text }).toString(),
      (text) => Buffer.from(text).toString('hex'),
      (text) => Buffer.from(text).toString('base64'),
      (text) => Buffer.from(`user:${text}!`).toString('base64'),
      (text) => Buffer.from(`us:${text}`).toString('base64url'),
      (text) => Buffer.from(`u:${text}..`).toString('base64'),
    ];
    fc.assert(
      fc.property(letters, fc.constantFrom(...forms), fc.string(), (secret, form, around) => {
        const echoed = form(secret);
        const { redact } = valuesOf(secret);
        for (const shown of [redact(`${around}${echoed}${around}`), redact({ deep: [{ [echoed]: echoed }] })]) {
          const text = typeof shown === 'string' ? shown : JSON.stringify(shown);
          assert.ok(text.includes(REDACTED), text);
          assert.ok(typeof shown !== 'string' || !shown.includes(secret) || around.includes(secret));
        }
      }),
    );
  });

  it('changes nothing else', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) =>
        assert.deepEqual(valuesOf('\u{1F511}-nobody-says-this').redact(value), value),
      ),
    );
    const value = { a: 'x' };
    assert.equal(NO_SECRETS.redact(value), value);
  });

  it('takes the longer of two values that overlap', () => {
    assert.equal(valuesOf('abcd', 'abcdefgh').redact('xabcdefghx'), `x${REDACTED}x`);
  });

  it('finds digits that come back as a number, and letters of another case', () => {
    assert.deepEqual(valuesOf('123456').redact({ pin: 123456, other: 1234567 }), { pin: REDACTED, other: 1234567 });
    assert.equal(valuesOf('Canary-1').redact('http://canary-1.example'), `http://${REDACTED}.example`);
  });

  it('finds a value as long as may be, in any form, as one', () => {
    const value = `-----BEGIN KEY-----\n${'aÄ"'.repeat(8_000)}`;
    const { redact } = valuesOf(value, 'BEGIN KEY');
    const hex = Buffer.from(value).toString('hex');
    for (const form of [value, value.toUpperCase(), encodeURIComponent(value), hex, hex.toUpperCase()])
      assert.equal(redact(`x${form}x`), `x${REDACTED}x`);
  });

  it('finds a value without the white space at its ends, which HTTP does not keep', () => {
    const { redact } = valuesOf('\ttrail-secret \n', ' abc ');
    const encoded = Buffer.from('key=trail-secret').toString('base64');
    assert.equal(redact('got [trail-secret]'), `got [${REDACTED}]`);
    assert.equal(redact(encoded).includes(REDACTED), true);
    assert.equal(redact('abc'), 'abc');
  });

  it('does not look for what is too short to be told from a word', () => {
    assert.equal(valuesOf('the').redact('the cat'), 'the cat');
  });
});
