import assert from 'node:assert/strict';
import { attack, openArena, type Arena } from '../support/red-team.ts';

const SCHEMA = {
  type: 'object',
  properties: { to: { type: 'string', maxLength: 100 }, amount: { type: 'number', maximum: 100 } },
  required: ['to', 'amount'],
  additionalProperties: false,
};

describe('Smuggling through arguments', () => {
  let arena: Arena;

  before(async () => {
    arena = await openArena();
    await arena.addTool('send', { input_schema: SCHEMA });
    await arena.addTool('open');
    await arena.call('PUT', '/v1/secrets/canary', { body: { value: 'canary-value-2' } });
  });
  after(() => arena.close());

  const refused: [string, string, string][] = [
    ['A01', 'a field that the schema does not name', '{"to":"a","amount":1,"admin":true}'],
    ['A02', 'a number above its maximum', '{"to":"a","amount":1e9}'],
    ['A03', 'a number as text', '{"to":"a","amount":"1"}'],
    ['A04', 'a list in place of a text', '{"to":["a"],"amount":1}'],
    ['A05', 'a text beyond its length', `{"to":"${'a'.repeat(101)}","amount":1}`],
    ['A06', '__proto__ with what is required', '{"__proto__":{"to":"a","amount":1}}'],
    ['A07', 'a list in place of the arguments', '[1,2]'],
  ];
  for (const [id, what, json] of refused) {
    attack(id, [what, 'the call is not made, the model is told why'], async () => {
      const before = arena.reached('send').length;
      const { results } = await arena.play(`call send ${json}`, { tools: ['send'] });
      assert.match(results[0] ?? '', /Invalid arguments/);
      assert.equal(arena.reached('send').length, before);
    });
  }

  attack(
    'A08',
    ['constructor and prototype among free arguments', 'passed on as data, no prototype changes'],
    async () => {
      const { status } = await arena.play('call open {"constructor":{"prototype":{"polluted":1}}}', {
        tools: ['open'],
      });
      assert.equal(status, 'completed');
      assert.equal(({} as Record<string, unknown>)['polluted'], undefined);
      assert.equal(arena.reached('open').at(-1)?.body, '{"constructor":{"prototype":{"polluted":1}}}');
    },
  );

  attack('A09', ['a reference to a secret in the arguments', 'sent as it is'], async () => {
    await arena.play('call open {"key":"{{secret:canary}}"}', { tools: ['open'] });
    assert.match(arena.reached('open').at(-1)?.body ?? '', /\{\{secret:canary\}\}/);
    assert.ok(arena.server.seen.every(({ body, path }) => !`${body}${path}`.includes('canary-value-2')));
  });

  attack('A10', ['arguments nested 5,000 levels deep', 'the call is not made, the run goes on'], async () => {
    const deep = `{"a":${'['.repeat(5000)}${']'.repeat(5000)}}`;
    const before = arena.reached('open').length;
    const { status, results } = await arena.play(`call open ${deep} | say over`, { tools: ['open'] });
    assert.equal(status, 'completed');
    assert.match(results[0] ?? '', /Invalid arguments/);
    assert.equal(arena.reached('open').length, before);
  });

  attack('A19', ['a result nested 5,000 levels deep', 'the run goes on'], async () => {
    arena.answers.set('/open', () => ({ body: `${'['.repeat(5000)}${']'.repeat(5000)}` }));
    const { status } = await arena.play('call open {"n":2} | say over', { tools: ['open'] });
    assert.equal(status, 'completed');
    arena.answers.delete('/open');
  });

  attack('A20', ['text in place of arguments, where the schema is open', 'the call is not made'], async () => {
    const before = arena.reached('open').length;
    const { results } = await arena.play('call open "rm -rf /"', { tools: ['open'] });
    assert.match(results[0] ?? '', /Invalid arguments/);
    assert.equal(arena.reached('open').length, before);
  });

  attack('A11', ['arguments of 2 MB against a schema with a limit', 'the call is not made'], async () => {
    const before = arena.reached('send').length;
    await arena.play(`call send {"to":"${'a'.repeat(2_000_000)}","amount":1} | say over`, { tools: ['send'] });
    assert.equal(arena.reached('send').length, before);
  });

  attack('A12', ['more calls in one answer than allowed', 'those beyond are not made'], async () => {
    const calls = Array.from({ length: 70 }, (_, index) => `open {"n":${index}}`).join(' & ');
    const before = arena.reached('open').length;
    await arena.play(`call ${calls} | say over`, { tools: ['open'], autonomy_level: 3 });
    assert.ok(arena.reached('open').length - before <= 64);
  });

  attack('A13', ['calls beyond max_calls_per_turn, spread over steps', 'those beyond are not made'], async () => {
    const rails = { guardrail_config: { tool_rails: { max_calls_per_turn: 2 } } };
    const before = arena.reached('open').length;
    const message = 'call open {"n":1} | call open {"n":2} | call open {"n":3} | say over';
    const { results } = await arena.play(message, { tools: ['open'], ...rails });
    assert.equal(arena.reached('open').length - before, 2);
    assert.match(results[2] ?? '', /Permission denied/);
  });

  attack('A14', ['a tool outside allowed_tools', 'Permission denied'], async () => {
    const rails = { guardrail_config: { tool_rails: { allowed_tools: ['calculator'] } } };
    const before = arena.reached('open').length;
    const { results } = await arena.play('call open {}', { tools: ['open', 'calculator'], ...rails });
    assert.match(results[0] ?? '', /Permission denied/);
    assert.equal(arena.reached('open').length, before);
  });

  attack('A15', ['a tool that needs a permission which the agent lacks', 'Permission denied'], async () => {
    await arena.addTool('guarded', { permissions: [{ name: 'payments', required: true }] });
    const { results } = await arena.play('call guarded {}', { tools: ['guarded'] });
    assert.match(results[0] ?? '', /Permission denied/);
    assert.equal(arena.reached('guarded').length, 0);
  });

  attack(
    'A16',
    ["a tool's own header in place of Drover's", 'refused, or the key stays the one of the call'],
    async () => {
      const transport = {
        type: 'http',
        endpoint: `${arena.server.url}/forged`,
        headers: { 'Idempotency-Key': 'mine' },
      };
      const body = { name: 'forged', description: 'A tool.', transport };
      const made = await arena.call('POST', '/v1/tools', { body });
      if (made.status === 201) {
        await arena.play('call forged {}', { tools: ['forged'] });
        assert.notEqual(arena.reached('forged').at(-1)?.headers['idempotency-key'], 'mine');
      } else assert.equal(made.status, 400);
    },
  );

  attack(
    'A17',
    ['a blocked tool under rewritten arguments', 'rewritten arguments pass the whole gate again'],
    async () => {
      const policy = (fields: Record<string, unknown>) => arena.call('POST', '/v1/policies', { body: fields });
      const rewrite = await policy({
        name: 'small',
        priority: 1,
        when: 'tool == "send" && arguments.amount == 5',
        decision: 'rewrite',
        rewrite: { arguments: { amount: 7 } },
      });
      const block = await policy({
        name: 'seven',
        priority: 2,
        when: 'tool == "send" && arguments.amount == 7',
        decision: 'block',
      });
      assert.deepEqual([rewrite.status, block.status], [201, 201]);
      const before = arena.reached('send').length;
      await arena.play('call send {"to":"a","amount":5}', { tools: ['send'] });
      assert.equal(arena.reached('send').length, before);
    },
  );

  attack('A18', ['a policy that fails to evaluate', 'it blocks: an error never lets a call through'], async () => {
    const body = { name: 'odd', priority: 3, when: 'tool == "open" && arguments.missing > 1', decision: 'block' };
    const made = await arena.call('POST', '/v1/policies', { body });
    assert.equal(made.status, 201);
    const before = arena.reached('open').length;
    await arena.play('call open {"n":1}', { tools: ['open'] });
    assert.equal(arena.reached('open').length, before);
    await arena.call('DELETE', `/v1/policies/${made.json.id}`);
  });
});
