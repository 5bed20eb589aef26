/** What a policy sees of a call is the same wherever the call passes the gate. */
import assert from 'node:assert/strict';
import { startServer, type LocalServer } from '../support/echo-server.ts';
import { newName } from '../support/new-name.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';

/** By variable, what holds of a call at every gate. Where calls differ, their arguments say what is expected. */
const TRUE: Record<string, string> = {
  tool: 'tool == arguments.tool && tool.version == "1.0.0" && tool.transport == arguments.transport',
  'tool.effect': 'tool.effect == "idempotent" && tool.annotations.idempotentHint && tool.permissions == ["money"]',
  agent: 'agent.name.startsWith("payer") && agent.version == "1.0.0" && size(agent.id) == 36',
  'agent.tags': 'agent.tags == ["till"] && agent.metadata.desk == "7"',
  run: 'size(run.id) == 36 && size(run.thread_id) == 36 && size(run.workspace_id) == 36',
  'run.autonomy_level': 'run.autonomy_level == 2',
  'run.turn': 'run.turn == arguments.turn',
  'run.step': 'run.step == arguments.step',
  'run.calls_in_turn': 'run.calls_in_turn == arguments.before',
  tenant: 'size(tenant.id) == 36 && tenant.name != ""',
  user: 'user == arguments.user',
  risk: 'risk == "WRITE_LOW_RISK" && tool.risk_level == risk',
  tainted_by: 'size(tainted_by) == arguments.taint',
};

/** A call of a turn that has read something untrusted in its first step. */
const PAY = { tool: 'pay', transport: 'http', turn: 1, step: 2, before: 1, taint: 1, user: '' };

const OVER = ['completed', 'failed', 'cancelled'];

interface Approval {
  id: string;
  run_id: string;
}

