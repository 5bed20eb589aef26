import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import {
  isToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  safeValidateUIMessages,
  type UIMessage,
} from 'ai';
import { LIMITS } from '../../core/limits.ts';
import { startServer } from '../support/echo-server.ts';
import { onFilesystem, type Place } from '../support/file-places.ts';
import { PIXEL } from '../support/pixel.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';
import { openAiChat } from '../support/wire/ai-chat.ts';

describe('the messages of a thread for a page of the AI SDK', () => {
  let api: ScriptedService;
  let place: Place;
  let agent: string;

  before(async () => {
    place = await onFilesystem();
    api = await startScriptedService({ env: { DROVER_FILES_URL: place.url } });
    agent = await api.newAgent(undefined, { autonomy_level: 0 });
  });
  after(async () => {
    await api.close();
    await place.close();
  });

  function open({ id = randomUUID(), messages = [] as UIMessage[], key = api.key } = {}) {
    const errors: string[] = [];
    const chat = openAiChat({
      url: api.url,
      key,
      agent,
      id,
      messages,
      onError: (error) => errors.push(error.message),
      sendAutomaticallyWhen: (chats) =>
        lastAssistantMessageIsCompleteWithApprovalResponses(chats) ||
        lastAssistantMessageIsCompleteWithToolCalls(chats),
    });
    return { id, chat, errors };
  }
  const pageOf = (id: string, query = '', key = api.key) =>
    api.call('GET', `/v1/threads/${encodeURIComponent(id)}/ui-messages${query}`, { key });
  const read = async (id: string, query = '') => {
    const { status, json, text } = await pageOf(id, query);
    assert.equal(status, 200, text);
    return json as { messages: UIMessage[]; next_cursor?: string };
  };
  const asJson = (messages: UIMessage[]) => JSON.parse(JSON.stringify(messages)) as UIMessage[];
  const theAgents = (messages: UIMessage[]) => asJson(messages.filter(({ role }) => role === 'assistant'));
  const said = (messages: UIMessage[]) =>
    messages.filter(({ role }) => role === 'user').map(({ parts }) => parts.map(({ type }) => type).join());
  const threadOf = ({ chat }: ReturnType<typeof open>) =>
    ((chat.messages.at(-1)?.metadata ?? {}) as { thread_id: string }).thread_id;

  it('are what the page had that was there: its ids, parts, errors and what is open', async () => {
    const page = open({ id: `a page ${randomUUID()}` });
    await page.chat.sendMessage({ text: 'think a while; say hello' });
    const image = { type: 'file' as const, mediaType: 'image/png', filename: 'r.png', url: PIXEL };
    const note = {
      type: 'file' as const,
      mediaType: 'text/plain',
      filename: 'n.txt',
      url: 'data:text/plain;base64,aGk=',
    };
    await page.chat.sendMessage({ text: 'call unknown_tool {} | say sorry', files: [image, note] });
    await page.chat.sendMessage({ text: 'call ask_user {"question":"Why?"} & confirm {"what":"a"} | say never' });
    const { json } = await api.call('GET', '/v1/runs?limit=1');
    await api.call('POST', `/v1/runs/${json.runs[0].run_id}/cancel`, { body: {} });
    await page.chat.resumeStream();
    await page.chat.sendMessage({ text: 'call calculator {"expression":"6*7"} | say done' });
    assert.deepEqual(page.errors, []);
    const { messages, next_cursor } = await read(page.id);
    assert.equal(next_cursor, undefined);
    const { success, ...why } = await safeValidateUIMessages({ messages });
    assert.ok(success, JSON.stringify(why));
    // The stream does not tell that nobody has approved of what was asked when the run was cancelled.
    const shown = JSON.parse(JSON.stringify(messages).replace('"approved":false', '"approved":null'), dropNull);
    assert.deepEqual(theAgents(shown), theAgents(page.chat.messages));
    assert.deepEqual(
      messages.map(({ role }) => role),
      Array.from({ length: 4 }, () => ['user', 'assistant']).flat(),
    );
    assert.deepEqual(said(messages), said(page.chat.messages));
    const [kept, told] = messages[2]?.parts.filter((part) => part.type === 'file') ?? [];
    assert.deepEqual([kept?.mediaType, told?.url], ['image/png', note.url]);
    assert.equal((await api.call('GET', kept?.url ?? '')).status, 200);

    const again = open({ id: page.id, messages });
    await again.chat.resumeStream();
    assert.deepEqual(asJson(again.chat.messages), messages, 'the newest turn takes its place');
    const tool = messages.at(-1)?.parts.find((part) => part.type === 'tool-calculator');
    assert.ok(tool && 'approval' in tool && tool.state === 'approval-requested');
    await again.chat.addToolApprovalResponse({ id: tool.approval.id, approved: true });
    await waitUntil('it goes on', () => JSON.stringify(again.chat.messages.at(-1)).includes('"done"'));
    await waitUntil('it is shown', () => again.chat.status === 'ready');
    assert.match(JSON.stringify((await read(page.id)).messages.at(-1)), /output-available.*"text":"done"/);
  });

  it('have the decisions on approvals, as the validator of the AI SDK expects them', async () => {
    const page = open();
    await page.chat.sendMessage({
      text: 'call calculator {"expression":"1"} & calculator {"expression":"2"} | say done',
    });
    const toolsOf = async () => (await read(page.id)).messages.at(-1)?.parts.filter(isToolUIPart) ?? [];
    const [yes, no] = (await toolsOf()).map(({ approval }) => approval?.id ?? '');
    await page.chat.addToolApprovalResponse({ id: yes ?? '', approved: true });
    await page.chat.addToolApprovalResponse({ id: no ?? '', approved: false, reason: 'not that' });
    await waitUntil('it is done', () => JSON.stringify(page.chat.messages.at(-1)).includes('"done"'));
    await waitUntil('it is shown', () => page.chat.status === 'ready');
    const { messages } = await read(page.id);
    const { success, ...why } = await safeValidateUIMessages({ messages });
    assert.ok(success, JSON.stringify(why));
    const told = (await toolsOf()).map(({ state, approval }) => [state, approval?.approved, approval?.reason]);
    assert.deepEqual(told, [
      ['output-available', true, undefined],
      ['output-denied', false, 'not that'],
    ]);
  });

  it('are valid where somebody has said what became of a call of unknown outcome', async () => {
    const rude = await startServer((_, response) => response.destroy());
    const name = `send_${randomUUID().slice(0, 8)}`;
    const transport = { type: 'http', endpoint: `${rude.url}/send` };
    await api.call('POST', '/v1/tools', { body: { name, description: 'Sends.', transport } });
    const of = await api.newAgent([name], { autonomy_level: 3 });
    const id = randomUUID();
    const messages = [{ id: randomUUID(), role: 'user', parts: [{ type: 'text', text: `call ${name} {} | say so` }] }];
    await api.call('POST', `/v1/agents/${of}/ui-stream`, { body: { id, messages } });
    const shown = async () => (await read(id)).messages;
    const callIn = async () => (await shown()).at(-1)?.parts.find(isToolUIPart);
    assert.equal((await callIn())?.state, 'output-error');
    const approval = (await shown()).at(-1)?.parts.find(({ type }) => type === 'data-approval');
    assert.ok(approval && 'id' in approval);
    const decision = { decision: 'happened', result: { sent: true } };
    assert.equal((await api.call('POST', `/v1/approvals/${approval.id}`, { body: decision })).status, 200);
    await waitUntil('it is done', async () => JSON.stringify(await shown()).includes('"so"'));
    const told = await callIn();
    assert.deepEqual([told?.state, told?.output, told?.errorText], ['output-available', { sent: true }, undefined]);
    const { success, ...why } = await safeValidateUIMessages({ messages: await shown() });
    assert.ok(success, JSON.stringify(why));
    await rude.close();
  });

  it('tell of a turn that has failed why, and of one at work what the log has', async () => {
    const failing = await api.newAgent(undefined, { execution_config: { timeout_seconds: 1 } });
    const id = randomUUID();
    const say = (text: string) => {
      const body = { id, messages: [{ id: randomUUID(), role: 'user', parts: [{ type: 'text', text }] }] };
      return api.call('POST', `/v1/agents/${failing}/ui-stream`, { body });
    };
    await say('call calculator {"expression":"1"} | hang say late');
    const { messages } = await read(id);
    assert.match(JSON.stringify(messages.at(-1)), /data-turn_error.*timeout/);
    const waiting = say('held working say so');
    await waitUntil('it is at work', () => api.model.asked('held working').length > 0);
    const shown = (await read(id)).messages.slice(2);
    assert.deepEqual([shown.length, shown[1]?.parts], [2, []]);
    api.model.release('working');
    await waiting;
    assert.match(JSON.stringify((await read(id)).messages.at(-1)), /"so".*/);
  });

  it('come in pages, the newest turns first, each in the order of the conversation', async () => {
    const page = open();
    for (const word of ['one', 'two', 'three', 'four', 'five']) await page.chat.sendMessage({ text: `say ${word}` });
    const whole = (await read(page.id)).messages;
    const pages: UIMessage[][] = [];
    let query = '?limit=2';
    for (;;) {
      const { messages, next_cursor } = await read(page.id, query);
      pages.push(messages);
      if (next_cursor === undefined) break;
      query = `?limit=2&cursor=${next_cursor}`;
    }
    assert.deepEqual(
      pages.map(({ length }) => length),
      [4, 4, 2],
    );
    assert.deepEqual(pages.toReversed().flat(), whole);
    assert.deepEqual(theAgents(whole), theAgents(page.chat.messages));
  });

  it('come in shorter pages where they are long, and one turn at least', async () => {
    const id = randomUUID();
    const output = 'x'.repeat(LIMITS.shownOutputBytes - 100);
    const calls = Array.from({ length: 23 }, () => 'confirm {"what":"a"}').join(' & ');
    const level = await api.newAgent(undefined, { autonomy_level: 2, execution_config: {} });
    const post = (message: object) =>
      api.call('POST', `/v1/agents/${level}/ui-stream`, { body: { id, messages: [{ id: randomUUID(), ...message }] } });
    for (let turn = 0; turn < 3; turn++) {
      const { text } = await post({ role: 'user', parts: [{ type: 'text', text: `call ${calls} | say done` }] });
      const ids = new Set([...text.matchAll(/"toolCallId":"([^"]+)"/g)].map(([, each]) => each));
      const parts = [...ids].map((toolCallId) => ({
        type: 'tool-confirm',
        toolCallId,
        state: 'output-available',
        output,
      }));
      assert.match((await post({ role: 'assistant', parts })).text, /"finish"/);
    }
    const first = await read(id);
    assert.ok(JSON.stringify(first.messages).length < LIMITS.eventsPageBytes && first.next_cursor);
    const second = await read(id, `?cursor=${first.next_cursor}`);
    assert.deepEqual([first.messages.length + second.messages.length, second.next_cursor], [6, undefined]);
    assert.ok(first.messages.every((message) => !second.messages.some((other) => other.id === message.id)));
  });

  it('are read with a token for the thread, and with that of no other', async () => {
    const [page, other] = [open(), open()];
    for (const { chat } of [page, other]) await chat.sendMessage({ text: 'say hello' });
    const mint = async (id: string, scopes: string[]) =>
      (await api.call('POST', `/v1/threads/${id}/tokens`, { body: { ttl_seconds: 600, scopes } })).json.token as string;
    const [reads, answers] = [await mint(threadOf(page), ['read']), await mint(threadOf(page), ['answer'])];
    for (const name of [page.id, threadOf(page)]) {
      assert.equal((await pageOf(name, '', reads)).status, 200);
      assert.equal((await pageOf(name, '', answers)).status, 403);
    }
    for (const name of [other.id, threadOf(other), randomUUID()]) {
      assert.equal((await pageOf(name, '', reads)).status, 403);
    }
    assert.equal((await pageOf(page.id, '', (await api.newTenant()).key)).status, 404);
    assert.equal((await pageOf(randomUUID())).status, 404);
  });

  it('are gone with their thread', async () => {
    const page = open();
    await page.chat.sendMessage({ text: 'say a secret' });
    const thread = threadOf(page);
    await api.call('DELETE', `/v1/threads/${thread}`);
    for (const name of [thread, page.id]) {
      const { status, json } = await pageOf(name);
      assert.deepEqual([status, json], [200, { messages: [] }]);
      const streamed = await api.call('GET', `/v1/threads/${encodeURIComponent(name)}/ui-stream`);
      assert.equal(streamed.status, 204, streamed.text);
    }
    const { key } = await api.newTenant();
    assert.equal((await pageOf(thread, '', key)).status, 404);
    assert.equal((await api.call('GET', `/v1/threads/${thread}/ui-stream`, { key })).status, 404);
  });
});

function dropNull(_key: string, value: unknown): unknown {
  return value === null ? undefined : value;
}
