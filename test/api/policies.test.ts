import assert from 'node:assert/strict';
import { startTestApi } from '../support/api.ts';
import type { TestApi } from '../support/api.ts';
import { useUpToday } from '../support/queries/budgets.ts';
import { newName } from '../support/new-name.ts';

const RULE = { name: 'limit', priority: 10, when: 'tool == "calculator"', decision: 'block', reason: 'no sums' };

describe('/v1/policies', () => {
  let api: TestApi;
  let tenant: string;
  let key: string;

  before(async () => {
    api = await startTestApi();
  });
  beforeEach(async () => {
    ({ id: tenant, key } = await api.newTenant());
  });
  after(() => api.close());

  const call = (method: string, path: string, body?: unknown) =>
    api.call(method, path, { key, ...(body === undefined ? {} : { body }) });
  const evaluate = async (body: Record<string, unknown>) => (await call('POST', '/v1/policies/evaluate', body)).json;

  it('makes, shows, lists, changes and removes a policy; versions stay as they were', async () => {
    const made = await call('POST', '/v1/policies', RULE);
    assert.equal(made.status, 201);
    const { id } = made.json;
    assert.deepEqual(
      { ...made.json, created_at: '', updated_at: '' },
      {
        ...RULE,
        id,
        policy_id: id,
        version: 1,
        created_at: '',
        updated_at: '',
      },
    );
    assert.deepEqual((await call('GET', `/v1/policies/${id}`)).json, made.json);

    const changed = await call('PATCH', `/v1/policies/${id}`, { priority: 5 });
    assert.deepEqual([changed.status, changed.json.version, changed.json.priority], [200, 2, 5]);
    assert.equal((await call('PATCH', `/v1/policies/${id}`, { priority: 5 })).json.version, 2);
    const { json } = await call('GET', `/v1/policies/${id}/versions`);
    assert.deepEqual(
      json.versions.map(({ version, priority }: { version: number; priority: number }) => [version, priority]),
      [
        [2, 5],
        [1, 10],
      ],
    );
    assert.deepEqual((await call('GET', '/v1/policies')).json.policies, [changed.json]);
    assert.equal((await call('DELETE', `/v1/policies/${id}`)).status, 204);
    assert.equal((await call('GET', `/v1/policies/${id}`)).status, 404);
    assert.equal((await call('DELETE', `/v1/policies/${id}`)).status, 404);
  });

  it('refuses a name that is taken', async () => {
    assert.equal((await call('POST', '/v1/policies', RULE)).status, 201);
    assert.equal((await call('POST', '/v1/policies', RULE)).status, 409);
    const { json } = await call('POST', '/v1/policies', { ...RULE, name: 'other' });
    assert.equal((await call('PATCH', `/v1/policies/${json.id}`, { name: 'limit' })).status, 409);
  });

  const faulty: [what: string, change: Record<string, unknown>, status: number, path: string][] = [
    ['an expression that does not parse', { when: 'tool ==' }, 422, 'body.when'],
    ['an expression about what there is not', { when: 'person == "x"' }, 422, 'body.when'],
    ['an expression that gives no bool', { when: '"text"' }, 422, 'body.when'],
    ['a rewrite without arguments', { decision: 'rewrite' }, 422, 'body.rewrite'],
    ['arguments without a rewrite', { rewrite: { arguments: {} } }, 422, 'body.rewrite'],
    ['four eyes without an approval', { four_eyes: true }, 422, 'body.four_eyes'],
    ['another decision', { decision: 'maybe' }, 400, 'body.decision'],
    ['an unknown field', { until: 'x' }, 400, 'body.until'],
  ];
  for (const [what, change, status, path] of faulty) {
    it(`refuses ${what} with ${status} and its path`, async () => {
      const answer = await call('POST', '/v1/policies', { ...RULE, ...change });
      assert.equal(answer.status, status, answer.text);
      assert.equal(answer.json.errors[0].path, path);
    });
  }

  it('takes admin to write, and tools:read to read', async () => {
    const { json } = await call('POST', '/v1/api-keys', { name: 'reader', scopes: ['tools:read', 'tools:write'] });
    const reader = { key: json.key };
    assert.equal((await api.call('POST', '/v1/policies', { ...reader, body: RULE })).status, 403);
    assert.equal((await api.call('GET', '/v1/policies', reader)).status, 200);
  });

  it('makes a policy once for one Idempotency-Key', async () => {
    const send = () => api.call('POST', '/v1/policies', { key, body: RULE, headers: { 'idempotency-key': 'p1' } });
    const [first, second] = [await send(), await send()];
    assert.deepEqual([second.status, second.json], [201, first.json]);
  });

  it('hold for the direct execution of a tool, too', async () => {
    const { json } = await call('GET', '/v1/tools?filter=name:current_time');
    const path = `/v1/tools/${json.tools[0].id}/execute`;
    assert.equal((await call('POST', path, { input: {} })).status, 200);
    await call('POST', '/v1/policies', { ...RULE, when: 'tool == "current_time"', reason: 'not today' });
    const blocked = await call('POST', path, { input: {} });
    assert.equal(blocked.status, 403);
    assert.match(blocked.text, /not today/);
  });

  it('let nobody execute a tool directly that they ask two persons about, and one who may approve where they ask one', async () => {
    const { json } = await call('GET', '/v1/tools?filter=name:current_time');
    const path = `/v1/tools/${json.tools[0].id}/execute`;
    const asks = { ...RULE, when: 'tool == "current_time"', decision: 'require_approval', reason: 'for two' };
    const { json: policy } = await call('POST', '/v1/policies', { ...asks, four_eyes: true });
    const alone = await call('POST', path, { input: {} });
    assert.deepEqual([alone.status, /for two .*four eyes/.test(alone.json.detail)], [403, true], alone.text);
    await call('PATCH', `/v1/policies/${policy.id}`, { four_eyes: false });
    assert.equal((await call('POST', path, { input: {} })).status, 200);
  });

  describe('the dry run', () => {
    it('says what would be decided, by which stage and which version of which rule', async () => {
      const plain = await evaluate({ tool: 'calculator', arguments: { expression: '1' } });
      assert.deepEqual([plain.decision, plain.stage, plain.policy], ['allow', 'autonomy', null]);
      const { json: rule } = await call('POST', '/v1/policies', RULE);
      const blocked = await evaluate({ tool: 'calculator', arguments: { expression: '1' } });
      const policy = { id: rule.id, name: 'limit', version: 1 };
      assert.deepEqual([blocked.decision, blocked.stage, blocked.policy], ['block', 'rules', policy]);
      assert.match(blocked.reason, /no sums/);
      assert.deepEqual(blocked.matching, [{ policy, decision: 'block' }]);
    });

    it('takes the built-in stages into account: binding, arguments, rails, autonomy', async () => {
      const agent = async (definition: Record<string, unknown>) =>
        (await call('POST', '/v1/agents', { name: newName(), ...definition })).json.id;
      const unbound = await agent({ tools: ['current_time'] });
      const args = { expression: '1' };
      const tool = 'calculator';
      const railed = { tool_rails: { allowed_tools: ['current_time'] } };
      const at = async (more: Record<string, unknown>) => {
        const { decision, stage } = await evaluate({ tool, arguments: args, ...more });
        return [decision, stage];
      };
      assert.deepEqual(await at({ agent_id: unbound }), ['block', 'binding']);
      assert.deepEqual(await at({ arguments: { expression: 5 } }), ['block', 'arguments']);
      assert.deepEqual(await at({ agent_id: await agent({ tools: [tool], guardrail_config: railed }) }), [
        'block',
        'rails',
      ]);
      assert.deepEqual(await at({ autonomy_level: 0 }), ['require_approval', 'autonomy']);
    });

    it('blocks an integer beyond 2^53, as a call of a model with it is refused', async () => {
      const { json: tool } = await call('POST', '/v1/tools', {
        name: 'transfer',
        description: 'Sends money.',
        transport: { type: 'http', endpoint: 'https://example.com/transfer' },
        input_schema: { type: 'object', properties: { amount: { type: 'number' } } },
      });
      await call('POST', '/v1/policies', { ...RULE, when: 'arguments.amount > 0.0', decision: 'allow' });
      const at = async (amount: number) => {
        const said = await evaluate({ tool: tool.id, arguments: { amount } });
        return [said.decision, said.stage, said.matching.length];
      };
      assert.deepEqual(await at(Number.MAX_SAFE_INTEGER), ['allow', 'rules', 1]);
      assert.deepEqual(await at(2 ** 53), ['block', 'arguments', 1]);
      assert.deepEqual(await at(-(2 ** 53) - 2), ['block', 'arguments', 0]);
      assert.deepEqual(await at(6.022e23), ['allow', 'rules', 1]);
      const { reason } = await evaluate({ tool: tool.id, arguments: { amount: 2 ** 53 } });
      assert.match(reason, /longer integers as strings/);
    });

    it('takes a budget that is used up into account, and whose it is', async () => {
      const { id: agent } = (await call('POST', '/v1/agents', { name: 'dear', tools: ['calculator'] })).json;
      const { id: other } = (await call('POST', '/v1/agents', { name: 'other', tools: ['calculator'] })).json;
      const request = { name: 'purse', period: 'day', agent_id: agent, max_tokens: 100_000 };
      const { id } = (await call('POST', '/v1/budgets', request)).json;
      await useUpToday({ ...api, tenantId: tenant }, id, 100_000);
      const at = async (agent_id: string) => {
        const said = await evaluate({ tool: 'calculator', arguments: { expression: '1' }, agent_id });
        return [said.decision, said.stage, said.reason];
      };
      assert.deepEqual(await at(agent), ['block', 'budget', 'The budget "purse" is used up; the call was not made.']);
      assert.deepEqual((await at(other)).slice(0, 2), ['allow', 'autonomy']);
    });

    it('shows the arguments that a rule would rewrite, and a rule that cannot be evaluated', async () => {
      const rewrite = { arguments: { expression: '2' } };
      await call('POST', '/v1/policies', { ...RULE, decision: 'rewrite', rewrite });
      const rewritten = await evaluate({ tool: 'calculator', arguments: { expression: '1' } });
      assert.deepEqual([rewritten.decision, rewritten.arguments], ['rewrite', { expression: '2' }]);
      await call('POST', '/v1/policies', { ...RULE, name: 'odd', when: 'arguments.other > 1' });
      const failing = await evaluate({ tool: 'calculator', arguments: { expression: '1' } });
      assert.equal(failing.decision, 'block');
      assert.match(failing.matching[1].error, /No such key/);
    });

    it('tells of an agent or a run only to a key that may read it', async () => {
      const { json: agent } = await call('POST', '/v1/agents', { name: 'tried', tools: ['calculator'] });
      const { json: run } = await call('POST', `/v1/agents/${agent.id}/runs`, {});
      const keyWith = async (...scopes: string[]) =>
        (await call('POST', '/v1/api-keys', { name: 'k', scopes })).json.key;
      const tried = { tool: 'calculator', arguments: { expression: '1' } };
      const at = async (by: string, subject: object) =>
        (await api.call('POST', '/v1/policies/evaluate', { key: by, body: { ...tried, ...subject } })).status;
      const unknown = '00000000-0000-4000-8000-000000000000';
      const plain = await keyWith('tools:read');
      for (const id of [agent.id, unknown]) assert.equal(await at(plain, { agent_id: id }), 403);
      for (const id of [run.run_id, unknown]) assert.equal(await at(plain, { run_id: id }), 403);
      assert.equal(await at(plain, {}), 200);
      const agents = await keyWith('tools:read', 'agents:read');
      assert.deepEqual(
        [await at(agents, { agent_id: agent.id }), await at(agents, { run_id: run.run_id })],
        [200, 403],
      );
      const runs = await keyWith('tools:read', 'runs:read');
      assert.deepEqual([await at(runs, { agent_id: agent.id }), await at(runs, { run_id: run.run_id })], [403, 200]);
    });

    it('knows no tool, agent or run of others', async () => {
      const unknown = '00000000-0000-4000-8000-000000000000';
      assert.equal((await call('POST', '/v1/policies/evaluate', { tool: 'nothing' })).status, 404);
      const tool = 'calculator';
      assert.equal((await call('POST', '/v1/policies/evaluate', { tool, agent_id: unknown })).status, 404);
      assert.equal((await call('POST', '/v1/policies/evaluate', { tool, run_id: unknown })).status, 404);
    });
  });
});
