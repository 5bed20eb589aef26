import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { quotasOf } from '../../core/rate-limits.ts';
import { ROUTES } from '../../api/routes.ts';
import type { Route } from '../../api/kit/route.ts';
import { requireToolCall } from '../../modules/runs/read-runs.ts';
import { startTestApi } from '../support/api.ts';
import type { TestApi } from '../support/api.ts';
import { waitUntil } from '../support/wait-until.ts';
import { startWorkers } from '../../workers/start-workers.ts';
import type { Workers } from '../../workers/start-workers.ts';

/** By the part of a path before a parameter: what tenant A has there, which tenant B asks for. */
type Owned = Record<string, string>;

describe('two tenants, through every route there is', () => {
  let api: TestApi;
  let workers: Workers;
  let folder: string;
  let stranger: { key: string };
  let owned: Owned;
  /** Whatever betrays tenant A in an answer to B. */
  let secrets: string[];

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'drover-isolation-'));
    api = await startTestApi(undefined, { env: { DROVER_FILES_URL: `file:${folder}` }, forWorkers: true });
    workers = await startWorkers(api.context);
    stranger = await api.newTenant();
    const owner = await api.newTenant();
    ({ owned, secrets } = await furnish(api, owner.key));
    owned['tenants'] = owner.id;
    owned['ag-ui'] = owned['agents'] ?? '';
    secrets.push(owner.id, owner.workspace_id);
    for (const [collection, path] of unfurnished(owned)) {
      const create = ROUTES.find((route) => route.method === 'post' && route.path === path);
      if (!create) continue;
      const made = await api.call('POST', path, { key: owner.key, body: bodyFor(create) });
      assert.ok(made.status < 300, made.text);
      owned[collection] = made.json.id;
      secrets.push(made.json.id);
    }
  });
  after(async () => {
    await workers.stop(5000);
    await api.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it('the call of a run in another workspace is told from one that there is not by nothing', async () => {
    const { tenants: tenantId = '', 'tool-calls': call = '', key: keyId = '' } = owned;
    const quotas = quotasOf({ planTier: 'standard', isDefault: true, settings: {} });
    const workspaceId = randomUUID();
    const elsewhere = {
      tenantId,
      workspaceId,
      boundWorkspaceId: workspaceId,
      keyId,
      scopes: [],
      quotas,
      isOperator: false,
    };
    const ask = (id: string) => api.context.db.withTenant(tenantId, (tx) => requireToolCall(tx, elsewhere, id));
    for (const id of [call, randomUUID()]) await assert.rejects(ask(id), { message: 'The tool call does not exist.' });
  });

  for (const route of ROUTES) {
    const name = `${route.method.toUpperCase()} ${route.path}`;
    if (route.access === 'open' || route.access.startsWith('loopback')) continue;
    if (route.path.endsWith('/:name')) {
      it(`${name}: a name means something else to each tenant`, async () => {
        const call = route.method === 'put' ? { body: { value: 'of the stranger' } } : {};
        const path = pathOf(route, owned);
        const before = await api.call('GET', path, { key: owned['key'] ?? '' });
        const answer = await api.call(route.method.toUpperCase(), path, { key: stranger.key, ...call });
        assert.equal(answer.status, route.method === 'put' ? 201 : 404, answer.text);
        assert.equal((await api.call('GET', path, { key: owned['key'] ?? '' })).text, before.text);
        await api.call('DELETE', path, { key: stranger.key });
      });
    } else if (route.path.includes(':')) {
      it(`${name}: what belongs to another tenant is 404`, async () => {
        const path = pathOf(route, owned);
        // Or the test would prove nothing but that the path is wrong.
        // A WebSocket's owner is told to ask for one.
        const status = route.responses[101] === undefined ? 200 : 426;
        if (route.method === 'get')
          assert.equal((await api.call('GET', path, { key: owned['key'] ?? '' })).status, status);
        const answer = await api.call(route.method.toUpperCase(), path, {
          key: stranger.key,
          ...(route.method === 'get' || route.method === 'delete' ? {} : { body: bodyFor(route) }),
        });
        assert.equal(answer.status, 404, answer.text);
      });
    } else if (route.method === 'get') {
      it(`${name}: shows nothing of another tenant`, async () => {
        const answer = await api.call('GET', route.path, { key: stranger.key });
        assert.equal(answer.status, 200, answer.text);
        // The stranger has stored and deleted a secret of the same name, which is in the stranger's own log.
        const own = route.path === '/v1/audit' ? (owned['secrets'] ?? '') : '';
        const others = secrets.filter((each) => !own.includes(each));
        for (const secret of others) assert.ok(!answer.text.includes(secret), `${secret} in ${answer.text}`);
      });
    }
  }

  it('knows no session of another tenant, whatever is asked of it', async () => {
    const ref = { session_id: owned['session'] };
    const plan = { ...ref, plan_id: randomUUID() };
    const asked: [string, unknown][] = [
      ['chat', { ...ref, message: 'x', user_id: 'user-of-a' }],
      ['execute', plan],
      ['reject', plan],
      ['refine', { ...plan, feedback: 'x' }],
      ['interrupt', ref],
    ];
    for (const [what, body] of asked) {
      const answer = await api.call('POST', `/agent/${what}`, { key: stranger.key, body });
      assert.equal(answer.status, 404, `${what}: ${answer.text}`);
    }
  });

  it('leaves what the stranger has tried to change as it was', async () => {
    const { json } = await api.call('GET', `/v1/agents/${owned['agents']}`, { key: owned['key'] ?? '' });
    assert.notEqual(json.status, 'deprecated');
    assert.equal(json.version, '1.0.0');
  });
});

