import assert from 'node:assert/strict';
import fc from 'fast-check';
import { createArgumentValidator } from '../../tools/validate-arguments.ts';
import { cpuMs } from '../support/cpu-time.ts';
import { waitUntil } from '../support/wait-until.ts';

const validator = createArgumentValidator();
const { checkSchema, validateArguments } = validator;

const object = (properties: Record<string, unknown>, more: Record<string, unknown> = {}) => ({
  type: 'object',
  properties,
  ...more,
});

const messages = (schema: Record<string, unknown>, args: unknown) =>
  validateArguments(schema, args).map((fault) => fault.message);

describe('validateArguments', () => {
  it('names a long property by its beginning, which ends between two characters', () => {
    for (const before of ['', 'a']) {
      const [message = ''] = messages(object({}, { additionalProperties: false }), { [before + '😀'.repeat(300)]: 1 });
      assert.ok(message.includes('😀') && message.isWellFormed(), message);
    }
  });

  it('says nothing about arguments that fit', () => {
    assert.deepEqual(validateArguments(object({ region: { type: 'string' } }), { region: 'EU' }), []);
  });

  it('names the place and what was expected, for every fault at once', () => {
    const schema = object(
      { region: { type: 'string' }, days: { type: 'array', items: { enum: ['mon', 'tue'] } } },
      { required: ['region', 'limit'], additionalProperties: false },
    );
    const faults = validateArguments(schema, { region: 5, days: ['mon', 'x'], extra: 1 });
    assert.deepEqual(
      new Set(faults.map((fault) => fault.message)),
      new Set([
        '/region: must be string',
        '/days/1: must be one of ["mon","tue"]',
        "/: must have required property 'limit'",
        '/: must not have the property "extra"',
      ]),
    );
    assert.ok(faults.some((fault) => fault.path === 'days.1'));
  });

  it('coerces nothing, fills nothing in and removes nothing', () => {
    const schema = object({ n: { type: 'number', default: 3 }, m: { default: 1 } });
    assert.deepEqual(messages(schema, { n: '5' }), ['/n: must be number']);
    const args = { n: 5, more: true };
    assert.deepEqual(validateArguments(schema, args), []);
    assert.deepEqual(args, { n: 5, more: true });
  });

  it('checks formats', () => {
    assert.deepEqual(messages(object({ at: { type: 'string', format: 'date' } }), { at: '2026-02-31' }), [
      '/at: must match format "date"',
    ]);
  });

  it('speaks draft 2020-12 and draft-07, also where the schema does not say which', () => {
    const tuple2020 = object({ pair: { prefixItems: [{ type: 'string' }], items: false } });
    const tuple07 = object({ pair: { items: [{ type: 'string' }], additionalItems: false } });
    const declared = { ...tuple07, $schema: 'http://json-schema.org/draft-07/schema#' };
    const modern = { ...tuple2020, $schema: 'https://json-schema.org/draft/2020-12/schema' };
    for (const schema of [tuple2020, tuple07, declared, modern]) {
      assert.deepEqual(checkSchema(schema), []);
      assert.deepEqual(validateArguments(schema, { pair: ['a'] }), []);
      assert.equal(validateArguments(schema, { pair: [1] }).length, 1, JSON.stringify(schema));
      assert.equal(validateArguments(schema, { pair: ['a', 'b'] }).length, 1, JSON.stringify(schema));
    }
  });

  it('does not take what every object inherits for a given argument', () => {
    assert.deepEqual(messages(object({}, { required: ['constructor'] }), {}), [
      "/: must have required property 'constructor'",
    ]);
  });

  it('refuses __proto__ at any depth, in arguments and in schemas', () => {
    const poisoned: unknown = JSON.parse('{"a": [{"__proto__": {"admin": true}}]}');
    assert.match(messages({ type: 'object' }, poisoned).join(), /__proto__/);
    assert.match(
      JSON.stringify(checkSchema(JSON.parse('{"type":"object","properties":{"__proto__":{}}}'))),
      /__proto__/,
    );
  });

  it('holds each value against its own pattern, however many a schema has', () => {
    const schema = object({
      code: { type: 'string', pattern: '^[A-Z]{3}$' },
      day: { type: 'string', pattern: String.raw`^\d{4}-\d{2}$` },
      behind: { type: 'string', pattern: '(?<=a)b' },
      before: { type: 'string', pattern: 'b(?=c)' },
    });
    const fitting = { code: 'ABC', day: '2026-11', behind: 'ab', before: 'bc' };
    assert.deepEqual(messages(schema, fitting), []);
    for (const [name, value] of Object.entries({ code: '2026-11', day: 'ABC', behind: 'bc', before: 'ab' })) {
      const [first = '', ...others] = messages(schema, { ...fitting, [name]: value });
      assert.ok(first.startsWith(`/${name}: must match pattern`), first);
      assert.deepEqual(others, []);
    }
  });

  it('tells the patterns of property names apart', () => {
    const patternProperties = { '^n_': { type: 'number' }, '^s_': { type: 'string' } };
    const schema = { type: 'object', patternProperties, additionalProperties: false };
    assert.deepEqual(messages(schema, { n_a: 1, s_a: 'x' }), []);
    assert.deepEqual(messages(schema, { n_a: 'x', s_a: 1 }), ['/n_a: must be number', '/s_a: must be string']);
    assert.deepEqual(messages(schema, { other: 1 }), ['/: must not have the property "other"']);
  });

  it('stops a pattern that backtracks without end', () => {
    const name = `${'a'.repeat(50)}!`;
    assert.match(messages(object({ name: { pattern: '^(a+)+$' } }), { name }).join(), /must match pattern/);
    // Looking ahead takes the engine that backtracks.
    const schema = object({ name: { type: 'string', pattern: '^(?=(a+)+$)a' } });
    const before = Date.now();
    assert.match(messages(schema, { name }).join(), /too long to check/);
    assert.ok(Date.now() - before < 30_000);
    assert.deepEqual(validateArguments(schema, { name: 'aaa' }), [], 'the validator still works');
  });

  it('takes no longer for all calls of an answer than for a few that backtrack without end, and says which were not checked', () => {
    const schema = object({ name: { type: 'string', pattern: '^(?=(a+)+$)a' } });
    const { validateArguments: validate } = validator.together();
    const before = cpuMs();
    const found = Array.from({ length: 64 }, () => validate(schema, { name: `${'a'.repeat(50)}!` })[0]?.message);
    const spent = cpuMs() - before;
    assert.ok(spent < 6000, `${spent} ms`);
    assert.match(found[0] ?? '', /too long to check/);
    assert.match(found.at(-1) ?? '', /was not checked/);
    assert.deepEqual(validator.together().validateArguments(schema, { name: 'aaa' }), []);
    const { validateAnswer } = validator.together(1);
    validateAnswer(schema, { name: `${'a'.repeat(50)}!` });
    assert.match(
      validateAnswer(object({}), {})[0]?.message ?? '',
      /was not checked/,
      'nor for all schemas of an answer',
    );
  });

  it('takes all calls of an answer, however long the process stands still meanwhile, as on a busy machine', () => {
    const standing = new Int32Array(new SharedArrayBuffer(4));
    let stillMs = 2500;
    const standsStill = () => {
      if (stillMs > 0) Atomics.wait(standing, 0, 0, stillMs);
      stillMs = 0;
      return 'sent';
    };
    const schema = object({ text: { type: 'string' } });
    const { validateArguments: validate } = validator.together();
    assert.deepEqual(validate(schema, Object.defineProperty({}, 'text', { enumerable: true, get: standsStill })), []);
    assert.deepEqual(validate(schema, { text: 'sent, too' }), []);
    // A check that has a time limit of its own is made again.
    stillMs = 1500;
    const slow = object({ text: { type: 'string', pattern: '^(?=s)s' } });
    assert.deepEqual(validate(slow, Object.defineProperty({}, 'text', { enumerable: true, get: standsStill })), []);
  });

  it('compiles a schema while whose compilation the process stands still, and does not remember it as too slow', () => {
    const standing = new Int32Array(new SharedArrayBuffer(4));
    const brief = createArgumentValidator({ compileMs: 1000 });
    // What the meta-schemas take is no matter of this one.
    assert.deepEqual(brief.checkSchema(object({})), []);
    let reads = 0;
    const text = Object.defineProperty({}, 'type', {
      enumerable: true,
      get: () => {
        // The first reads look at its size; the others compile it.
        reads += 1;
        if (reads === 5) Atomics.wait(standing, 0, 0, 3000);
        return 'string';
      },
    });
    assert.deepEqual(brief.validateArguments(object({ text }), { text: 'a' }), []);
  });

  it('stops comparing items with each other where there are too many, however alike they are', () => {
    const items = Array.from({ length: 16_000 }, (_, n) => ({
      n,
      ...Object.fromEntries('abcdefgh'.split('').map((key) => [key, key])),
    }));
    const schema = object({ items: { type: 'array', uniqueItems: true } });
    assert.match(messages(schema, { items }).join(), /too long to check/);
    assert.deepEqual(validateArguments(schema, { items: items.slice(0, 3) }), []);
  });

  it('stops a check of long arguments by a long schema, whatever it compares', () => {
    const a = Array.from({ length: 100_000 }, () => 1);
    const many = <T>(length: number, item: T) => Array.from({ length }, () => item);
    // However busy the machine is, they are compiled.
    const patient = createArgumentValidator({ compileMs: 60_000 });
    const faultsIn = (schema: Record<string, unknown>, args: unknown) =>
      patient.validateArguments(schema, args).map((fault) => fault.message);
    for (const items of [
      { enum: many(20_000, 0) },
      { allOf: many(4000, { minimum: 2 }) },
      { not: { anyOf: many(4000, { maximum: 0 }) } },
    ]) {
      assert.match(faultsIn(object({ a: { type: 'array', items } }), { a }).join(), /too long to check/);
    }
    const few = a.slice(0, 10_000);
    assert.deepEqual(faultsIn(object({ a: { items: { enum: many(20_000, 1) } } }), { a: few }), []);
  });

  it('stops references that multiply, whichever keyword makes them', () => {
    const nested = Array.from({ length: 40 }).reduce<unknown>((inner) => ({ n: inner }), 1);
    const twice = (ref: Record<string, unknown>) => ({
      allOf: [{ properties: { n: ref } }, { properties: { n: ref } }],
    });
    for (const schema of [
      { type: 'object', ...twice({ $ref: '#' }) },
      { type: 'object', $dynamicAnchor: 'n', ...twice({ $dynamicRef: '#n' }) },
    ]) {
      assert.deepEqual(checkSchema(schema), []);
      assert.match(messages(schema, nested).join(), /too long to check/);
    }
  });

  it('answers a schema that refers to itself for ever, instead of throwing', () => {
    assert.equal(validateArguments({ type: 'object', allOf: [{ $ref: '#' }] }, {}).length, 1);
  });

  it('keeps two schemas with the same $id apart', () => {
    const named = (type: string) => object({ v: { type } }, { $id: 'https://example.com/schema' });
    assert.deepEqual(messages(named('string'), { v: 1 }), ['/v: must be string']);
    assert.deepEqual(messages(named('number'), { v: 'a' }), ['/v: must be number']);
    const thief = object({ v: { $ref: 'https://example.com/schema' } });
    assert.match(JSON.stringify(checkSchema(thief)), /can't resolve reference/);
  });

  it('still gives the right answers when more schemas are in use than are cached', () => {
    for (let n = 0; n < 600; n += 1) {
      assert.deepEqual(validateArguments(object({ [`p${n % 520}`]: { type: 'null' } }), { [`p${n % 520}`]: null }), []);
    }
    assert.equal(validateArguments(object({ p0: { type: 'null' } }), { p0: 1 }).length, 1);
  }).timeout(60_000);

  it('never throws and never changes its input, whatever the schema and the arguments', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.jsonValue(), (schema, args) => {
        const before = JSON.stringify(args);
        assert.ok(Array.isArray(validateArguments(schema, args)));
        assert.equal(JSON.stringify(args), before);
      }),
      { numRuns: 60 },
    );
  });
});

