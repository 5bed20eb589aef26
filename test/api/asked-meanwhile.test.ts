/** Somebody is asked while another call of the same answer is at work. */
import assert from 'node:assert/strict';
import { startServer, type LocalServer } from '../support/echo-server.ts';
import { door } from '../support/engine.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('What a turn asks while another of its calls is at work', () => {
  let api: ScriptedService;
  let tools: LocalServer;
  let slow: ReturnType<typeof door>;
  let agent: string;
  before(async () => {
    tools = await startServer(({ path, socket }, response) => {
      if (path === '/lost') return void socket.destroy();
      const isOpen = path === '/slow' ? slow.pass() : Promise.resolve();
      void isOpen.then(() => response.writeHead(200, { 'content-type': 'application/json' }).end('{"ok":true}'));
    });
    api = await startScriptedService({ env: { DROVER_EGRESS_ALLOW: '127.0.0.1' } });
    for (const name of ['slow', 'lost']) {
      const transport = { type: 'http', endpoint: `${tools.url}/${name}` };
      await post('/v1/tools', { name, description: 'A tool of the test.', transport });
    }
    agent = await api.newAgent(['ask_user', 'slow', 'lost', 'sleep', 'confirm']);
  });
  beforeEach(() => {
    slow = door();
    tools.seen.length = 0;
  });
  afterEach(() => slow.open());
  after(async () => {
    await api.close();
    await tools.close();
  });

  const post = async (path: string, body: unknown) => {
    const { status, json, text } = await api.call('POST', path, { body });
    assert.ok(status < 300, `${path}: ${text}`);
    return json;
  };
  const get = async (path: string) => (await api.call('GET', path)).json;
  const seen = (path: string) => tools.seen.filter((request) => request.path === path).length;
  /** Says something and waits, as a client does that wants the answer in one request. */
  async function say(message: string) {
    const { run_id: run } = await post(`/v1/agents/${agent}/runs`, {});
    const { output, turn_id: turn } = await post(`/v1/agents/${agent}/runs/${run}/turns`, { input: { message } });
    return { run: String(run), turn: String(turn), output };
  }
  const until = (run: string, status: string) =>
    waitUntil(`the run is ${status}`, async () => (await get(`/v1/runs/${run}`)).status === status);
  const turnOf = ({ run, turn }: { run: string; turn: string }) => get(`/v1/runs/${run}/turns/${turn}`);
  const callsOf = async (of: { run: string; turn: string }) =>
    (await turnOf(of)).tool_calls.map((call: { tool: string; status: string }) => [call.tool, call.status]);
  const untilComplete = (of: { run: string; turn: string }) =>
    waitUntil('the turn is complete', async () => (await turnOf(of)).status === 'complete');
  const questions = async () => (await get(`/v1/dashboard/runs?agent_id=${agent}`)).waiting_for_people.questions;

  it('is seen at once: by whoever waits for the turn, at the run, at the turn and on the dashboard', async () => {
    const { output, ...of } = await say('call ask_user {"question":"How much?"} & slow {} | say Thanks.');
    assert.equal(output.status, 'awaiting_human');
    await slow.reached;
    const { status, waiting_for: wait } = await get(`/v1/runs/${of.run}`);
    assert.deepEqual([status, wait.question], ['awaiting_human', 'How much?']);
    assert.equal((await turnOf(of)).status, 'awaiting_human');
    assert.deepEqual(await callsOf(of), [
      ['ask_user', 'running'],
      ['slow', 'running'],
    ]);
    assert.equal(await questions(), 1);
    await post(`/v1/runs/${of.run}/signals`, { type: 'user', payload: { message: '5' } });
    await until(of.run, 'awaiting_tool');
    assert.equal(await questions(), 0);
    slow.open();
    await untilComplete(of);
    assert.equal(seen('/slow'), 1);
  });

  it('is still asked when the call has ended, which is made once', async () => {
    const { output, ...of } = await say('call ask_user {"question":"Sure?"} & slow {} | say Thanks.');
    assert.equal(output.status, 'awaiting_human');
    await slow.reached;
    slow.open();
    await waitUntil('the call has ended', async () => (await callsOf(of))[1][1] === 'succeeded');
    assert.equal((await turnOf(of)).status, 'awaiting_human');
    await post(`/v1/runs/${of.run}/signals`, { type: 'user', payload: { message: 'yes' } });
    await untilComplete(of);
    assert.equal(seen('/slow'), 1);
  });

  it('may be what became of another call', async () => {
    const { output, ...of } = await say('call slow {} & lost {} | say Thanks.');
    assert.equal(output.status, 'awaiting_human');
    const { approvals } = await get(`/v1/approvals?run_id=${of.run}`);
    assert.deepEqual(
      approvals.map((each: { kind: string; tool: string }) => [each.kind, each.tool]),
      [['unknown', 'lost']],
    );
    await post(`/v1/approvals/${approvals[0].id}`, { decision: 'rerun' });
    await waitUntil('it is made again', () => Promise.resolve(seen('/lost') === 2));
    await waitUntil('it is asked about again', async () => {
      const { approvals: open } = await get(`/v1/approvals?run_id=${of.run}&status=pending`);
      return open.length === 1 && open[0].id !== approvals[0].id;
    });
    await until(of.run, 'awaiting_human');
    slow.open();
    await waitUntil('the other call has ended', async () => (await callsOf(of))[0][1] === 'succeeded');
    const { approvals: open } = await get(`/v1/approvals?run_id=${of.run}&status=pending`);
    await post(`/v1/approvals/${open[0].id}`, { decision: 'give_up' });
    await untilComplete(of);
    assert.deepEqual([seen('/slow'), seen('/lost')], [1, 2]);
  });

  it('comes after what the client is to do, and is nothing where only time is waited for', async () => {
    const { output, run } = await say('call ask_user {"question":"Sure?"} & confirm {} & slow {}');
    assert.equal(output.status, 'awaiting_tool');
    assert.deepEqual(
      output.tool_calls.map(({ tool }: { tool: string }) => tool),
      ['confirm'],
    );
    await slow.reached;
    assert.equal((await get(`/v1/runs/${run}`)).status, 'awaiting_tool');
    const { run_id: other } = await post(`/v1/agents/${agent}/runs`, {
      input: { message: 'call sleep {"seconds":3000} & slow {}' },
    });
    await until(other, 'awaiting_tool');
  });
});