/** By collection the path to which one is posted, of those that tenant A has nothing of yet. */
function unfurnished(owned: Owned): Map<string, string> {
  const firsts = ROUTES.flatMap(({ path }) => [...path.matchAll(/^(\/v1\/([^/:]+))\/:\w+/g)]);
  return new Map(firsts.flatMap(([, path = '', name = '']) => (name in owned ? [] : [[name, path] as const])));
}

/**
 * One of what a tenant can have, where a plain `POST` of one of `BODIES` does not make it. A route with a parameter that is
 * neither fails the test: add it.
 */
async function furnish(api: TestApi, key: string): Promise<{ owned: Owned; secrets: string[] }> {
  const make = async (path: string, body: unknown) => {
    const { json, status, text } = await api.call('POST', path, { key, body });
    assert.ok(status < 300, text);
    return json;
  };
  const example = { question: 'What is {sum}?', steps: [{ tool: 'calculator', input: { expression: '{sum}' } }] };
  const system_prompt = { role: 'role-of-a', examples: [example] };
  const { id: agents } = await make('/v1/agents', { name: 'agent-of-a', system_prompt, tools: ['calculator'] });
  const transport = { type: 'http', endpoint: 'https://tools.example/a' };
  const { id: tools } = await make('/v1/tools', { name: 'tool_of_a', description: 'description-of-a', transport });
  const server = { type: 'mcp_http', endpoint: 'https://mcp.example/of-a' };
  await make('/v1/tools', { name: 'remote_of_a', description: 'description-of-a', transport: server });
  const { json: servers } = await api.call('GET', '/v1/mcp-servers', { key });
  const rule = { name: 'policy-of-a', when: 'tool == "tool_of_a"', decision: 'block', reason: 'reason-of-a' };
  const { id: policies } = await make('/v1/policies', rule);
  const { id: keys } = await make('/v1/api-keys', { name: 'key-of-a', scopes: ['runs:read'] });
  const { id: budgets } = await make('/v1/budgets', { name: 'budget-of-a', period: 'day', max_tokens: 1_000_000_000 });
  const { run_id: runs, thread_id } = await make(`/v1/agents/${agents}/runs`, {});
  const input = { message: 'What is 6*7?' };
  const turn = await make(`/v1/agents/${agents}/runs/${runs}/turns`, { input });
  assert.equal(turn.output.status, 'complete');
  // A stream of a finished run ends, so that the owner can be asked for all of it.
  await make(`/v1/runs/${runs}/complete`, {});
  const call = turn.output.tool_calls[0].id;
  const secret = await api.call('PUT', '/v1/secrets/secret_of_a', { key, body: { value: 'value-of-a' } });
  assert.equal(secret.status, 201);
  const careful = await make('/v1/agents', { name: 'careful-of-a', tools: ['calculator'], autonomy_level: 0 });
  const asking = await make(`/v1/agents/${careful.id}/runs`, { input });
  const approvals = await openApproval(api, key, asking.run_id);
  const { id: memory } = await make(`/v1/agents/${agents}/memory`, {
    content: 'memory-of-a',
    memory_type: 'SEMANTIC',
  });
  const shared = await make('/v1/memory/spaces', { name: 'space-of-a' });
  const content = { type: 'text', data: 'fragment-of-a' };
  const { id: fragments } = await make('/v1/memory/write', { space_id: shared.id, content });
  await make(`/v1/agents/${agents}/memory`, { content: 'short-of-a', memory_type: 'SHORT_TERM', relevance_score: 1 });
  const consolidated = await make(`/v1/agents/${agents}/memory/consolidate`, { strategy: 'importance' });
  const hook = await make('/v1/webhooks', { url: 'https://hooks.example/of-a', events: ['*'] });
  await make(`/v1/agents/${agents}/runs`, {});
  const { json: told } = await api.call('GET', `/v1/webhooks/${hook.id}/deliveries`, { key });
  const talk = { message: 'message-of-a', user_id: 'user-of-a', agent_id: agents, autonomy_level: 2 };
  const { session_id: session } = await make('/agent/chat', talk);
  const form = '--b\r\ncontent-disposition: form-data; name="file"; filename="file-of-a"\r\n\r\nx\r\n--b--\r\n';
  const type = { 'content-type': 'multipart/form-data; boundary=b' };
  const { json: file } = await api.call('POST', '/v1/files', { key, raw: form, headers: type });
  const flow = await make('/v1/workflows', {
    name: 'workflow-of-a',
    agent_id: agents,
    input: { user_query: 'query-of-a' },
    definition: { subtasks: [{ id: 'subtask-of-a', description: 'description-of-a', dependencies: [] }] },
  });
  const { json: planned } = await api.call('GET', `/v1/workflows/${flow.id}`, { key });
  const passed = await make('/v1/handoffs', {
    task_id: planned.tasks[0].id,
    source_agent_id: agents,
    target_agent_id: careful.id,
    context: { task_context: { original_query: 'query-of-a' } },
    reason: 'reason-of-a',
  });
  const ids = {
    handoffs: passed.id,
    files: file.id,
    session,
    workflows: flow.id,
    tasks: planned.tasks[0].id,
    stream: session,
    memory,
    consolidations: consolidated.consolidation_id,
    spaces: shared.id,
    fragments,
    webhooks: hook.id,
    deliveries: told.deliveries[0].id,
    approvals,
    budgets,
    agents,
    tools,
    policies,
    'mcp-servers': servers.mcp_servers[0].id,
    'api-keys': keys,
    runs,
    compare: runs,
    turns: turn.turn_id,
    conversations: turn.turn_id,
    checkpoints: turn.checkpoint_id,
    'tool-calls': call,
    threads: thread_id,
    secrets: 'secret_of_a',
  };
  return {
    owned: { ...ids, key, versions: '1.0.0', a2a: ids.agents, acp: ids.agents },
    secrets: [...Object.values(ids), 'of-a', 'of_a'],
  };
}

