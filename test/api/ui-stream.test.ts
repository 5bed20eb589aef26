import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import {
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  type UIMessage,
} from 'ai';
import type { Call } from '../support/api.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';
import { openAiChat } from '../support/wire/ai-chat.ts';

// oxlint-disable-next-line typescript/no-explicit-any -- a test says itself what it expects of a part
type Parts = any[];

interface About {
  run_id: string;
  turn_id: string;
  thread_id: string;
  status: string;
}

const about = ({ messages }: { messages: UIMessage[] }) => messages.at(-1)?.metadata as About;

/** What the pieces of a stream come to. */
const saidIn = (stream: string): string =>
  [...stream.matchAll(/"text-delta".*"delta":"(\w+)"/g)].map(([, piece]) => piece).join('');

describe('the UI message stream of the AI SDK', () => {
  let api: ScriptedService;
  let agent: string;

  before(async () => {
    api = await startScriptedService();
    agent = await newAgent(2);
  });
  after(() => api.close());

  const newAgent = (autonomy_level: number) =>
    api.newAgent(['ask_user', 'confirm', 'calculator', 'sleep'], { autonomy_level });

  interface Opened {
    id?: string;
    agentId?: string;
    messages?: UIMessage[];
    key?: string;
    fetch?: typeof fetch;
  }
  function open({ id = randomUUID(), agentId = agent, messages = [], key = api.key, fetch: via }: Opened = {}) {
    const errors: string[] = [];
    const chat = openAiChat({
      url: api.url,
      key,
      agent: agentId,
      id,
      messages,
      ...(via && { fetch: via }),
      onError: (error) => errors.push(error.message),
      sendAutomaticallyWhen: (chats) =>
        lastAssistantMessageIsCompleteWithApprovalResponses(chats) ||
        lastAssistantMessageIsCompleteWithToolCalls(chats),
    });
    const parts = (): Parts => chat.messages.at(-1)?.parts ?? [];
    const tools = (): Parts => parts().filter(({ type }) => type.startsWith('tool-'));
    const text = () =>
      parts()
        .filter(({ type }) => type === 'text')
        .map((part) => part.text as string)
        .join('');
    const settled = (what: string, holds: () => boolean) =>
      waitUntil(what, () => holds() && (chat.status === 'ready' || chat.status === 'error'));
    return { id, chat, errors, parts, tools, text, settled };
  }

  it('shows a turn with its calls as one message that has the id of the turn', async () => {
    const { chat, parts, tools, text, errors } = open();
    await chat.sendMessage({ text: 'call calculator {"expression":"6*7"} | say It is 42.' });
    assert.deepEqual(errors, []);
    assert.equal(chat.status, 'ready');
    const [tool] = tools();
    assert.deepEqual(
      [tool.type, tool.state, tool.input],
      ['tool-calculator', 'output-available', { expression: '6*7' }],
    );
    assert.match(JSON.stringify(tool.output), /42/);
    assert.equal(text(), 'It is 42.');
    assert.deepEqual(
      parts().map(({ type }) => type),
      ['step-start', 'tool-calculator', 'step-start', 'text'],
    );
    const { run_id, turn_id, status } = about(chat);
    assert.deepEqual([chat.messages.at(-1)?.id, status], [turn_id, 'complete']);
    assert.equal((await api.call('GET', `/v1/runs/${run_id}/turns/${turn_id}`)).status, 200);
  });

  it('shows a call while its arguments are written, before the log has it', async () => {
    const message = 'wait 300 hang call calculator {"expression":"6*7"}';
    const begun = await api.call('POST', `/v1/agents/${agent}/runs`, { body: { input: { message } } });
    const { run_id, thread_id } = begun.json;
    const cut = new AbortController();
    const headers = { authorization: `Bearer ${api.key}` };
    const stream = await fetch(`${api.url}/v1/threads/${thread_id}/ui-stream`, { headers, signal: cut.signal });
    let told = '';
    const read = (async () => {
      for await (const bytes of stream.body ?? []) told += Buffer.from(bytes).toString();
    })().catch(() => undefined);
    const written = () => told.includes(JSON.stringify(JSON.stringify({ expression: '6*7' })));
    await waitUntil('its arguments are shown', written);
    const { json } = await api.call('GET', `/v1/runs/${run_id}/events?types=tool.requested`);
    assert.deepEqual(json.events, []);
    await api.call('POST', `/v1/runs/${run_id}/cancel`);
    await read;
    assert.match(told, /"tool-input-error"/);
    cut.abort();
  });

  it('goes on with a thread by the name that the client has for it, and by its id', async () => {
    const { id, chat, text } = open({ id: `chat of ${randomUUID()}` });
    await chat.sendMessage({ text: 'say one' });
    const { thread_id } = about(chat);
    await chat.sendMessage({ text: 'say two' });
    assert.equal(text(), 'two');
    const byId = open({ id: thread_id });
    await byId.chat.sendMessage({ text: 'say three' });
    assert.equal(about(byId.chat).thread_id, thread_id);
    const { json } = await api.call('GET', `/v1/runs?thread_id=${thread_id}`);
    assert.equal(json.runs.length, 1, `the run of ${id} stays open`);
    assert.equal(api.model.asked('say three')[0]?.messages.length, 5);
  });

  it('asks for approval, and goes on in the same message with the answer', async () => {
    const { chat, tools, text, settled } = open({ agentId: await newAgent(0) });
    await chat.sendMessage({
      text: 'call calculator {"expression":"6*7"} & calculator {"expression":"1+1"} | say done',
    });
    const asked = tools();
    assert.deepEqual(
      asked.map(({ state }) => state),
      ['approval-requested', 'approval-requested'],
    );
    assert.match(asked[0].approval.descriptor.message, /autonomy/);
    await chat.addToolApprovalResponse({ id: asked[0].approval.id, approved: true });
    await chat.addToolApprovalResponse({ id: asked[1].approval.id, approved: false, reason: 'no' });
    await settled('the turn ends', () => text() === 'done');
    assert.deepEqual(
      tools().map(({ state }) => state),
      ['output-available', 'output-denied'],
    );
    assert.equal(chat.messages.length, 2);
  });

  it('goes on to the end of the turn in one stream where everything that it asks for is refused', async () => {
    const of = await newAgent(0);
    const { id, chat, tools } = open({ agentId: of });
    await chat.sendMessage({
      text: 'call calculator {"expression":"6*7"} & calculator {"expression":"1+1"} | say neither',
    });
    assert.equal(tools().length, 2);
    const parts = tools().map((each) => {
      return { ...each, state: 'approval-responded', approval: { ...each.approval, approved: false } };
    });
    const messages = [{ id: chat.messages.at(-1)?.id, role: 'assistant', parts }];
    const { text } = await api.call('POST', `/v1/agents/${of}/ui-stream`, { body: { id, messages } });
    assert.equal(saidIn(text), 'neither');
  });

  it('asks once for a plan: one answer is for all of its calls', async () => {
    const { chat, tools, text, settled } = open({ agentId: await newAgent(0) });
    const calls = ['1', '2', '3'].map((n) => `calculator {"expression":"${n}"}`).join(' & ');
    await chat.sendMessage({ text: `call ${calls} | say planned` });
    assert.equal(new Set(tools().map(({ approval }) => approval.id)).size, 1);
    await chat.addToolApprovalResponse({ id: tools()[0].approval.id, approved: true });
    await settled('the turn ends', () => text() === 'planned');
    assert.deepEqual(
      tools().map(({ state }) => state),
      Array(3).fill('output-available'),
    );
  });

  it('shows reasoning, and neither refuses nor doubles it where its client posts it back', async () => {
    const bodies: string[] = [];
    const via: typeof fetch = (address, init) => {
      if (typeof init?.body === 'string') bodies.push(init.body);
      return fetch(address, init);
    };
    const { chat, parts, tools, text, errors, settled } = open({ agentId: await newAgent(0), fetch: via });
    const words = `a sum for ${randomUUID()}`;
    await chat.sendMessage({ text: `think ${words}; call calculator {"expression":"6*7"} | think so it is; say 42` });
    const reasoning = () => parts().flatMap((part) => (part.type === 'reasoning' ? [part.text] : []));
    assert.deepEqual(reasoning(), [words]);
    // The answer is posted in the message that has the reasoning.
    await chat.addToolApprovalResponse({ id: tools()[0].approval.id, approved: true });
    await settled('the turn ends', () => text() === '42');
    assert.deepEqual(reasoning(), [words, 'so it is']);
    const next = `say after ${words}`;
    await chat.sendMessage({ text: next });
    assert.deepEqual([text(), errors], [next.slice('say '.length), []]);
    const posted = bodies.map((body) => JSON.parse(body).messages.flatMap(({ parts: all }: { parts: Parts }) => all));
    const countIn = (all: Parts) => all.filter(({ type }: { type: string }) => type === 'reasoning').length;
    assert.deepEqual(posted.map(countIn), [0, 1, 2]);
    const [asked] = api.model.asked(next);
    const blocks = (asked?.messages ?? []).flatMap(({ content }): Parts => (Array.isArray(content) ? content : []));
    assert.deepEqual(
      blocks.filter(({ type }) => type === 'thinking').map(({ thinking, signature }) => [thinking, signature]),
      [words, 'so it is'].map((said) => [said, Buffer.from(`signed: ${said}`).toString('base64')]),
    );
    const again = open({ id: about(chat).thread_id });
    await again.chat.resumeStream();
    assert.equal(again.chat.messages.length, 1);
  });

  it('lets the client execute its own tools, and answer a question as one', async () => {
    const { chat, tools, text, settled } = open();
    await chat.sendMessage({ text: 'call confirm {"what":"a"} & ask_user {"question":"q?"}' });
    const [confirm, question] = tools();
    assert.deepEqual(
      [confirm.state, confirm.providerExecuted, question.input],
      ['input-available', false, { question: 'q?' }],
    );
    await chat.addToolOutput({ tool: 'confirm', toolCallId: confirm.toolCallId, output: 'yes' });
    await chat.addToolOutput({ tool: 'ask_user', toolCallId: question.toolCallId, output: 'ten' });
    await settled('the turn ends', () => text().startsWith('done: '));
    assert.match(text(), /yes, .*ten/);
  });

  it('goes on to the end of the turn once several tools of the client are answered together', async () => {
    let requests = 0;
    const counted: typeof fetch = (url, init) => {
      requests += 1;
      return fetch(url, init);
    };
    const { chat, errors, tools, text, settled } = open({ fetch: counted });
    await chat.sendMessage({
      text: 'call confirm {"what":"a"} & confirm {"what":"b"} & confirm {"what":"c"} | say all done',
    });
    for (const { toolCallId } of tools()) await chat.addToolOutput({ tool: 'confirm', toolCallId, output: 'yes' });
    await settled('the stream ends', () => tools().every(({ state }) => state === 'output-available'));
    assert.deepEqual([text(), errors, requests], ['all done', [], 2]);
  });

  it('takes a message while a question is open as its answer', async () => {
    const { chat, text, tools } = open();
    await chat.sendMessage({ text: 'call ask_user {"question":"How much?"}' });
    await chat.sendMessage({ text: 'ten' });
    const shown = chat.messages.find(({ role }) => role === 'assistant');
    assert.match(JSON.stringify(shown?.parts), /done: .*ten/, text() + JSON.stringify(tools()));
  });

  const asked = (text: string) => waitUntil('the model is asked', () => api.model.asked(text).length > 0);
  /** Until so many messages have come for the turn at work in the newest run. */
  const queued = (count = 1) =>
    waitUntil('it waits', async () => {
      const run = (await api.call('GET', '/v1/runs?limit=1')).json.runs[0].run_id;
      const { json } = await api.call('GET', `/v1/runs/${run}/events?types=message.queued`);
      return json.events.length === count;
    });
  const wordsOf = ({ messages }: { messages: UIMessage[] }) =>
    messages.map(({ parts }) => parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join(''));
  const data = (parts: Parts) => parts.filter(({ type }) => type === 'data-message').map((part) => part.data.status);

  it('takes a message while a turn is at work, and shows the turn that it begins', async () => {
    const { chat, errors } = open();
    const sent = chat.sendMessage({ text: 'held two say first of two' });
    await asked('first of two');
    await chat.stop();
    const told = chat.sendMessage({ text: 'say second of two' });
    await queued();
    api.model.release('two');
    await Promise.all([told, sent]);
    assert.deepEqual([errors, chat.status], [[], 'ready']);
    const [one, ...rest] = wordsOf(chat);
    assert.deepEqual(
      [one, rest.at(-2), rest.at(-1)],
      ['held two say first of two', 'say second of two', 'second of two'],
    );
  });

  it('shows the answer to a message of the agent that is handed the conversation in between', async () => {
    const target = `n${randomUUID()}`;
    await api.call('POST', '/v1/agents', { body: { name: target } });
    const agentId = await api.newAgent(['handoff']);
    const { id, chat } = open({ agentId });
    const sent = chat.sendMessage({
      text: `call handoff {"to_agent":"${target}","reason":"say taken"} | held over say over to them`,
    });
    await asked('over to them');
    const body = { id, messages: says('say gladly') };
    const told = api.call('POST', `/v1/agents/${agentId}/ui-stream`, { body });
    await queued();
    api.model.release('over');
    assert.equal(saidIn((await told).text), 'gladly');
    await sent;
  });

  it('lets the turn at work read a message in mode steer, which has its place in it', async () => {
    const { chat } = open();
    const sent = chat.sendMessage({
      text: 'held steered call calculator {"expression":"6*7"} | call calculator {"expression":"1"} | say not told',
    });
    await asked('not told');
    const told = chat.sendMessage({ text: 'say as told here' }, { body: { mode: 'steer' } });
    await queued();
    api.model.release('steered');
    await Promise.all([told, sent]);
    const turns = chat.messages.filter(({ role }) => role === 'assistant');
    assert.deepEqual(
      [new Set(turns.map(({ id }) => id)).size, wordsOf({ messages: turns }).at(-1)],
      [1, 'as told here'],
    );
    assert.deepEqual(data(turns.at(-1)?.parts ?? []), ['read']);
  });

  it('refuses a message in mode reject while a turn is at work, and tells of one whose place a newer one takes', async () => {
    const { id, chat } = open();
    const sent = chat.sendMessage({ text: 'held long say long enough' });
    await asked('long enough');
    assert.equal((await post({ id, messages: says('say x'), mode: 'reject' })).status, 409);
    assert.equal((await post({ id, messages: says('say x'), mode: 'loud' })).status, 400);
    const early = post({ id, messages: says('say early') });
    await queued();
    const late = post({ id, messages: says('say late') });
    await queued(2);
    api.model.release('long');
    assert.match((await early).text, /"status":"replaced"\},"transient":true\}/);
    assert.equal(saidIn((await late).text), 'late');
    await sent;
    assert.equal(api.model.asked('say early').length, 0);
  });

  it('takes a message while it asks along with the decision, which is in the message before', async () => {
    const { chat, settled } = open({ agentId: await newAgent(0) });
    await chat.sendMessage({ text: 'call calculator {"expression":"6*7"} | say not told' });
    await chat.sendMessage({ text: 'say decided on' });
    const shown = () => chat.messages.findLast(({ role }) => role === 'assistant');
    const calls: Parts = (shown()?.parts ?? []).filter(({ type }) => type.startsWith('tool-'));
    const [call] = calls;
    assert.equal(call.state, 'approval-requested');
    await chat.addToolApprovalResponse({ id: call.approval.id, approved: true });
    if (chat.messages.at(-1)?.role === 'user') {
      const messages = chat.messages;
      const answer = await post({ id: chat.id, messages, messageId: shown()?.id, trigger: 'submit-message' });
      assert.match(answer.text, /"type":"text-delta"/);
    } else await settled('the turn ends', () => wordsOf({ messages: [shown() as UIMessage] })[0] === 'decided on');
  });

  it('shows what waits for approval after a reload, and goes on from there', async () => {
    const agentId = await newAgent(0);
    const { id, chat } = open({ agentId });
    await chat.sendMessage({ text: 'call calculator {"expression":"6*7"} | say approved' });
    const loaded = open({ id, agentId, messages: chat.messages.slice(0, 1) });
    await loaded.chat.resumeStream();
    assert.equal(loaded.chat.messages.length, 2);
    assert.deepEqual(loaded.chat.messages.at(-1), chat.messages.at(-1));
    await loaded.chat.addToolApprovalResponse({ id: loaded.tools()[0].approval.id, approved: true });
    await loaded.settled('the turn ends', () => loaded.text() === 'approved');
    assert.equal(loaded.tools()[0].state, 'output-available');
  });

  it('does not cancel a turn when its client leaves, which finds it again', async () => {
    const cut = new AbortController();
    const first = open({ fetch: (url, init) => fetch(url, { ...init, signal: cut.signal }) });
    const sent = first.chat.sendMessage({ text: 'call calculator {"expression":"6*7"} | wait 700 say after all' });
    await waitUntil('the call is shown', () => first.tools().some(({ state }) => state === 'output-available'));
    cut.abort();
    await sent;
    const again = open({ id: first.id, messages: first.chat.messages });
    await again.chat.resumeStream();
    assert.deepEqual([again.text(), again.tools().length, again.chat.messages.length], ['after all', 1, 2]);
  });

  it('tells of a failed turn by an error of its own, with what it was in the message', async () => {
    const { json } = await api.call('POST', '/v1/agents', {
      body: { name: 'hurried', execution_config: { timeout_seconds: 1 } },
    });
    const { chat, errors, parts } = open({ agentId: json.id });
    await chat.sendMessage({ text: 'wait 60000 say late' });
    assert.deepEqual([chat.status, errors.length], ['error', 1]);
    const failure = parts().find(({ type }) => type === 'data-turn_error');
    assert.equal(failure.data.message, errors[0]);
  });

  it('marks what a failed turn has left unfinished as void, which nobody is shown who comes later', async () => {
    const { json } = await api.call('POST', '/v1/agents', {
      body: { name: 'broken off', execution_config: { timeout_seconds: 2 } },
    });
    const { id, chat, parts } = open({ agentId: json.id });
    await chat.sendMessage({ text: 'hang say never said whole' });
    assert.equal(chat.status, 'error');
    const [unfinished] = parts().filter(({ type }) => type === 'text');
    assert.deepEqual(unfinished?.providerMetadata, { drover: { void: true } });
    assert.match('never said whole', new RegExp(`^${unfinished.text}`));
    const again = open({ id, agentId: json.id, messages: chat.messages.slice(0, 1) });
    await again.chat.resumeStream();
    assert.deepEqual([again.text(), again.chat.status], ['', 'error']);
  });

  it('names its version, and its place in the log as ids', async () => {
    const body = { id: randomUUID(), messages: [{ id: 'm', role: 'user', parts: [{ type: 'text', text: 'say hi' }] }] };
    const answer = await post(body);
    assert.equal(answer.headers.get('x-vercel-ai-ui-message-stream'), 'v1');
    assert.match(answer.text, /^data: \{"type":"start"/m);
    assert.match(answer.text, /data: \[DONE\]\n\n$/);
    assert.doesNotMatch(answer.text, /^event:/m);
    const ids = [...answer.text.matchAll(/^id: (\d+)$/gm)].map(([, seq]) => Number(seq));
    assert.ok(ids.length > 1 && ids.every((seq, n) => n === 0 || seq >= (ids[n - 1] ?? 0)), ids.join());
    const path = `/v1/threads/${answer.headers.get('x-drover-thread-id')}/ui-stream`;
    const rest = (has: number) => api.call('GET', path, { headers: { 'last-event-id': String(has) } });
    assert.deepEqual([(await rest(ids[0] ?? 0)).status, (await rest(ids.at(-1) ?? 0)).status], [200, 204]);
    assert.equal((await api.call('GET', `/v1/threads/${randomUUID()}/ui-stream`)).status, 404);
    // A number of the run alone, as it was given before.
    const inRun = (ids.at(-1) ?? 0) % 2 ** 32;
    assert.equal((await rest(inRun)).status, 204);
    const [, run] = /"run_id":"([^"]+)"/.exec(answer.text) ?? [];
    assert.equal((await api.call('POST', `/v1/runs/${run}/complete`, { body: {} })).status, 200);
    const next = await post({ ...body, messages: says('say more') });
    const [nextId = 0] = [...next.text.matchAll(/^id: (\d+)$/gm)].map(([, seq]) => Number(seq)).slice(-1);
    assert.ok(nextId % 2 ** 32 <= inRun, 'the second run has as many events');
    for (const has of [ids.at(-1) ?? 0, inRun]) assert.match((await rest(has)).text, /more/);
    assert.equal((await rest(nextId)).status, 204);
  });

  const post = (body: unknown, call: Call = {}) => api.call('POST', `/v1/agents/${agent}/ui-stream`, { ...call, body });
  const says = (text: string) => [{ id: 'm', role: 'user', parts: [{ type: 'text', text }] }];

  it('answers a repeated Idempotency-Key with the same turn', async () => {
    const body = { id: randomUUID(), messages: says('say once') };
    const headers = { 'idempotency-key': randomUUID() };
    const first = await post(body, { headers });
    const again = await post(body, { headers });
    const start = (text: string) => text.split('\n')[1];
    assert.deepEqual([start(again.text), again.status], [start(first.text), 200]);
    assert.match(again.text, /once/);
    assert.equal(api.model.asked('say once').length, 1);
  });

  it('notes of what is said that characters were replaced, and not of what was said before', async () => {
    const { chat } = open();
    await chat.sendMessage({ text: 'say a\u0000b' });
    await chat.sendMessage({ text: 'say clean' });
    const url = `data:text/plain;base64,${Buffer.from('c\u0000').toString('base64')}`;
    await chat.sendMessage({ text: 'say read', files: [{ type: 'file', mediaType: 'text/plain', url }] });
    const { events } = (await api.call('GET', `/v1/runs/${about(chat).run_id}/events?types=turn.started`)).json;
    const inputs = events.map(({ payload }: { payload: { input: unknown } }) => payload.input);
    assert.deepEqual(inputs, [
      { message: 'say a\uFFFDb', replaced: 1 },
      { message: 'say clean' },
      { message: 'say read', attachments: [{ type: 'text', text: 'c\uFFFD' }], untrusted: true, replaced: 1 },
    ]);
  });

  it('says a message once by its id: a client that was cut off posts it again, and finds its turn', async () => {
    const turnOf = ({ text }: { text: string }) => /"messageId":"([^"]+)"/.exec(text)?.[1];
    const body = { id: randomUUID(), messages: says('say it one time') };
    const [first, beside] = await Promise.all([post(body), post(body)]);
    const again = await post(body);
    assert.deepEqual([turnOf(beside), turnOf(again)], [turnOf(first), turnOf(first)]);
    assert.equal(api.model.asked('say it one time').length, 1);
    const other = await post({ ...body, messages: says('say another one') });
    assert.notEqual(turnOf(other), turnOf(first), 'the same id for another text');
    const bad = { id: body.id, messages: says('hang say in vain') };
    const cancelled = post(bad);
    await waitUntil('the model is asked', () => api.model.asked('in vain').length > 0);
    await api.call('POST', '/v1/runs/cancel', { body: { filter: { agent_id: agent } } });
    const vain = turnOf(await cancelled);
    const retried = turnOf(await post(bad));
    assert.notEqual(retried, vain, 'one that was cancelled is tried again');
    assert.equal(turnOf(await post(bad)), retried);
    const message = { role: 'user', parts: [{ type: 'text', text: 'say it without' }] };
    const nameless = await post({ ...body, messages: [message] });
    assert.notEqual(turnOf(await post({ ...body, messages: [message] })), turnOf(nameless), 'no id');
  });

  it('refuses what it cannot do, and who may not', async () => {
    const id = randomUUID();
    const statusOf = async (body: unknown, call?: Call) => (await post(body, call)).status;
    assert.equal(await statusOf({ id, messages: says('') }), 422);
    assert.equal(await statusOf({ id, messages: says('say x'), trigger: 'regenerate-message' }), 422);
    const url = `data:text/plain;base64,${Buffer.from([0x41, 0xff, 0xfe]).toString('base64')}`;
    const parts = [
      { type: 'text', text: 'say x' },
      { type: 'file', mediaType: 'text/plain', url },
    ];
    assert.equal(await statusOf({ id, messages: [{ role: 'user', parts }] }), 422, 'not UTF-8');
    assert.equal(await statusOf({ id, messages: says('say x'), extra: 1 }), 400);
    assert.equal(await statusOf({ id, messages: [{ role: 'assistant', parts: [] }] }), 404);
    const key = async (scopes: string[]) =>
      (await api.call('POST', '/v1/api-keys', { body: { name: 'k', scopes } })).json.key as string;
    assert.equal(await statusOf({ id, messages: says('say x') }, { key: await key(['runs:read']) }), 403);
    const writer = await key(['runs:read', 'runs:write']);
    const { chat, tools, errors } = open({ agentId: await newAgent(0), key: writer });
    await chat.sendMessage({ text: 'call calculator {"expression":"1"} | say x' });
    await chat.addToolApprovalResponse({ id: tools()[0].approval.id, approved: true });
    await waitUntil('the decision is refused', () => errors.length > 0);
    assert.match(errors[0] ?? '', /approvals:write/);
  });
});