describe('What a policy sees of a call', () => {
  let api: ScriptedService;
  let shop: LocalServer;
  let payer: string;
  let boss: string;
  /** Answers that the shop gives before it takes money. */
  let refusals = 0;

  before(async () => {
    shop = await startServer((_, response) => {
      response.writeHead(refusals > 0 ? 503 : 200, { 'content-type': 'application/json' }).end('{"ok":true}');
      refusals -= 1;
    });
    api = await startScriptedService({ env: { DROVER_EGRESS_ALLOW: '127.0.0.1' } });
    const of = (path: string) => ({ type: 'http', endpoint: `${shop.url}/${path}` });
    const guards = { annotations: { idempotentHint: true }, permissions: [{ name: 'money', required: true }] };
    const guarded = { ...guards, risk_level: 'WRITE_LOW_RISK', accepts_tainted: true };
    const execution = { retry_config: { max_retries: 1, backoff_ms: 1 } };
    await tool('pay', { ...guarded, transport: of('pay'), execution });
    await tool('later', { ...guarded, transport: of('pay'), execution: { ...execution, inline: false } });
    await tool('sign', { ...guarded, transport: { type: 'client' } });
    await tool('read', { transport: of('read'), risk_level: 'READ_ONLY', output_trust: 'untrusted' });
    payer = await newPayer({});
    boss = await api.newAgent(['delegate'], { autonomy_level: 2 });
    for (const [variable, holds] of Object.entries(TRUE)) await block(variable, `has(arguments.before) && !(${holds})`);
    const when = 'has(arguments.asks) && arguments.asks';
    await made('/v1/policies', { name: 'a person', priority: 200, when, decision: 'require_approval', reason: 'asks' });
  });
  beforeEach(() => {
    shop.seen.length = 0;
    refusals = 0;
  });
  after(async () => {
    await api.close();
    await shop.close();
  });

  const made = async (path: string, body: unknown) => {
    const { status, json, text } = await api.call('POST', path, { body });
    assert.ok(status < 300, `${path}: ${text}`);
    return json;
  };
  const read = async (path: string) => (await api.call('GET', path)).json;
  const tool = (name: string, fields: object) =>
    made('/v1/tools', { name, description: 'A tool.', input_schema: { type: 'object' }, ...fields });
  const newPayer = (more: object) => {
    const definition = { name: newName('payer'), tags: ['till'], metadata: { desk: '7' }, permissions: ['money'] };
    return api.newAgent(['read', 'pay', 'later', 'sign', 'ask_user'], { ...definition, ...more });
  };
  /** A policy that blocks; once it is answered, the calls under way pass the gate again. */
  const block = (name: string, when: string) =>
    made('/v1/policies', { name, when, decision: 'block', reason: `not by ${name}` });
  const call = (args: Record<string, unknown>) => `call ${String(args['tool'])} ${JSON.stringify(args)}`;
  const start = async (agent: string, message: string): Promise<string> =>
    (await made(`/v1/agents/${agent}/runs`, { input: { message } })).run_id;
  const statusOf = async (run: string): Promise<string> => (await read(`/v1/runs/${run}`)).status;
  const isOver = async (run: string) => OVER.includes(await statusOf(run));
  const end = async (run: string) => {
    await waitUntil('it is over', () => isOver(run));
    return read(`/v1/runs/${run}`);
  };
  /** The first open approval of a run, or of one below it. */
  const approvalIn = async (run: string): Promise<Approval> => {
    let found: Approval | undefined;
    await waitUntil('somebody is asked', async () => {
      const { text: tree } = await api.call('GET', `/v1/runs/${run}/tree`);
      const { approvals } = await read('/v1/approvals?status=pending&limit=100');
      found = approvals.findLast(({ run_id }: Approval) => tree.includes(run_id));
      return found !== undefined || (await isOver(run));
    });
    assert.ok(found, `nobody is asked: ${JSON.stringify(await read(`/v1/runs/${run}`))}`);
    return found;
  };
  const decide = (id: string, decision: string) => api.call('POST', `/v1/approvals/${id}`, { body: { decision } });
  /** Approves what is asked under other policies than those of the request. */
  const approve = async (run: string): Promise<string> => {
    const { id, run_id } = await approvalIn(run);
    await block(newName('nothing'), 'tool == "nothing"');
    const { status, text } = await decide(id, 'approve');
    assert.equal(status, 200, text);
    return run_id;
  };
  const paid = () => shop.seen.filter(({ path }) => path === '/pay').length;

  const gates: [gate: string, tried: () => Promise<void>][] = [
    [
      'an answer, and again before its second attempt',
      async () => {
        const run = await start(payer, `call read {} | held second ${call(PAY)}`);
        await waitUntil('it has read', async () => api.model.asked('held second').length === 2);
        refusals = 1;
        api.model.release('second');
        const { output } = await end(run);
        assert.equal(paid(), 2, output?.message);
      },
    ],
    [
      'a worker',
      async () => {
        const run = await start(payer, `call read {} | held worked ${call({ ...PAY, tool: 'later' })}`);
        await waitUntil('it has read', async () => api.model.asked('held worked').length === 2);
        refusals = 1;
        api.model.release('worked');
        const { output } = await end(run);
        assert.equal(paid(), 2, output?.message);
      },
    ],
    [
      'an approval, and the worker that makes the call',
      async () => {
        const run = await start(payer, `call read {} | ${call({ ...PAY, asks: true })}`);
        await approve(run);
        const { output } = await end(run);
        assert.equal(paid(), 1, output?.message);
      },
    ],
    [
      "an approval, and a wait for the client's result",
      async () => {
        const signed = { ...PAY, tool: 'sign', transport: 'client', asks: true };
        const run = await start(payer, `call read {} | ${call(signed)}`);
        await approve(run);
        const ends = [...OVER, 'awaiting_tool'];
        await waitUntil('the client is asked', async () => ends.includes(await statusOf(run)));
        assert.equal(await statusOf(run), 'awaiting_tool');
      },
    ],
    [
      'the plan of a session, in its second turn',
      async () => {
        const opened = { message: 'say hello', user_id: 'bob', agent_id: payer, autonomy_level: 2 };
        const { session_id: session } = await made('/agent/chat', opened);
        await waitUntil('it is said', async () => (await read(`/agent/session/${session}`)).status === 'completed');
        const { run_id: run } = await read(`/agent/session/${session}`);
        const args = { ...PAY, user: 'bob', turn: 2, step: 3, asks: true };
        const both = `${call(args)} & ${call({ ...args, before: 2 }).replace('call ', '')}`;
        await made('/agent/chat', { message: `call read {} | ${both} | say so`, user_id: 'bob', session_id: session });
        await approve(run);
        await waitUntil('it is over', async () =>
          (await read(`/agent/session/${session}`)).status.startsWith('completed'),
        );
        assert.equal(paid(), 2, api.model.asked('say so').at(-1)?.results.join());
      },
    ],
    [
      'a child of a session',
      async () => {
        const args = { ...PAY, user: 'bob', asks: true };
        const description = `call read {} | ${call(args)}`;
        const message = `call delegate ${JSON.stringify({ agent: payer, description }).replaceAll('|', '\\u007c')}`;
        const opened = { message, user_id: 'bob', agent_id: boss, autonomy_level: 2 };
        const { session_id: session } = await made('/agent/chat', opened);
        const { run_id: run } = await read(`/agent/session/${session}`);
        await approve(run);
        await waitUntil('it is over', async () =>
          (await read(`/agent/session/${session}`)).status.startsWith('completed'),
        );
        assert.equal(paid(), 1, api.model.asked(message).at(-1)?.results.join());
      },
    ],
    [
      'a node of a graph',
      async () => {
        const workflow_graph = {
          entry_point: 'reads',
          nodes: [
            { name: 'reads', type: 'tool', config: { tool: 'read', input: {} } },
            { name: 'pays', type: 'tool', config: { tool: 'pay', input: { ...PAY, asks: true } } },
          ],
          edges: [{ from: 'reads', to: 'pays' }],
        };
        const run = await start(await newPayer({ workflow_graph }), 'go');
        await approve(run);
        const { output } = await end(run);
        assert.equal(paid(), 1, output?.message);
      },
    ],
    [
      'a call that is tried out for a run, with its number and its taint',
      async () => {
        const run = await start(payer, 'call read {} | call ask_user {"question":"Which?"}');
        await waitUntil('it asks', async () => (await statusOf(run)) === 'awaiting_human');
        const expected = { ...PAY, step: 3, before: 2 };
        const tried = { tool: 'pay', arguments: expected, run_id: run, calls_in_turn: 2, tainted_by: [1] };
        const { decision, reason } = await made('/v1/policies/evaluate', tried);
        assert.equal(decision, 'allow', reason);
      },
    ],
  ];
  for (const [gate, tried] of gates) it(`is what it was when it was asked for: at ${gate}`, tried);

  /** A call that says nothing of what is expected, and a policy on its number. */
  const late = (mark: string, asks = true) => `pay ${JSON.stringify({ mark, asks })}`;
  const blockLate = (mark: string, number: string) =>
    block(newName('number'), `has(arguments.mark) && arguments.mark == "${mark}" && run.calls_in_turn ${number}`);

  it('counts the calls before one that waits for a person: a policy on their number lets its approval lapse', async () => {
    const run = await start(
      payer,
      `call ${late('a', false)} | call ${late('a', false)} | call ${late('a')} | say over`,
    );
    const { id } = await approvalIn(run);
    await blockLate('a', '> 1');
    const { status, text } = await decide(id, 'approve');
    assert.deepEqual([status, /Blocked by a policy: not by number/.test(text)], [409, true], text);
    await end(run);
    assert.equal(paid(), 2);
  });

  it('counts a call that a person has denied since, and none that the gate had denied', async () => {
    await block('all of b', 'has(arguments.mark) && arguments.mark == "b"');
    const run = await start(
      payer,
      `call ${late('c', false)} & ${late('b')} | call ${late('d')} & ${late('e')} | say over`,
    );
    const before = await approvalIn(run);
    const { arguments: first } = await read(`/v1/approvals/${before.id}`);
    assert.equal(first.mark, 'd');
    assert.equal((await decide(before.id, 'deny')).status, 200);
    const { id } = await approvalIn(run);
    await blockLate('e', '!= 2');
    const { status, text } = await decide(id, 'approve');
    assert.equal(status, 200, text);
    await end(run);
    assert.equal(paid(), 2);
  });

  it('counts the calls of the run before, in a retry that goes on in the middle of their turn', async () => {
    const run = await start(
      payer,
      `call ${late('f', false)} | call ${late('f', false)} | call ${late('f')} | say over`,
    );
    await approvalIn(run);
    await made(`/v1/runs/${run}/cancel`, {});
    const { new_run_id: retried } = await made(`/v1/runs/${run}/retry`, {});
    const { id } = await approvalIn(retried);
    await blockLate('f', '> 1');
    assert.equal((await decide(id, 'approve')).status, 409);
    await end(retried);
    assert.equal(paid(), 2);
  });
});
