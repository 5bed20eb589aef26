import assert from 'node:assert/strict';
import fc from 'fast-check';
import { z } from 'zod';
import { agentRequest } from '../../api/agents/schemas.ts';
import { toolRequest } from '../../api/tools/schemas.ts';
import { continueTrace } from '../../api/kit/observe.ts';
import { integerParam, listParam, pageOf, pageQuery } from '../../api/kit/paging.ts';
import { checkPart } from '../../api/kit/validate.ts';
import { DroverError } from '../../core/errors.ts';
import { compareVersions, nextMinor } from '../../core/semver.ts';

describe('paging', () => {
  it('shows every row once and in order, whatever the limit', () => {
    const rows = fc.uniqueArray(fc.uuid({ version: 7 }), { maxLength: 40 });
    fc.assert(
      fc.property(rows, fc.integer({ min: 1, max: 45 }), (ids, limit) => {
        const all = ids.toSorted().toReversed();
        const seen: string[] = [];
        let cursor: string | undefined;
        do {
          const query = pageQuery().parse(cursor === undefined ? {} : { cursor });
          const before = query.cursor;
          const found = all.filter((id) => before === undefined || id < before).slice(0, limit + 1);
          const page = pageOf(found, limit, (id) => id);
          seen.push(...page.items);
          cursor = page.next_cursor;
        } while (cursor !== undefined);
        assert.deepEqual(seen, all);
      }),
    );
  });

  it('takes no cursor that is none of its own', () => {
    const numbers = pageQuery(z.int());
    const cursor = pageOf([5, 4], 1, (row) => row).next_cursor;
    assert.equal(numbers.parse({ cursor }).cursor, 5);
    assert.equal(pageQuery().safeParse({ cursor }).success, false);
    fc.assert(fc.property(fc.string(), (text) => !pageQuery().safeParse({ cursor: text }).success));
  });
});

describe('query values', () => {
  it('become whole numbers within their limits, or are refused', () => {
    const param = integerParam({ min: 1, max: 20 });
    assert.equal(param.parse('7'), 7);
    for (const wrong of ['0', '21', '-1', '1.5', '', ' 1', '0x1', '1e1', 'NaN']) {
      assert.equal(param.safeParse(wrong).success, false, wrong);
    }
  });

  it('become lists, repeated or with commas', () => {
    const param = listParam(z.string().min(1));
    assert.deepEqual(param.parse('a, b'), ['a', 'b']);
    assert.deepEqual(param.parse(['a', 'b,c']), ['a', 'b', 'c']);
    assert.equal(param.safeParse('a,').success, false);
  });
});

describe('a fault in a request', () => {
  const faults = (schema: z.ZodType, value: unknown): string[] => {
    try {
      checkPart(schema, value, 'body');
      return [];
    } catch (error) {
      assert.ok(error instanceof DroverError);
      return (error.errors ?? []).map(({ path, message }) => `${path}: ${message}`);
    }
  };

  it('is told for the alternative that was meant', () => {
    const schema = z.strictObject({ a: z.union([z.string().max(3), z.strictObject({ b: z.int() })]) });
    assert.deepEqual(faults(schema, { a: { b: 1.5 } }), ['body.a.b: expected int, received number']);
    assert.deepEqual(faults(schema, { a: 'long' }), ['body.a: too big: expected string to have <=3 characters']);
    assert.deepEqual(faults(schema, { a: 1 }), ['body.a: expected string or object']);
  });

  it('is told once for each unknown field, and for at most fifty', () => {
    const many = Object.fromEntries(Array.from({ length: 80 }, (_, index) => [`f${index}`, 1]));
    const told = faults(z.strictObject({}), many);
    assert.deepEqual([told.length, told[0]], [50, 'body.f0: is not a known field']);
  });
});