describe('checkSchema', () => {
  const faults = (schema: unknown) => JSON.stringify(checkSchema(schema));

  it('takes object schemas only', () => {
    for (const schema of [null, [], 'object', true]) assert.match(faults(schema), /must be a JSON Schema object/);
    assert.match(faults({ type: 'string' }), /must be \\"object\\"/);
    assert.match(faults({ properties: {} }), /must be \\"object\\"/);
  });

  it('says why a schema cannot be used', () => {
    assert.match(faults({ type: 'object', properties: { a: { type: 'text' } } }), /not valid 2020-12/);
    assert.match(faults(object({ a: { pattern: '(' } })), /pattern|regular expression/i);
    assert.match(faults({ type: 'object', $schema: 'http://json-schema.org/draft-04/schema#' }), /draft 2020-12 or/);
  });

  it('loads nothing from elsewhere', () => {
    assert.match(faults(object({ a: { $ref: 'https://example.com/other.json' } })), /can't resolve reference/);
  });

  it('takes a schema of 500 properties, and refuses one that takes far longer to compile before it begins', () => {
    const property = {
      type: 'object',
      description: 'One of many.',
      properties: { a: { type: ['string', 'null'] }, b: { enum: ['x', 'y'] } },
    };
    const properties = (length: number, each: unknown) =>
      object(Object.fromEntries(Array.from({ length }, (_, n) => [`p${n}`, each])));
    const before = cpuMs();
    assert.deepEqual(checkSchema(properties(500, property)), []);
    const compiled = cpuMs() - before;
    const started = cpuMs();
    for (const schema of [
      properties(8000, { type: 'string' }),
      object({ a: { allOf: Array.from({ length: 3000 }, (_, n) => ({ pattern: `${n}` })) } }),
      object({ a: { patternProperties: Object.fromEntries(Array.from({ length: 3000 }, (_, n) => [`${n}`, {}])) } }),
      object({ a: { allOf: Array.from({ length: 3000 }, (_, n) => ({ $ref: `#/$defs/d${n}` })) } }),
      object({ a: { $ref: '#/properties/b/enum/0' }, b: { enum: [properties(16_000, true)] } }),
    ]) {
      assert.match(faults(schema), /at most 15000 values/);
    }
    const refused = (cpuMs() - started) / 5;
    assert.ok(refused < compiled, `${refused} ms, ${compiled} ms to compile`);
    assert.deepEqual(checkSchema(object({ a: { enum: Array.from({ length: 20_000 }, (_, n) => n) } })), []);
  });

  it('refuses a schema whose names are held against each other in compiling before it begins, and takes small ones', () => {
    const names = (length: number) => Array.from({ length }, (_, n) => `p${n}`);
    const each = (length: number, value: unknown) => Object.fromEntries(names(length).map((name) => [name, value]));
    const apart = (length: number) => names(length).map((name) => ({ properties: { [name]: true } }));
    const kinds = (most: number): Record<string, unknown>[] => [
      { properties: each(most, true), unevaluatedProperties: false },
      { allOf: apart(most), unevaluatedProperties: false },
      { dependentRequired: { x: names(2 * most) } },
      { $schema: 'http://json-schema.org/draft-07/schema#', dependencies: { x: names(2 * most) } },
    ];
    const started = cpuMs();
    for (const kind of kinds(1250)) assert.match(faults({ type: 'object', ...kind }), /at most 15000 values/);
    const refused = cpuMs() - started;
    assert.ok(refused < 400, `${refused} ms`);
    for (const kind of kinds(500)) assert.deepEqual(checkSchema({ type: 'object', ...kind }), []);
  });

  it('does not compile a schema again that has just taken too long, by neither draft', async () => {
    const slow = createArgumentValidator({ compileMs: 1 });
    const given = (more: Record<string, unknown>) => {
      const found = { reads: 0 };
      const properties = Object.fromEntries(Array.from({ length: 1000 }, (_, n) => [`p${n}`, { type: 'string' }]));
      const read = () => {
        found.reads += 1;
        return properties;
      };
      const schema = Object.defineProperty({ type: 'object', ...more }, 'properties', { enumerable: true, get: read });
      return { found, check: () => slow.validateArguments(schema, {})[0]?.message ?? '' };
    };
    const declared = given({ $schema: 'https://json-schema.org/draft/2020-12/schema' });
    const silent = given({});
    for (const { check } of [declared, silent]) assert.match(check(), /takes too long to compile/);
    assert.equal(silent.found.reads, declared.found.reads, 'one draft alone is tried');
    const { reads } = silent.found;
    assert.match(silent.check(), /takes too long to compile/);
    assert.equal(silent.found.reads, reads, 'it is remembered');
    const now = performance.now.bind(performance);
    try {
      performance.now = () => now() + 61_000;
      await waitUntil('it is tried again after a minute', () => silent.check() !== '' && silent.found.reads > reads);
    } finally {
      performance.now = now;
    }
  });

  it('limits size, depth and the length of patterns', () => {
    const deep = Array.from({ length: 80 }).reduce<unknown>((inner) => ({ not: inner }), {});
    assert.match(faults({ type: 'object', not: deep }), /nested deeper than 64/);
    assert.match(faults({ type: 'object', description: 'x'.repeat(300_000) }), /at most 262144 bytes/);
    assert.match(faults(object({ a: { pattern: 'a'.repeat(501) } })), /"properties.a.pattern".*at most 500/);
    assert.match(faults({ type: 'object', patternProperties: { ['a'.repeat(501)]: {} } }), /at most 500/);
  });
});
