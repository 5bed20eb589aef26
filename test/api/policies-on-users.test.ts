/** Policies on the user of a session hold for everything that works for the session. */
import assert from 'node:assert/strict';
import { carryHandoffs } from '../../modules/workflows/carry-handoffs.ts';
import { rebuildProjections } from '../../modules/run-log/rebuild-projections.ts';
import { DEFAULT_TENANT_ID } from '../../modules/tenants/bootstrap.ts';
import { storedRun } from '../support/queries/runs.ts';
import { startServer, type LocalServer } from '../support/echo-server.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';

const PAY = 'call pay {}';
const BLOCKED = /Blocked by a policy: not for bob/;
const QUIET = ['completed', 'failed', 'awaiting_human'];

interface Node {
  run_id: string;
  children: Node[];
}

describe('A policy on a user', () => {
  let api: ScriptedService;
  let shop: LocalServer;
  let boss: string;
  let payer: string;
  let middle: string;

  before(async () => {
    shop = await startServer((_, response) => void response.writeHead(200).end('{"paid":true}'));
    api = await startScriptedService();
    const pay = { name: 'pay', description: 'Pays.', transport: { type: 'http', endpoint: shop.url } };
    await made('/v1/tools', { ...pay, input_schema: { type: 'object' } });
    boss = await api.newAgent(['delegate'], { autonomy_level: 2 });
    middle = await api.newAgent(['delegate', 'handoff']);
    payer = await api.newAgent(['pay']);
    const when = 'tool == "pay" && user == "bob"';
    await made('/v1/policies', { name: 'not bob', when, decision: 'block', reason: 'not for bob' });
  });
  beforeEach(() => void (shop.seen.length = 0));
  after(async () => {
    const { differences } = await rebuildProjections(api.context.db, { check: true });
    await api.close();
    await shop.close();
    assert.deepEqual(differences, []);
  });

  const made = async (path: string, body: unknown, method = 'POST') => {
    const { status, json, text } = await api.call(method, path, body === undefined ? {} : { body });
    assert.ok(status < 300, `${path}: ${text}`);
    return json;
  };
  const stored = (run: string) => storedRun({ context: api.context, tenantId: DEFAULT_TENANT_ID }, run);
  const read = async (path: string) => (await api.call('GET', path)).json;
  const delegate = (agent: string, description: string) => `call delegate ${JSON.stringify({ agent, description })}`;
  const quiet = async (run: string) => {
    await waitUntil('the run is quiet', async () => QUIET.includes((await read(`/v1/runs/${run}`)).status));
    return read(`/v1/runs/${run}`);
  };
  /** The run that has answered the message of a user, and the runs below it, from its child on down. */
  const chat = async (user: string, message: string): Promise<{ run: string; below: string[]; answer: string }> => {
    const body = { message, user_id: user, agent_id: boss, autonomy_level: 2 };
    const { session_id: session } = await made('/agent/chat', body);
    const { run_id: run } = await read(`/agent/session/${session}`);
    const { output } = await quiet(run);
    const below: string[] = [];
    for (let [node]: (Node | undefined)[] = (await read(`/v1/runs/${run}/tree`)).children; node; [node] = node.children)
      below.push(node.run_id);
    return { run, below, answer: output.message };
  };

  it('holds for what the agent of the session has delegated, at any depth, and for no other user', async () => {
    const two = await chat('bob', delegate(middle, delegate(payer, PAY)));
    assert.deepEqual([shop.seen.length, two.below.length], [0, 2], two.answer);
    assert.match(two.answer, BLOCKED);
    const one = await chat('bob', delegate(payer, PAY));
    assert.deepEqual([shop.seen.length, one.below.length], [0, 1], one.answer);
    assert.match(one.answer, BLOCKED);
    const ada = await chat('ada', delegate(middle, delegate(payer, PAY)));
    assert.deepEqual([shop.seen.length, ada.below.length], [1, 2], ada.answer);
  });

  it('holds for a child that is replayed, and where the call of a child is tried out', async () => {
    const { below } = await chat('bob', delegate(payer, PAY));
    const { new_run_id: replayed } = await made(`/v1/runs/${below[0]}/replay`, { checkpoint_id: 'start' });
    assert.match((await quiet(replayed)).output.message, BLOCKED);
    assert.equal(shop.seen.length, 0);
    const tried = await made('/v1/policies/evaluate', { tool: 'pay', run_id: below[0] });
    assert.deepEqual([tried.decision, tried.policy?.name], ['block', 'not bob']);
  });

  it('holds for the agent to whom the replay of a child hands over', async () => {
    const { below } = await chat('bob', delegate(middle, delegate(payer, PAY)));
    const content = `call handoff ${JSON.stringify({ to_agent: payer, reason: 'It goes on.' })} | say over`;
    const replay = { checkpoint_id: 'start', modified_state: { messages: [{ role: 'user', content }] } };
    const { new_run_id: replayed } = await made(`/v1/runs/${below[0]}/replay`, replay);
    await quiet(replayed);
    const { events } = await read(`/v1/runs/${replayed}/events?types=handoff.initiated`);
    const target = async (): Promise<string | null> => {
      await carryHandoffs(api.context);
      return (await read(`/v1/handoffs/${events[0].payload.handoff_id}`)).target_run_id;
    };
    await waitUntil('the target has it', async () => (await target()) !== null);
    assert.equal((await stored((await target()) ?? '')).config.for_user, 'bob');
  });

  it('holds by the user of the session alone: a run cannot be begun in the name of another', async () => {
    const body = { input: { message: PAY }, config: { for_user: 'ada' } };
    assert.equal((await api.call('POST', `/v1/agents/${payer}/runs`, { body })).status, 400);
  });

  it('makes no child a part of the session', async () => {
    const { run, below } = await chat('bob', delegate(middle, delegate(payer, PAY)));
    const configs = await Promise.all([run, ...below].map(async (id) => (await stored(id)).config));
    assert.deepEqual(
      configs.map(({ session, for_user }) => [session?.user_id, for_user]),
      [
        ['bob', undefined],
        [undefined, 'bob'],
        [undefined, 'bob'],
      ],
    );
    const { thread_id: thread } = await read(`/v1/runs/${below[0]}`);
    assert.equal((await api.call('GET', `/agent/session/${thread}`)).status, 404);
  });

  it('leaves no name of a user in a child that is erased', async () => {
    const { run, below } = await chat('zacharias', delegate(payer, PAY));
    const { keep_open: isOpen } = await read(`/v1/runs/${run}`);
    if (isOpen) await made(`/v1/runs/${run}/complete`, {});
    await made(`/v1/runs/${run}`, undefined, 'DELETE');
    for (const id of below) {
      await waitUntil('it is erased', async () => (await read(`/v1/runs/${id}`)).erased_at !== undefined);
      const row = await stored(id);
      const { events } = await read(`/v1/runs/${id}/events?limit=200`);
      assert.doesNotMatch(JSON.stringify([row.config, events]), /zacharias/);
    }
  });
});