describe('a field that is not known', () => {
  const unknownIn = (schema: z.ZodType, value: unknown) => {
    try {
      checkPart(schema, value, 'body');
      return [];
    } catch (error) {
      assert.ok(error instanceof DroverError);
      const told = (error.errors ?? []).map(({ path, message }) => `${path} ${message}`).join('\n');
      return /^body\.(\S+) is not a known field(?:; did you mean (\S+)\?)?$/m.exec(told)?.slice(1);
    }
  };
  const inAgent = (fields: Record<string, unknown>) => unknownIn(agentRequest, { name: 'a', ...fields });

  it('is told with the nearest one of its object, also one further down', () => {
    const meant: [Record<string, unknown>, string, string][] = [
      [{ model: 'x' }, 'model', 'llm_config.default_model'],
      [{ nmae: 'x' }, 'nmae', 'name'],
      [{ toolz: [] }, 'toolz', 'tools'],
      [{ prompt: 'x' }, 'prompt', 'system_prompt'],
      [{ instructions: 'x' }, 'instructions', 'system_prompt.instructions'],
      [{ temprature: 1 }, 'temprature', 'llm_config.temperature'],
      [{ max_turns: 1 }, 'max_turns', 'execution_config.max_turns'],
      [{ timeout: 1 }, 'timeout', 'execution_config.timeout_seconds'],
      [{ llm_config: { model: 'x' } }, 'llm_config.model', 'default_model'],
      [{ capabilities: [{ skill_name: 'a' }, { name: 'law' }] }, 'capabilities.1.name', 'skill_name'],
      [{ system_prompt: { Role: 'x' } }, 'system_prompt.Role', 'role'],
    ];
    for (const [fields, path, field] of meant) assert.deepEqual(inAgent(fields), [path, field]);
  });

  it('is told with the field that decides what other systems have a field of that name for', () => {
    const inTool = (name: string) =>
      unknownIn(toolRequest, { name: 'a', description: 'A.', transport: { type: 'client' }, [name]: true });
    for (const name of ['requires_approval', 'needs_approval', 'require_approval', 'approval_required'])
      assert.deepEqual(inTool(name), [name, 'risk_level']);
    assert.deepEqual(inAgent({ requires_approval: true }), ['requires_approval', undefined]);
  });

  it('is told alone where none is near, or it is known of another kind of object', () => {
    for (const far of ['zebra', 'x', 'model'.repeat(100)]) assert.deepEqual(inAgent({ [far]: 1 }), [far, undefined]);
    const kinds = z.discriminatedUnion('type', [
      z.strictObject({ type: z.literal('a'), only_a: z.int().optional() }),
      z.strictObject({ type: z.literal('b'), only_b: z.int().optional() }),
    ]);
    assert.deepEqual(unknownIn(z.strictObject({ kinds }), { kinds: { type: 'a', zebra: 1 } }), [
      'kinds.zebra',
      undefined,
    ]);
  });
});

describe('a trace', () => {
  const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
  const span = '00f067aa0ba902b7';

  it('is continued with a span of our own', () => {
    const [version, id, own, flags] = continueTrace(`00-${trace}-${span}-00`).split('-');
    assert.deepEqual([version, id, flags], ['00', trace, '00']);
    assert.notEqual(own, span);
    assert.equal(continueTrace(`cc-${trace}-${span}-01-what-comes-later`).split('-')[1], trace);
  });

  it('begins anew where what came is malformed', () => {
    const zeros = (length: number) => '0'.repeat(length);
    for (const wrong of [
      '',
      `00-${trace}-${span}`,
      `00-${trace.toUpperCase()}-${span}-01`,
      `ff-${trace}-${span}-01`,
      `00-${trace}-${span}-01-more`,
      `00-${zeros(32)}-${span}-01`,
      `00-${trace}-${zeros(16)}-01`,
    ]) {
      const made = continueTrace(wrong);
      assert.match(made, /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
      assert.notEqual(made.split('-')[1], trace, wrong);
    }
  });
});

describe('versions', () => {
  const version = fc.tuple(fc.nat(999), fc.nat(999), fc.nat(999)).map((parts) => parts.join('.'));

  it('are ordered by their numbers, not as text', () => {
    assert.ok(compareVersions('1.10.0', '1.9.0') > 0);
    fc.assert(
      fc.property(version, version, (a, b) => Math.sign(compareVersions(a, b)) === -Math.sign(compareVersions(b, a))),
    );
    fc.assert(fc.property(version, (a) => compareVersions(a, a) === 0));
  });

  it('have a next one that is above them', () => {
    fc.assert(fc.property(version, (a) => compareVersions(nextMinor(a), a) > 0));
  });
});
