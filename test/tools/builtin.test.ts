import assert from 'node:assert/strict';
import fc from 'fast-check';
import { isPure } from '../../core/tool.ts';
import { BUILTIN_TOOLS, runBuiltin } from '../../tools/builtin.ts';
import { createEgress } from '../../tools/egress.ts';
import { createArgumentValidator } from '../../tools/validate-arguments.ts';
import { cpuMs } from '../support/cpu-time.ts';
import { startServer } from '../support/echo-server.ts';
import { attemptOf, briefly, messageOf, outputOf } from '../support/tool-attempt.ts';

const validator = createArgumentValidator();
const { checkSchema, validateArguments } = validator;

const egress = createEgress({ allow: [], allowLoopback: true });
const run = (name: string, args: Record<string, unknown>, now?: () => Date) =>
  runBuiltin(name, attemptOf(args), { egress, validator, now });

const WRITING = ['remember', 'delegate', 'handoff', 'reject_handoff'];

describe('BUILTIN_TOOLS', () => {
  it('are read-only but for some, described, and have schemas that can be registered', () => {
    for (const tool of BUILTIN_TOOLS) {
      assert.deepEqual(checkSchema(tool.input_schema), [], tool.name);
      assert.equal(tool.risk_level, WRITING.includes(tool.name) ? 'WRITE_LOW_RISK' : 'READ_ONLY');
      assert.ok(tool.description.length > 50, tool.name);
    }
    assert.equal(new Set(BUILTIN_TOOLS.map((tool) => tool.id)).size, BUILTIN_TOOLS.length);
  });

  it('are pure where they stay in the process', () => {
    const pure = BUILTIN_TOOLS.filter(isPure).map((tool) => tool.name);
    assert.deepEqual(pure, ['calculator', 'current_time', 'json_query']);
  });

  it('give outputs that fit their own output schemas', async () => {
    const server = await startServer((_request, response) => response.end('x'));
    const calls = {
      calculator: { expression: '1+1' },
      current_time: {},
      http_get: { url: server.url },
      json_query: { data: 1, query: '$' },
    };
    for (const [name, args] of Object.entries(calls)) {
      const schema = BUILTIN_TOOLS.find((tool) => tool.name === name)?.output_schema ?? assert.fail(name);
      assert.deepEqual(validateArguments(schema, outputOf(await run(name, args))), [], name);
    }
    await server.close();
  });

  it('answer bad arguments and unknown names with an error that says what is wrong', async () => {
    assert.match(messageOf(await run('calculator', { expression: 5 })), /\/expression: must be string/);
    assert.match(messageOf(await run('calculator', { expresion: '1' })), /required property 'expression'/);
    assert.match(messageOf(await run('teleport', {})), /"teleport"/);
  });
});

