import assert from 'node:assert/strict';
import fc from 'fast-check';
import { celCompiler } from '../../core/cel.ts';
import { cpuMs } from '../support/cpu-time.ts';

const compile = celCompiler({ objects: ['tool', 'arguments'], texts: ['risk'], bare: { tool: 'name' } });

const INPUT = {
  tool: { name: 'pay' },
  arguments: { amount: 5, price: 1.5, text: 'abc', tags: ['a', 'b'], deep: { a: { b: null } } },
  risk: 'READ_ONLY',
};

function evaluate(source: string, input: Record<string, unknown> = INPUT): boolean | string {
  const compiled = compile(source);
  if (!compiled.ok) return `fault: ${compiled.error}`;
  const tested = compiled.value.test(input);
  return tested.ok ? tested.value : `error: ${tested.error}`;
}

describe('A condition in CEL', () => {
  const holding = [
    'tool == "pay" && tool.name == "pay"',
    'tool in ["refund", "pay"] && tool.startsWith("p")',
    'arguments.amount > 4 && arguments.amount == 5 && arguments.amount + 1 == 6',
    'arguments.amount % 2 == 1 && arguments.price * 2 == 3.0',
    'arguments.tags.exists(tag, tag == "b") && !arguments.tags.all(tag, tag == "b")',
    'arguments.text.matches("^a.c$") && !arguments.text.matches("^b")',
    'has(arguments.amount) && !has(arguments.other) && arguments.deep.a.b == null',
    // What is settled either way is not spoiled by an error on the other side.
    'tool == "pay" || arguments.missing > 1',
    'risk == "READ_ONLY" ? size(arguments.tags) == 2 : false',
  ];
  for (const source of holding) it(`understands ${source}`, () => assert.equal(evaluate(source), true));

  const faults: [source: string, says: RegExp][] = [
    ['', /./],
    ['tool ==', /unexpected token/i],
    ['person == "x"', /unknown variable: person/i],
    ['1 + 1', /gives int instead of bool/],
    ['tool == 5', /no such overload: string == int/],
    ['tool.matches(arguments.text)', /must be a text in quotes/],
    ['tool.matches("(")', /missing closing/],
    [`tool.matches("${'a'.repeat(501)}")`, /longer than 500/],
    ['tool.matches("(a{1000}){1000}")', /invalid repeat count/],
    [`"${'a'.repeat(4000)}" == tool`, /longer than 4000/],
    [`${'('.repeat(100)}true${')'.repeat(100)}`, /depth|nest/i],
    [Array.from({ length: 400 }, () => 'true').join(' && '), /node|depth/i],
    // What grows text or lists with each use.
    ['arguments.tags.map(x, [x, x]) == []', /no function "map"/],
    ['cel.bind(x, "a", x == "a")', /no function "bind"/],
    ['arguments.text.split("").size() > 1', /no function "split"/],
    ['arguments.tags.exists(x, x + x == "aa")', /"\+" cannot be used within a macro/],
    ['arguments.tags.exists(x, [x, x].exists(y, y == "a"))', /constants only/],
    ['arguments.tags.exists(tool, tool == "a")', /"tool" is a variable already/],
  ];
  for (const [source, says] of faults) {
    it(`refuses ${source.slice(0, 60)}`, () => {
      const outcome = String(evaluate(source));
      assert.match(outcome, /^fault: /);
      assert.match(outcome, says);
    });
  }

  const errors: [source: string, says: RegExp][] = [
    ['arguments.missing == 1', /no such key: missing/i],
    ['arguments.text > 5', /no such overload/],
    ['arguments.amount', /gives number instead of bool/],
    ['arguments.constructor == 1', /no such key: constructor/i],
    ['arguments.__proto__ == 1', /no such key: __proto__/i],
  ];
  for (const [source, says] of errors) {
    it(`says what is wrong where ${source}`, () => {
      const outcome = String(evaluate(source));
      assert.match(outcome, /^error: /);
      assert.match(outcome, says);
    });
  }

  it('does not look at an input that is too large or too deep', () => {
    const deep = JSON.parse(`${'{"a":'.repeat(100)}1${'}'.repeat(100)}`) as Record<string, unknown>;
    assert.match(String(evaluate('true', { ...INPUT, arguments: deep })), /nested more deeply/);
    const large = { text: 'x'.repeat(2 * 1024 * 1024) };
    assert.match(String(evaluate('true', { ...INPUT, arguments: large })), /larger than/);
  });

  it('refuses to begin what would take long', () => {
    const list = Array.from({ length: 5000 }, (_, index) => index);
    const cubic = 'arguments.list.all(x, arguments.list.all(y, arguments.list.all(z, x + 0 == z || y == z)))';
    assert.match(String(evaluate(cubic, { ...INPUT, arguments: { list } })), /cannot be used within a macro/);
    const square = 'arguments.list.all(x, arguments.list.exists(y, x == y))';
    assert.match(String(evaluate(square, { ...INPUT, arguments: { list } })), /would take too long/);
    assert.equal(evaluate(square, { ...INPUT, arguments: { list: [1, 2, 3] } }), true);
  });

  it('matches in linear time, and not at all where the text is too long for the pattern', () => {
    const bomb = 'arguments.text.matches("^(a+)+$")';
    const startedMs = cpuMs();
    assert.equal(evaluate(bomb, { ...INPUT, arguments: { text: `${'a'.repeat(20_000)}!` } }), false);
    assert.ok(cpuMs() - startedMs < 2000);
    const large = { text: 'a'.repeat(1_000_000) };
    assert.match(String(evaluate(bomb, { ...INPUT, arguments: large })), /would take too long/);
  });

  it('never throws and never lasts, whatever it is made of and whatever it meets', () => {
    const pieces = (
      'tool risk arguments .a ["a"] .matches("(a|b)*c") .all(x, .exists(y, x y ) ( && || == != < > + - * / % ! ? : in ' +
      '1 1.5 "a" [ ] { } , null true size( has( int( .size() 99999999999999999999'
    ).split(' ');
    const piece = fc.constantFrom(...pieces);
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 25 }), fc.dictionary(fc.string(), fc.jsonValue()), (drawn, args) => {
        const startedMs = cpuMs();
        const outcome = evaluate(drawn.join(' '), { ...INPUT, arguments: args });
        assert.ok(typeof outcome === 'boolean' || /^(fault|error): ./.test(outcome));
        assert.ok(cpuMs() - startedMs < 1000);
      }),
      { numRuns: 3000 },
    );
  });

  it('never takes any JSON for anything but itself', () => {
    fc.assert(
      fc.property(fc.jsonValue({ depthSize: 'small' }), fc.string(), (value, key) => {
        const input = {
          ...INPUT,
          arguments: Object.fromEntries([
            ['value', value],
            [key, value],
          ]),
        };
        assert.notEqual(evaluate('arguments.value == arguments.value', input), false);
        assert.equal(
          evaluate('has(arguments.toString) || has(arguments.__proto__)', input),
          key === 'toString' || key === '__proto__',
        );
      }),
    );
  });
});