/** The id of the approval that a run waits for. */
async function openApproval(api: TestApi, key: string, run: string): Promise<string> {
  let id: string | undefined;
  await waitUntil('an approval is asked for', async () => {
    const { json } = await api.call('GET', `/v1/approvals?run_id=${run}`, { key });
    id = json.approvals[0]?.id;
    return id !== undefined;
  });
  return id ?? '';
}

function pathOf(route: Route, owned: Owned): string {
  return route.path.replaceAll(/([^/]+)\/:\w+/g, (_all, collection: string) => {
    const id = owned[collection];
    assert.ok(id !== undefined, `add one of ${collection} to what tenant A has: ${route.path} takes its id`);
    return `${collection}/${id}`;
  });
}

const BODIES = [
  { description: 'd', transport: { type: 'client' } },
  {},
  { input: {} },
  { name: 'x' },
  { id: 'x', messages: [{ role: 'user', parts: [{ type: 'text', text: 'x' }] }] },
  { threadId: 'x', runId: 'x', messages: [{ id: 'x', role: 'user', content: 'x' }] },
  { suspended: true },
  { input: { message: 'x' } },
  { decision: 'deny' },
  { jsonrpc: '2.0', method: 'GetTask' },
  { type: 'user', payload: { message: 'x' } },
  { checkpoint_id: randomUUID() },
  { answer: 'x' },
  { ttl_seconds: 60, scopes: ['read'] },
  { query: 'x' },
  { content: 'x' },
  { content: 'x', memory_type: 'SEMANTIC' },
  { subject: 'x' },
];

/** A body that the route takes, so that nothing but the tenant stands in the way. */
function bodyFor(route: Route): unknown {
  for (const candidate of BODIES) {
    if (route.body === undefined || route.body.safeParse(candidate).success) return candidate;
  }
  throw new Error(`add a body that ${route.path} takes`);
}
