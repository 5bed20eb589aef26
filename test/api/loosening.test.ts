import assert from 'node:assert/strict';
import { digestOf } from '../../core/ids.ts';
import { startEverything } from '../support/mcp-server-everything.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { newName } from '../support/new-name.ts';

const HTTP = { type: 'http', endpoint: 'https://tools.example/search' };
const SEARCH = { type: 'web_search_20250305', name: 'web_search' };
type Body = Record<string, unknown>;

const graphOf = (workflow_graph: Body | null): Body => ({ workflow_graph });

const SEND = { name: 'send', type: 'tool', config: { tool: 'calculator', input: { expression: '1' } } };
const REVIEWED = {
  entry_point: 'review',
  nodes: [
    { name: 'review', type: 'human', config: { prompt: 'Shall it be sent?', signal: 'approval' } },
    SEND,
  ] as const,
  edges: [{ from: 'review', to: 'send', condition: 'output.approved' }] as const,
};

describe('a key that may write tools and agents, but not approve', () => {
  let api: TestApi;
  let writer: string;
  let approver: string;
  let number = 0;
  before(async () => {
    api = await startTestApi();
    const scopes = ['tools:write', 'tools:read', 'agents:write', 'agents:read'];
    writer = await keyWith(scopes);
    approver = await keyWith([...scopes, 'approvals:write']);
  });
  after(() => api.close());

  const keyWith = async (scopes: string[]): Promise<string> =>
    (await api.call('POST', '/v1/api-keys', { body: { name: 'k', scopes } })).json.key;
  const toolOf = (fields: Body): Body => {
    number += 1;
    return { name: `tool_${number}`, description: 'A tool.', transport: HTTP, ...fields };
  };
  const bodies = { tools: toolOf, agents: (fields: Body): Body => ({ name: newName(), ...fields }) };
  const make = async (kind: 'tools' | 'agents', fields: Body): Promise<string> => {
    const { status, json, text } = await api.call('POST', `/v1/${kind}`, { body: bodies[kind](fields) });
    assert.equal(status, 201, text);
    return json.id;
  };
  const lastDetails = async (target: string) => {
    const { json } = await api.call('GET', `/v1/audit?target=${target}`);
    return json.audit[0].details;
  };
  const elsewhere = { ...HTTP, endpoint: 'https://elsewhere.example/search' };
  const limited = { guardrail_config: { tool_rails: { max_calls_per_turn: 3, allowed_tools: ['calculator'] } } };
  const needing = (...names: string[]) => ({ permissions: names.map((name) => ({ name, required: true })) });
  const rails = (tool_rails: Body) => ({ guardrail_config: { tool_rails } });

  const CHANGES: Change[] = [
    [
      'lower the risk of a tool',
      'tools',
      { risk_level: 'WRITE_HIGH_RISK' },
      { risk_level: 'WRITE_LOW_RISK' },
      { risk_level: { from: 'WRITE_HIGH_RISK', to: 'WRITE_LOW_RISK' } },
    ],
    [
      'give a high risk its default back',
      'tools',
      { risk_level: 'WRITE_HIGH_RISK' },
      { risk_level: null },
      { risk_level: { from: 'WRITE_HIGH_RISK', to: 'WRITE_LOW_RISK' } },
    ],
    [
      'add the hint that a tool only reads',
      'tools',
      {},
      { annotations: { readOnlyHint: true } },
      { readOnlyHint: { from: false, to: true } },
    ],
    [
      'add the hint that calls may be repeated',
      'tools',
      { annotations: { destructiveHint: true } },
      { annotations: { idempotentHint: true } },
      { idempotentHint: { from: false, to: true } },
    ],
    [
      'have something else called after untrusted content was read',
      'tools',
      { accepts_tainted: true },
      { transport: elsewhere },
      {},
    ],
    [
      'have a tool called after untrusted content was read',
      'tools',
      {},
      { accepts_tainted: true },
      { accepts_tainted: { from: false, to: true } },
    ],
    [
      'vouch for what a tool answers',
      'tools',
      { output_trust: 'untrusted' },
      { output_trust: 'trusted' },
      { output_trust: { from: 'untrusted', to: 'trusted' } },
    ],
    [
      'take away a permission that the calls of a tool need',
      'tools',
      needing('pay', 'sign'),
      { permissions: [{ name: 'sign', required: true }] },
      { permissions: { from: ['pay', 'sign'], to: ['sign'] } },
    ],
    [
      'no longer require it',
      'tools',
      needing('pay'),
      { permissions: [{ name: 'pay', required: false }] },
      { permissions: { from: ['pay'], to: [] } },
    ],
    ['send the calls of a lowered tool elsewhere', 'tools', { risk_level: 'READ_ONLY' }, { transport: elsewhere }, {}],
    [
      'send the calls of a tool that may be repeated elsewhere',
      'tools',
      { annotations: { idempotentHint: true } },
      { transport: elsewhere },
      {},
    ],
    [
      'raise the autonomy of an agent',
      'agents',
      { autonomy_level: 1 },
      { autonomy_level: 2 },
      { autonomy_level: { from: 1, to: 2 } },
    ],
    [
      'give a low autonomy its default back',
      'agents',
      { autonomy_level: 1 },
      { autonomy_level: null },
      { autonomy_level: { from: 1, to: 2 } },
    ],
    [
      'have calls of unknown outcome repeated',
      'agents',
      {},
      { execution_config: { on_unknown: 'retry' } },
      { on_unknown: { from: 'ask', to: 'retry' } },
    ],
    [
      'let the one who asks approve',
      'agents',
      { execution_config: { four_eyes: true } },
      { execution_config: {} },
      { four_eyes: { from: true, to: false } },
    ],
    [
      'have the provider execute tools that pass no gate',
      'agents',
      {},
      { llm_config: { server_tools: [SEARCH] } },
      { server_tools: { from: [], to: [SEARCH.type] } },
    ],
    [
      'have it execute them by a parameter',
      'agents',
      {},
      { llm_config: { api_kwargs: { top_p: 1, enable_search: false, web_search_options: {} } } },
      { server_tools: { from: [], to: [`api_kwargs.web_search_options ${digestOf({ value: {} })}`] } },
    ],
    [
      'remove rails',
      'agents',
      limited,
      { guardrail_config: null },
      { max_calls_per_turn: { from: 3, to: null }, allowed_tools: { from: ['calculator'], to: 'all' } },
    ],
    [
      'allow more calls',
      'agents',
      limited,
      rails({ max_calls_per_turn: 4, allowed_tools: [] }),
      { max_calls_per_turn: { from: 3, to: 4 } },
    ],
    [
      'allow another tool',
      'agents',
      limited,
      rails({ max_calls_per_turn: 3, allowed_tools: ['calculator', 'http_get'] }),
      { allowed_tools: { from: ['calculator'], to: ['calculator', 'http_get'] } },
    ],
    ...bindingChanges(),
    ...graphChanges(),
  ];
  for (const [what, kind, before_, change, loosened] of CHANGES) {
    it(`may not ${what}; one that may approve may, and the audit log has the difference`, async () => {
      const id = await make(kind, before_);
      const path = `/v1/${kind}/${id}`;
      const { json: was } = await api.call('GET', path);
      const refused = await api.call('PATCH', path, { key: writer, body: change });
      assert.equal(refused.status, 403, refused.text);
      assert.equal(refused.json.scope, 'approvals:write');
      assert.deepEqual((await api.call('GET', path)).json, was, 'nothing has changed');
      const done = await api.call('PATCH', path, { key: approver, body: change });
      assert.equal(done.status, 200, done.text);
      const details = await lastDetails(id);
      if (change['transport']) assert.deepEqual(Object.keys(details.loosened), ['transport']);
      else assert.deepEqual(details.loosened, loosened);
      assert.doesNotMatch(JSON.stringify(details), /elsewhere/);
    });
  }

  const NEW: [what: string, kind: 'tools' | 'agents', fields: Body][] = [
    ['register a tool that only reads', 'tools', { risk_level: 'READ_ONLY' }],
    ['register a tool whose calls may be repeated', 'tools', { annotations: { idempotentHint: true } }],
    ['register a tool with the hint that it only reads', 'tools', { annotations: { readOnlyHint: true } }],
    ['register a tool that is called after untrusted content was read', 'tools', { accepts_tainted: true }],
    ['register an agent above the default autonomy', 'agents', { autonomy_level: 3 }],
    [
      'register an agent that repeats calls of unknown outcome',
      'agents',
      { execution_config: { on_unknown: 'retry' } },
    ],
  ];
  for (const [what, kind, fields] of NEW) {
    it(`may not ${what}`, async () => {
      const body = bodies[kind](fields);
      const refused = await api.call('POST', `/v1/${kind}`, { key: writer, body });
      assert.equal(refused.status, 403, refused.text);
      const made = await api.call('POST', `/v1/${kind}`, { key: approver, body });
      assert.equal(made.status, 201, made.text);
      assert.equal(Object.keys((await lastDetails(made.json.id)).loosened).length, 1);
    });
  }

  it('may change all else, and make what is as safe or safer', async () => {
    const tool = await make('tools', { risk_level: 'READ_ONLY' });
    for (const change of [{ description: 'Other.' }, { risk_level: 'WRITE_HIGH_RISK' }, { transport: elsewhere }]) {
      const answer = await api.call('PATCH', `/v1/tools/${tool}`, { key: writer, body: change });
      assert.equal(answer.status, 200, answer.text);
    }
    const agent = await make('agents', { autonomy_level: 3, ...limited });
    const changes = [
      { description: 'Other.' },
      {
        tool_bindings: [
          { tool_uri: 'builtin://calculator', rate_limit: 5, is_enabled: false },
          { tool_id: 'http_get' },
        ],
      },
      { tool_bindings: [{ tool_uri: 'builtin://calculator', rate_limit: 4, is_enabled: false }] },
      { autonomy_level: 1 },
      rails({ max_calls_per_turn: 2, allowed_tools: [] }),
    ];
    for (const change of changes) {
      const answer = await api.call('PATCH', `/v1/agents/${agent}`, { key: writer, body: change });
      assert.equal(answer.status, 200, answer.text);
    }
    assert.equal((await lastDetails(agent)).loosened, undefined);
    const asking = await make('agents', graphOf(REVIEWED));
    const [ask, ...others] = REVIEWED.nodes;
    const nodes = [{ ...ask, config: { ...ask.config, prompt: 'Shall it really be sent?' } }, ...others];
    const end = { name: 'end', type: 'human', config: { prompt: 'Well?' } };
    const graphs = [
      { ...REVIEWED, nodes },
      { entry_point: 'end', nodes: [...nodes, end], edges: [{ from: 'end', to: 'review' }, ...REVIEWED.edges] },
    ];
    for (const graph of graphs) {
      const answer = await api.call('PATCH', `/v1/agents/${asking}`, { key: writer, body: graphOf(graph) });
      assert.equal(answer.status, 200, answer.text);
    }
    assert.equal((await lastDetails(asking)).loosened, undefined);
  });

  it('may not lower a risk by deleting the tool and registering it again', async () => {
    const body = toolOf({ risk_level: 'WRITE_HIGH_RISK' });
    const { json } = await api.call('POST', '/v1/tools', { body });
    assert.equal((await api.call('DELETE', `/v1/tools/${json.id}`, { key: writer })).status, 204);
    const { risk_level: _, ...plain } = body;
    assert.equal((await api.call('POST', '/v1/tools', { key: writer, body: plain })).status, 403);
    assert.equal((await api.call('POST', '/v1/tools', { key: writer, body })).status, 201);
  });

  it('may not have outputs trusted by deleting the tool and registering it again', async () => {
    const body = toolOf({ output_trust: 'untrusted' });
    const { json } = await api.call('POST', '/v1/tools', { body });
    assert.equal((await api.call('DELETE', `/v1/tools/${json.id}`, { key: writer })).status, 204);
    const { output_trust: _, ...plain } = body;
    const refused = await api.call('POST', '/v1/tools', { key: writer, body: plain });
    assert.equal(refused.status, 403);
    assert.match(refused.text, /\(output_trust\)/);
    assert.equal((await api.call('POST', '/v1/tools', { key: writer, body })).status, 201);
  });

  it('may not take a required permission away by deleting the tool and registering it again', async () => {
    const body = toolOf(needing('pay'));
    const { json } = await api.call('POST', '/v1/tools', { body });
    assert.equal((await api.call('DELETE', `/v1/tools/${json.id}`, { key: writer })).status, 204);
    const { permissions: _, ...plain } = body;
    const refused = await api.call('POST', '/v1/tools', { key: writer, body: plain });
    assert.equal(refused.status, 403);
    assert.match(refused.text, /\(permissions\)/);
    const stricter = { ...body, ...needing('sign', 'pay') };
    assert.equal((await api.call('POST', '/v1/tools', { key: writer, body: stricter })).status, 201);
  });

  it('may require a permission, let one that is not required go, and give an agent permissions, as it gives it tools', async () => {
    const tool = await make('tools', { permissions: [{ name: 'read', required: false }] });
    const changes = [{ permissions: null }, needing('pay'), needing('sign', 'pay')];
    for (const body of changes) {
      const answer = await api.call('PATCH', `/v1/tools/${tool}`, { key: writer, body });
      assert.equal(answer.status, 200, answer.text);
    }
    const agent = await make('agents', {});
    const granted = await api.call('PATCH', `/v1/agents/${agent}`, { key: writer, body: { permissions: ['pay'] } });
    assert.equal(granted.status, 200, granted.text);
  });

  it('may import tools, but neither take the word of their server nor lower what was raised', async () => {
    const mcp = await startEverything('streamableHttp');
    try {
      const transport = { type: 'http', endpoint: mcp.url };
      const load = (key: string, trusted?: boolean) =>
        api.call('POST', '/v1/tools/import', {
          key,
          body: { transport, ...(trusted === undefined ? {} : { trusted }) },
        });
      // Whatever its server says: that it is believed is enough.
      const refused = await load(writer, true);
      assert.equal(refused.status, 403);
      assert.match(refused.text, /\(trusted\)/);
      const { status, json, text } = await load(writer);
      assert.equal(status, 201, text);
      const risk = { risk_level: 'WRITE_HIGH_RISK' };
      const echo = json.tools.find(({ name }: { name: string }) => name === 'echo').id;
      assert.equal((await api.call('PATCH', `/v1/tools/${echo}`, { key: writer, body: risk })).status, 200);
      assert.equal((await load(writer)).status, 403);
      assert.equal((await load(approver, true)).status, 201);
    } finally {
      await mcp.kill();
    }
  });
});