describe('calculator', () => {
  const calculate = (expression: string) => run('calculator', { expression });
  const results: [string, unknown][] = [
    ['0.1 + 0.2', 0.3],
    ['(1299 - 1099) / 1099 * 100', 18.1983621474067],
    ['mean([3, 5, 10])', 6],
    ['round(2.345, 2)', 2.35],
    ['15% * 80', 12],
    ['10 % 3', 1],
    ['20!', 2432902008176640000],
    ['9007199254740991 + 0', 9007199254740991],
    ['x = 3; x * 2', 6],
    ['[[1, 2], [3, 4]] * [1, 1]', [3, 7]],
    ['5 inch to cm', '12.7 cm'],
    ['sqrt(-4)', '2i'],
    ['2 > 1 ? 10 : 20', 10],
    ['1 < 2 < 3', true],
    ['log(8, 2)', 3],
  ];
  for (const [expression, result] of results) {
    it(`knows that ${expression} is ${JSON.stringify(result)}`, async () => {
      assert.deepEqual(outputOf(await calculate(expression)), { result });
    });
  }

  const refused = [
    'import({})',
    'evaluate("1")',
    'parse("1")',
    'createUnit("knot")',
    'simplify("x+x")',
    'derivative("x^2", "x")',
    'sort(["1", "2"], evaluate)',
    'f = parse; f("1")',
    'f(x) = f(x); f(1)',
    'ones(100000, 100000)',
    '1:1000000000',
    '"a".constructor',
    '{a: 1}.a',
    '[1, 2][1]',
    'map([1], sqrt)',
    'cos',
    'config({})',
    'typed("f", {})',
    'chain(3)',
    'compile("1")',
    'help("sin")',
    'reviver("a", 1)',
  ];
  for (const expression of refused) {
    it(`refuses ${expression}`, async () => {
      assert.equal(briefly(await calculate(expression)), 'error not-allowed');
    });
  }

  it('names what is wrong with an expression', async () => {
    assert.match(messageOf(await calculate('max(1, 2')), /Parenthesis \) expected/);
    assert.match(messageOf(await calculate('price * 2')), /Undefined symbol price/);
    assert.match(messageOf(await calculate('1 / 0')), /no finite value/);
  });

  it('stops a calculation without end', async () => {
    const before = Date.now();
    assert.equal(briefly(await calculate('combinations(1e11, 5e10)')), 'error too-slow');
    assert.ok(Date.now() - before < 30_000);
  });

  it('lets the process go on while calculations take their time', async () => {
    let ticks = 0;
    const ticking = setInterval(() => (ticks += 1), 10);
    const slow = await Promise.all([1, 2, 3].map((n) => calculate(`combinations(1e11, 5e10) + ${n}`)));
    clearInterval(ticking);
    for (const each of slow) assert.equal(briefly(each), 'error too-slow');
    assert.ok(ticks >= 20, `${ticks} ticks`);
  });

  it('computes with no number that it would round, and says so', async () => {
    for (const expression of ['9007199254740993 + 0', '12345678901234567890 mod 7', 'max(1, 9007199254740993)'])
      assert.match(messageOf(await calculate(expression)), /more digits than the calculator computes with/);
    assert.deepEqual(outputOf(await calculate('round(0.12345678901234567, 2)')), { result: 0.12 });
  });

  it('limits expression and result', async () => {
    assert.match(messageOf(await calculate(`1${'+1'.repeat(500)}`)), /1000 characters/);
    const list = `[${'1,'.repeat(150)}1]`;
    assert.equal(
      briefly(await calculate(`a=${list}; [a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a]`)),
      'error too-large',
    );
  });

  it('adds and multiplies whole numbers as exactly as numbers allow', async () => {
    const whole = fc.integer({ min: -30_000_000, max: 30_000_000 });
    await fc.assert(
      fc.asyncProperty(whole, whole, async (a, b) => {
        assert.deepEqual(outputOf(await calculate(`(${a}) + (${b})`)), { result: a + b });
        assert.deepEqual(outputOf(await calculate(`(${a}) * (${b})`)), { result: a * b + 0 });
      }),
    );
  });

  it('answers any text with a value or an error, and leaves the next calculation right', async () => {
    const pieces = fc.constantFrom(
      '(',
      ')',
      '[',
      ']',
      '+',
      '*',
      '^',
      '!',
      '1',
      '2.5',
      'sqrt',
      'i',
      'x',
      '=',
      ';',
      ',',
      '"a"',
      ' ',
    );
    await fc.assert(
      fc.asyncProperty(fc.array(pieces, { minLength: 1, maxLength: 12 }), async (parts) => {
        assert.match(briefly(await calculate(parts.join(''))), /^succeeded$|^error /);
        assert.deepEqual(outputOf(await calculate('sqrt(16) + 1')), { result: 5 });
      }),
    );
  });
});

describe('current_time', () => {
  const at = (iso: string, args: Record<string, unknown>) => run('current_time', args, () => new Date(iso));

  it('tells the time in UTC and in a time zone, with summer time', async () => {
    assert.deepEqual(outputOf(await at('2026-07-01T12:00:00Z', { timezone: 'Europe/Berlin' })), {
      iso: '2026-07-01T12:00:00.000Z',
      timezone: 'Europe/Berlin',
      local: '2026-07-01T14:00:00.000+02:00',
      unix_ms: 1782907200000,
    });
    const winter = outputOf(await at('2026-12-31T23:30:00Z', { timezone: 'Asia/Kolkata' })) as { local: string };
    assert.equal(winter.local, '2027-01-01T05:00:00.000+05:30');
  });

  it('gives the same instant in every zone', async () => {
    const zones = fc.constantFrom(...Intl.supportedValuesOf('timeZone'));
    const dates = fc.date({ min: new Date('1980-01-01'), max: new Date('2050-01-01'), noInvalidDate: true });
    await fc.assert(
      fc.asyncProperty(zones, dates, async (timezone, date) => {
        const { local } = outputOf(await at(date.toISOString(), { timezone })) as { local: string };
        assert.equal(new Date(local).getTime(), date.getTime());
      }),
    );
  });

  it('takes UTC where no zone is given, and refuses an unknown one by name', async () => {
    assert.equal((outputOf(await at('2026-07-01T12:00:00Z', {})) as { timezone: string }).timezone, 'UTC');
    assert.match(messageOf(await at('2026-07-01T12:00:00Z', { timezone: 'Mars/Base' })), /"Mars\/Base"/);
  });
});

