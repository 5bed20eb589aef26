import assert from 'node:assert/strict';
import type { Answer, Call } from '../support/api.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';
import { countSignalCommits } from '../support/queries/logs.ts';
import { newName } from '../support/new-name.ts';

interface Wait {
  wait_id: string;
  type: string;
  name: string | null;
  tool_use_id?: string;
}

describe('resuming a run', () => {
  let api: ScriptedService;

  before(async () => {
    api = await startScriptedService();
  });
  after(() => api.close());

  const post = (path: string, body: unknown, call: Call = {}) => api.call('POST', path, { ...call, body });
  const resume = (run: string, body: unknown, call?: Call) => post(`/v1/runs/${run}/resume`, body, call);
  const waitsOf = async (run: string): Promise<Wait[]> => (await api.call('GET', `/v1/runs/${run}`)).json.waits ?? [];

  /** A run, once it waits for so many things. */
  async function waiting(message: string, { count = 1, ...config }: { count?: number; autonomy_level?: number } = {}) {
    const tools = ['ask_user', 'confirm', 'sleep', 'wait_for_webhook', 'calculator'];
    const { json: agent } = await post('/v1/agents', { name: newName('waiter'), tools });
    const body = { input: { message }, config: { keep_open: true, ...config } };
    const { json } = await post(`/v1/agents/${agent.id}/runs`, body);
    const run: string = json.run_id;
    await waitUntil(`${message} waits`, async () => (await waitsOf(run)).length === count);
    return { run, agent: String(agent.id), turn: String(json.turn_id), waits: await waitsOf(run) };
  }

  it("answers a question, and gives the turn's answer as a turn does", async () => {
    const { run, turn } = await waiting('call ask_user {"question":"How much?"}');
    const { status, json, text } = await resume(run, { answer: 'ten' });
    assert.equal(status, 200, text);
    assert.deepEqual([json.turn_id, json.output.status], [turn, 'complete']);
    assert.equal(json.output.message, 'done: {"message":"ten"}');
  });

  it("answers under the agent's path, and in the background where the client prefers that", async () => {
    const { run, agent, turn } = await waiting('call ask_user {"question":"How much?"}');
    const path = `/v1/agents/${agent}/runs/${run}/resume`;
    const answer = await post(path, { answer: 'ten' }, { headers: { prefer: 'respond-async' } });
    assert.deepEqual([answer.status, answer.json.turn_id], [202, turn]);
    assert.equal(answer.headers.get('location'), `/v1/runs/${run}/turns/${turn}`);
    await waitUntil('the turn ends', async () => {
      return (await api.call('GET', `/v1/runs/${run}/turns/${turn}`)).json.status === 'complete';
    });
  });

  it('waits as long as its client does before it goes on in the background', async () => {
    const answered = async (text: string, prefer: string) => {
      const { run } = await waiting(text);
      return post(`/v1/runs/${run}/resume`, { answer: 'ten' }, { headers: { prefer } });
    };
    const inTime = await answered('call ask_user {"question":"How much?"}', 'respond-async, wait=30');
    assert.deepEqual([inTime.status, inTime.json.output?.status], [200, 'complete']);
    const later = await answered('call ask_user {"question":"How much?"} | held wait say ten', 'respond-async, wait=1');
    assert.deepEqual([later.status, later.headers.get('preference-applied')], [202, 'respond-async']);
    api.model.release('wait');
    const quoted = await answered('call ask_user {"question":"How much?"}', 'respond-async, wait="30"');
    assert.deepEqual([quoted.status, quoted.json.output?.status], [200, 'complete']);
  });

  it('decides an approval, with the scope that deciding needs', async () => {
    const { run } = await waiting('call calculator {"expression":"6*7"}', { autonomy_level: 0 });
    const decision = { decision: 'approve' };
    const key = async (scopes: string[]) => (await post('/v1/api-keys', { name: 'k', scopes })).json.key as string;
    const writer = await key(['runs:read', 'runs:write']);
    assert.equal((await resume(run, { decision }, { key: writer })).status, 403);
    const decider = await key(['approvals:write']);
    assert.equal((await resume(run, { answer: 'x' }, { key: decider })).status, 403);
    const { status, json, text } = await resume(run, { decision }, { key: decider });
    assert.equal(status, 200, text);
    assert.match(json.output.message, /42/);
    const { json: listed } = await api.call('GET', `/v1/approvals?run_id=${run}`);
    assert.equal(listed.approvals[0].status, 'approved');
  });

  it("brings results of the client's tools, a payload for a webhook and one that ends a sleep", async () => {
    const client = await waiting('call confirm {"what":"a"}');
    const tool_use_id = client.waits[0]?.tool_use_id;
    const done = await resume(client.run, { tool_results: [{ tool_use_id, content: 'yes' }] });
    assert.equal(done.json.output.message, 'done: yes');
    const hook = await waiting('call wait_for_webhook {}');
    assert.equal((await resume(hook.run, { payload: { n: 1 } })).json.output.message, 'done: {"n":1}');
    const sleeper = await waiting('call sleep {"seconds":600}');
    assert.equal((await resume(sleeper.run, { payload: null })).json.output.status, 'complete');
  });

  it('answers several waits of any kind in one commit', async () => {
    const message = 'call ask_user {"question":"a?"} & wait_for_webhook {"name":"paid"} & ask_user {"question":"b?"}';
    const { run, waits } = await waiting(message, { count: 3 });
    const answers = waits.map(({ wait_id, type }) =>
      type === 'user' ? { wait_id, answer: 'yes' } : { wait_id, payload: 'paid' },
    );
    const { status, json, text } = await resume(run, { answers });
    assert.equal(status, 200, text);
    assert.equal(json.output.message, 'done: {"message":"yes"}, paid, {"message":"yes"}');
    assert.equal(await countSignalCommits(api.context.db, run), 1);
  });

  it('notes of each answer how many of its characters were replaced', async () => {
    const message = 'call ask_user {"question":"a?"} & confirm {"what":"b"} & ask_user {"question":"c?"}';
    const { run, waits } = await waiting(message, { count: 3 });
    const [client] = waits.filter(({ type }) => type === 'client_tools');
    const [first, second] = waits.filter(({ type }) => type === 'user');
    const tool_results = [{ tool_use_id: client?.tool_use_id, content: 'x\0\0' }];
    const answers = [
      { wait_id: first?.wait_id, answer: 'a\0b' },
      { wait_id: client?.wait_id, tool_results },
      { wait_id: second?.wait_id, answer: 'clean' },
    ];
    const { status, text } = await resume(run, { answers });
    assert.equal(status, 200, text);
    const { events } = (await api.call('GET', `/v1/runs/${run}/events?types=signal.received`)).json;
    const noted = events.map(({ payload }: { payload: { type: string; replaced?: number } }) => [
      payload.type,
      payload.replaced ?? 0,
    ]);
    assert.deepEqual(noted.toSorted().map(String), ['tool_results,2', 'user,0', 'user,1']);
  });

  it('decides two approvals at once', async () => {
    const calls = 'call calculator {"expression":"1+1"} & calculator {"expression":"2+2"}';
    const { run, waits } = await waiting(calls, { count: 2, autonomy_level: 0 });
    const answers = waits.map(({ wait_id }, n) => ({ wait_id, decision: { decision: n === 0 ? 'approve' : 'deny' } }));
    const { status, json, text } = await resume(run, { answers });
    assert.equal(status, 200, text);
    const ended = json.output.tool_calls.map((call: { status: string }) => call.status).toSorted();
    assert.deepEqual(ended, ['denied', 'succeeded']);
  });

  it('gives an answer in which what was answered has ended, where something else stays open', async () => {
    const calls = 'call ask_user {"question":"a?"} & calculator {"expression":"1+1"}';
    const begin = () => waiting(calls, { count: 2, autonomy_level: 0 });
    const statuses = ({ status, json, text }: Answer) => {
      assert.deepEqual([status, json.output?.status], [200, 'awaiting_human'], text);
      return json.output.tool_calls.map((call: { tool: string; status: string }) => [call.tool, call.status]);
    };
    const [one, two] = [await begin(), await begin()];
    const answered = await post(`/v1/agents/${one.agent}/runs/${one.run}/turns`, { input: { message: 'yes' } });
    assert.deepEqual(statuses(answered), [
      ['ask_user', 'succeeded'],
      ['calculator', 'awaiting_approval'],
    ]);
    const wait_id = two.waits.find(({ type }) => type === 'approval')?.wait_id;
    const decided = await resume(two.run, { wait_id, decision: { decision: 'approve' } });
    assert.deepEqual(statuses(decided), [
      ['ask_user', 'running'],
      ['calculator', 'succeeded'],
    ]);
  });

  it('keeps none of several answers where one of them fits nothing', async () => {
    const { run, waits } = await waiting('call ask_user {"question":"a?"} & ask_user {"question":"b?"}', { count: 2 });
    const [first, second] = waits.map(({ wait_id }) => wait_id);
    const unknown = '00000000-0000-7000-8000-000000000000';
    const one = { wait_id: first, answer: 'yes' };
    assert.equal((await resume(run, { answers: [one, { wait_id: unknown, answer: 'x' }] })).status, 409);
    assert.equal((await resume(run, { answers: [one, { wait_id: second, payload: 1 }] })).status, 422);
    assert.equal((await resume(run, { answers: [one, one] })).status, 400);
    assert.equal((await waitsOf(run)).length, 2);
  });

  it('is 409 with the ids of what is open where it is not clear what is answered', async () => {
    const { run, waits } = await waiting('call ask_user {"question":"a?"} & ask_user {"question":"b?"}', { count: 2 });
    const ids = waits.map(({ wait_id }) => wait_id);
    const unclear = await resume(run, { answer: 'yes' });
    assert.deepEqual([unclear.status, unclear.json.wait_ids.toSorted()], [409, ids.toSorted()]);
    const one = await resume(run, { wait_id: ids[0], answer: 'yes' });
    assert.deepEqual([one.status, one.json.output.status], [200, 'awaiting_human']);
    const again = await resume(run, { wait_id: ids[0], answer: 'yes' });
    assert.deepEqual([again.status, again.json.wait_ids], [409, [ids[1]]]);
    assert.equal((await resume(run, { answer: 'no' })).json.output.status, 'complete');
    const over = await resume(run, { wait_id: ids[1], answer: 'no' });
    assert.deepEqual([over.status, over.json.wait_ids], [409, []]);
    await post(`/v1/runs/${run}/complete`, {});
    assert.equal((await resume(run, { answer: 'no' })).status, 409);
  });

  it('takes one kind of answer, and the one that is waited for', async () => {
    const { run } = await waiting('call ask_user {"question":"a?"}');
    for (const body of [
      {},
      { answer: 'a', payload: 1 },
      { answers: [] },
      { answer: 'a', answers: [] },
      { answer: '' },
    ]) {
      assert.equal((await resume(run, body)).status, 400, JSON.stringify(body));
    }
    const { status, json } = await resume(run, { payload: 1 });
    assert.equal(status, 422);
    assert.match(json.detail, /answered by "answer", not by "payload"/);
  });

  it('counts once by its idempotency key', async () => {
    const { run, turn } = await waiting('call ask_user {"question":"a?"} | call ask_user {"question":"b?"}');
    const once = { headers: { 'idempotency-key': 'only-once' } };
    const first = await resume(run, { answer: 'one' }, once);
    assert.deepEqual([first.status, first.json.output.status], [200, 'awaiting_human']);
    const second = await resume(run, { answer: 'one' }, once);
    assert.deepEqual([second.status, second.headers.get('idempotent-replayed')], [200, 'true']);
    assert.equal(second.json.turn_id, turn);
    const last = await resume(run, { answer: 'two' });
    assert.equal(last.json.output.message, 'done: {"message":"one"}, {"message":"two"}');
  });

  describe('between its turns', () => {
    const idle = async () => {
      const { run, ...rest } = await waiting('say hello', { count: 0 });
      const waitsForTurn = async () => (await api.call('GET', `/v1/runs/${run}`)).json.waiting_for?.type === 'turn';
      await waitUntil('the run waits for its next turn', waitsForTurn);
      return { run, ...rest };
    };

    it('begins the next turn with the answer', async () => {
      const { run, turn } = await idle();
      const { json: before } = await api.call('GET', `/v1/runs/${run}`);
      const answer = { wait_id: before.waiting_for.wait_id, answer: 'say again' };
      const { status, json, text } = await resume(run, answer);
      assert.equal(status, 200, text);
      assert.deepEqual([json.output.status, json.output.message], ['complete', 'again']);
      assert.notEqual(json.turn_id, turn);
      const { json: begun } = await api.call('GET', `/v1/runs/${run}/turns/${json.turn_id}`);
      assert.deepEqual([begun.number, begun.input], [2, { message: 'say again' }]);
      assert.equal((await resume(run, { answer: 'say more' })).json.output.message, 'more');
    });

    it('begins it in the background, and once by its idempotency key', async () => {
      const { run } = await idle();
      const call = { headers: { 'idempotency-key': 'one-turn', prefer: 'respond-async' } };
      const first = await resume(run, { answer: 'say again' }, call);
      const second = await resume(run, { answer: 'say again' }, call);
      assert.deepEqual([first.status, second.status], [202, 202]);
      assert.deepEqual([second.json.turn_id, second.headers.get('idempotent-replayed')], [first.json.turn_id, 'true']);
      assert.equal((await api.call('GET', `/v1/runs/${run}/turns`)).json.turns.length, 2);
    });

    it('begins the first one of a run that was made without input', async () => {
      const { agent } = await waiting('say hello', { count: 0 });
      const { json: made } = await post(`/v1/agents/${agent}/runs`, {});
      assert.equal((await resume(made.run_id, { answer: 'say first' })).json.output.message, 'first');
    });

    it('takes nothing else: what is for no turn is 409', async () => {
      const { run } = await idle();
      const wait_id = '00000000-0000-7000-8000-000000000000';
      for (const body of [
        { payload: 1 },
        { decision: { decision: 'approve' } },
        { tool_results: [{ tool_use_id: 'a', content: 'b' }] },
        { wait_id, answer: 'late' },
        { answers: [{ wait_id, answer: 'late' }] },
      ]) {
        const { status, json } = await resume(run, body);
        assert.deepEqual([status, json.wait_ids], [409, []], JSON.stringify(body));
        assert.match(json.detail, /waits for its next turn: only an "answer"/);
      }
      assert.equal((await api.call('GET', `/v1/runs/${run}/turns`)).json.turns.length, 1);
    });
  });

  it('logs that an approval has lapsed, and answers nothing else beside it', async () => {
    const calls = 'call calculator {"expression":"1+1"} & ask_user {"question":"a?"}';
    const { run, waits } = await waiting(calls, { count: 2, autonomy_level: 0 });
    const rule = { name: 'no more', when: 'tool == "calculator"', decision: 'block', reason: 'stopped' };
    const { json: policy } = await post('/v1/policies', rule);
    const answers = waits.map(({ wait_id, type }) =>
      type === 'user' ? { wait_id, answer: 'yes' } : { wait_id, decision: { decision: 'approve' } },
    );
    const { status, json } = await resume(run, { answers });
    assert.equal(status, 409);
    assert.match(json.detail, /lapsed: .*stopped/);
    await api.call('DELETE', `/v1/policies/${policy.id}`);
    const left = await waitsOf(run);
    assert.deepEqual(
      left.map(({ type }) => type),
      ['user'],
    );
  });

  it('may be a turn, where one question is open', async () => {
    const { run, turn } = await waiting('call ask_user {"question":"a?"}');
    const attachments = [{ type: 'text', text: 'x' }];
    const turns = `/v1/runs/${run}/turns`;
    assert.equal((await post(turns, { input: { message: 'x', attachments } })).status, 422);
    const { status, json, text } = await post(turns, { input: { message: 'yes' } });
    assert.equal(status, 200, text);
    assert.deepEqual([json.turn_id, json.output.message], [turn, 'done: {"message":"yes"}']);
    const two = await waiting('call ask_user {"question":"a?"} & ask_user {"question":"b?"}', { count: 2 });
    const unclear = await post(`/v1/runs/${two.run}/turns`, { input: { message: 'yes' } });
    assert.equal(unclear.status, 409);
    assert.match(unclear.json.detail, /waits for somebody/);
  });

  it('may be a streamed turn, which shows what comes after the question', async () => {
    const { run } = await waiting('call ask_user {"question":"a?"}');
    const { text } = await post(`/v1/runs/${run}/turns/stream`, { input: { message: 'yes' } });
    assert.match(text, /event: done\ndata: \{"status":"complete"/);
    assert.ok(!text.includes('event: tool_call\n'), text);
  });
});