type Change = [what: string, kind: 'tools' | 'agents', before: Body, change: Body, loosened: Body];

/** What takes a restriction of a binding away, each alone. */
function bindingChanges(): Change[] {
  const subject = { tool_uri: 'builtin://calculator' };
  const bind = (...bindings: Body[]) => ({ tool_bindings: bindings });
  const cases: [what: string, from: Body, to: Body | undefined][] = [
    ['permit more in a binding', { permissions: ['read'] }, { permissions: ['read', 'write'] }],
    ['take the permissions out of a binding', { permissions: ['read'] }, {}],
    ['raise the rate of a binding', { rate_limit: 5 }, { rate_limit: 6 }],
    ['give more time by a binding', { config_overrides: { timeout_ms: 50 } }, { config_overrides: { timeout_ms: 60 } }],
    ['take the settings out of a binding', { config_overrides: { retry_config: { max_retries: 0 } } }, {}],
    ['enable what a binding disabled', { is_enabled: false }, { is_enabled: true }],
    ['drop a binding', { rate_limit: 5 }, undefined],
  ];
  const changes = cases.map(([what, from, to]): Change => {
    const [before, after] = [{ ...subject, ...from }, to && { ...subject, ...to }];
    const loosened = { tool_bindings: { from: [before], to: [after ?? null] } };
    return [what, 'agents', bind(before), after ? bind(after) : { tool_bindings: null }, loosened];
  });
  const strict = { ...subject, rate_limit: 5 };
  const loose = { tool_id: 'calculator' };
  const behind = { tool_bindings: { from: [strict], to: [loose] } };
  return [
    ...changes,
    ['put a binding in front of a stricter one', 'agents', bind(strict), bind(loose, strict), behind],
  ];
}