describe('json_query', () => {
  const query = (text: string, data: unknown) => run('json_query', { data, query: text });
  const orders = {
    orders: [
      { c: 'NO', total: 10 },
      { c: 'SE', total: 5 },
      { c: 'NO', total: 7 },
    ],
  };

  const results: [string, unknown][] = [
    ['$sum(orders.total)', 22],
    ["orders[c='NO'].total", [10, 7]],
    ['orders{c: $sum(total)}', { NO: 17, SE: 5 }],
    ['orders^(>total)[0].c', 'NO'],
    ['$match("a1b2", /[0-9]/).match', ['1', '2']],
    ['$replace("2026-11-21", /(\\d+)-(\\d+)-(\\d+)/, "$3.$2.$1")', '21.11.2026'],
    ['nothing.here', null],
  ];
  for (const [text, result] of results) {
    it(`answers ${text}`, async () => assert.deepEqual(outputOf(await query(text, orders)), { result }));
  }

  it('names what is wrong with a query and where', async () => {
    assert.match(messageOf(await query('orders[', orders)), /at character \d/);
    assert.match(messageOf(await query('$nope()', orders)), /non-function/);
    assert.match(messageOf(await query('x'.repeat(4001), orders)), /4000 characters/);
  });

  const large = [
    '$length($pad("x",300000000))',
    '$split($pad("x",100000000),"")',
    '$formatNumber(1,$pad("0",100000000))',
    '$map([1..150000], function($x) { {"a": $x} })',
  ];
  it('takes no more memory and time than it may, whatever it is asked for, and goes on', async () => {
    const before = cpuMs();
    for (const text of large) {
      assert.match(briefly(await query(text, {})), /^error (query-failed|too-slow)$/, text);
      assert.deepEqual(outputOf(await query('$sum(orders.total)', orders)), { result: 22 });
    }
    const spent = cpuMs() - before;
    assert.ok(spent < 1000, `${spent} ms of this process`);
  });

  const endless = [
    '($f := function($x) { $f($x) }; $f(1))',
    '($f := function($x) { $f($x) + 1 }; $f(1))',
    '[1..100000].([1..100000])',
    '[1..9999999]',
    `$match("${'a'.repeat(50)}!", /^(a+)+$/)`,
  ];
  for (const text of endless) {
    it(`stops ${text.slice(0, 40)}`, async () => {
      const before = Date.now();
      assert.equal((await query(text, {})).kind, 'error');
      assert.ok(Date.now() - before < 30_000);
    });
  }

  it('reaches nothing outside of its data', async () => {
    assert.deepEqual(outputOf(await query('constructor', {})), { result: null });
    assert.deepEqual(outputOf(await query('a.constructor.constructor("return 1")()', { a: {} })), { result: null });
    assert.match(messageOf(await query('($c := a.constructor; $c("return 1"))', { a: {} })), /non-function/);
    await query('$ ~> |$|{"__proto__": {"polluted": 1}}|', {});
    assert.equal('polluted' in {}, false);
  });
});

describe('http_get', () => {
  it('gives status, type and body, whatever the status', async () => {
    const server = await startServer((request, response) => {
      response
        .writeHead(404, { 'content-type': 'text/html; charset=utf-8' })
        .end(`no ${String(request.headers['x-a'])}`);
    });
    const outcome = await run('http_get', { url: server.url, headers: { 'x-a': 'b' } });
    assert.deepEqual(outputOf(outcome), { status: 404, content_type: 'text/html', body: 'no b' });
    await server.close();
  });

  it('names the encoding of a body that it cannot read', async () => {
    const server = await startServer((_request, response) => {
      response.writeHead(404, { 'content-type': 'text/html', 'content-encoding': 'zstd' }).end(Buffer.from([0xb5, 0]));
    });
    const outcome = await run('http_get', { url: server.url });
    assert.equal(briefly(outcome), 'error egress-unknown-encoding');
    assert.match(messageOf(outcome), /"zstd"/);
    await server.close();
  });

  it('sends no header by which a model would speak for a call of Drover', async () => {
    const server = await startServer((_request, response) => response.end());
    for (const name of ['Idempotency-Key', 'x-drover-run-id', 'X-Drover-Tool-Call-Id', 'Traceparent']) {
      const outcome = await run('http_get', { url: server.url, headers: { [name]: 'forged' } });
      assert.equal(briefly(outcome), 'error egress-bad-request', name);
      assert.match(messageOf(outcome), /the header .* cannot be set/);
    }
    assert.equal(server.seen.length, 0);
    await server.close();
  });

  it('says that a body is too large or no text', async () => {
    const server = await startServer((request, response) => {
      const png = request.path === '/png';
      response
        .writeHead(200, { 'content-type': png ? 'image/png' : 'text/plain' })
        .end(png ? Buffer.from([0, 255]) : 'xxx');
    });
    assert.equal(briefly(await run('http_get', { url: server.url, max_bytes: 2 })), 'error egress-too-large');
    assert.match(messageOf(await run('http_get', { url: `${server.url}/png` })), /image\/png, not text/);
    await server.close();
  });

  it('reads a body in its charset, and says so where it is no text in that', async () => {
    const server = await startServer(({ path }, response) => {
      const type = path === '/named' ? 'text/html; charset=iso-8859-1' : 'text/html';
      response.writeHead(200, { 'content-type': type }).end(Buffer.from('caf\xe9', 'latin1'));
    });
    const named = await run('http_get', { url: `${server.url}/named` });
    assert.deepEqual(outputOf(named), { status: 200, content_type: 'text/html', body: 'café' });
    const why = 'The URL holds text/html, whose bytes are no text in its charset (UTF-8 unless it names one).';
    assert.equal(messageOf(await run('http_get', { url: server.url })), why);
    await server.close();
  });

  it('does not reach what the egress guard refuses', async () => {
    assert.equal(briefly(await run('http_get', { url: 'http://169.254.169.254/' })), 'error egress-refused');
  });
});