/** What takes a person out of the way of a graph, or lets it go another way after they have answered. */
function graphChanges(): Change[] {
  const [ask] = REVIEWED.nodes;
  const [way] = REVIEWED.edges;
  const was = { node: 'review', signal: 'approval', ways: [{ to: 'send', condition: 'output.approved' }] };
  const changeOf = (what: string, graph: Body | null, is: Body | null): Change => [
    what,
    'agents',
    graphOf(REVIEWED),
    graphOf(graph),
    { workflow_graph: { from: [was], to: [is] } },
  ];
  const start = { name: 'start', type: 'router', config: {} };
  const timer = { ...ask, config: { signal: 'timer', timeout_seconds: 1 } };
  const asked = { name: 'asked', type: 'human', config: ask.config };
  const begins = { from: 'start', to: 'review', condition: 'input.message == "x"' };
  const renamed = { ...SEND, name: 'sends' };
  const around = {
    entry_point: 'start',
    nodes: [start, ask, SEND],
    edges: [begins, { from: 'start', to: 'send' }, way],
  };
  return [
    changeOf(
      'take the node of a graph that asks for approval away',
      { entry_point: 'send', nodes: [SEND], edges: [] },
      null,
    ),
    changeOf('take a graph with such a node away', null, null),
    changeOf('have such a node wait for a time', { ...REVIEWED, nodes: [timer, SEND] }, null),
    changeOf(
      'have another node ask in its place',
      { entry_point: 'asked', nodes: [asked, SEND], edges: [{ ...way, from: 'asked' }] },
      null,
    ),
    changeOf(
      'let a graph go on whatever the person says',
      { ...REVIEWED, edges: [{ from: 'review', to: 'send' }] },
      { ...was, ways: [{ to: 'send', condition: null }] },
    ),
    changeOf('lead a graph around such a node', around, { ...was, around: ['send', 'calculator'] }),
    changeOf(
      'call its tool before such a node asks',
      { entry_point: 'sends', nodes: [renamed, ask, SEND], edges: [{ from: 'sends', to: 'review' }, way] },
      { ...was, around: ['calculator'] },
    ),
  ];
}
