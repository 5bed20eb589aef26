/** Where the AI SDK's client posts its answers: with the id of another message, without any, and again. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import {
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  type UIMessage,
} from 'ai';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';
import { openAiChat } from '../support/wire/ai-chat.ts';

// oxlint-disable-next-line typescript/no-explicit-any -- a test says itself what it expects of a part
type Parts = any[];

describe('answers of a client of the AI SDK', function () {
  // A stream that says nothing must not pass for one that is slow.
  this.timeout(60_000);
  let api: ScriptedService;
  let agent: string;

  before(async () => {
    api = await startScriptedService();
    agent = await atLevel(2);
  });
  after(() => api.close());

  const atLevel = (autonomy_level: number) => api.newAgent(undefined, { autonomy_level });
  const open = (agentId = agent) => openAiChat({ url: api.url, key: api.key, agent: agentId });
  const post = (body: object, agentId = agent) => api.call('POST', `/v1/agents/${agentId}/ui-stream`, { body });
  const toolsOf = ({ messages }: { messages: UIMessage[] }) =>
    (messages.at(-1)?.parts ?? []).filter(({ type }) => type.startsWith('tool-')) as Parts;

  /** A conversation in which the second turn asks, and its messages with an answer to that. */
  async function asked() {
    const chat = open();
    await chat.sendMessage({ text: 'say first' });
    const [, first] = chat.messages;
    await chat.sendMessage({ text: 'call ask_user {"question":"colour?"}' });
    const last = chat.messages.at(-1);
    assert.ok(first && last);
    const { id, messages } = chat;
    const answer = (part: { type: string }) =>
      part.type === 'tool-ask_user' ? { ...part, state: 'output-available', output: 'blue' } : part;
    const answered = [...messages.slice(0, -1), { ...last, parts: last.parts.map(answer) }];
    return { id, messages, answered, first, last };
  }

  it('are taken from the last message, too, where the client names an earlier one', async () => {
    const { id, answered, first } = await asked();
    const { status, text } = await post({ id, messages: answered, messageId: first.id });
    assert.equal(status, 200);
    assert.match(text, /"delta":"done: /);
    assert.match(text, /"type":"finish"/);
  });

  it('that are not there leave the turn waiting, and the stream ends where it waits', async () => {
    const { id, messages, answered, first, last } = await asked();
    for (const { id: messageId } of [last, first]) {
      const { status, text } = await post({ id, messages, messageId });
      assert.equal(status, 200);
      assert.match(text, /"type":"finish","finishReason":"tool-calls"/);
    }
    assert.match((await post({ id, messages: answered, messageId: last.id })).text, /"delta":"done: /);
  });

  it('that were taken before do not come again for as long as something else of the step is open', async () => {
    const careful = await atLevel(0);
    const chat = open(careful);
    await chat.sendMessage({ text: 'call confirm {"what":"a"} & calculator {"expression":"6*7"} | say both over' });
    const send = async () => {
      await chat.sendMessage();
      return toolsOf(chat);
    };
    const [{ approval: ofConfirm }, { approval: other }] = toolsOf(chat);
    await chat.addToolApprovalResponse({ id: ofConfirm.id, approved: true });
    const [{ toolCallId, state }] = await send();
    assert.equal(state, 'input-available');
    await chat.addToolOutput({ tool: 'confirm', toolCallId, output: 'yes' });
    await send();
    const again = post({ id: chat.id, messages: chat.messages, messageId: chat.messages.at(-1)?.id }, careful);
    assert.equal((await api.call('POST', `/v1/approvals/${other.id}`, { body: { decision: 'approve' } })).status, 200);
    // In one piece where the answer was whole before the page came to read it.
    assert.match((await again).text, /"delta":"(both )?over"/);
  });

  const MOST_POSTS = 4;

  /** A page that posts answers by itself; it is refused after some posts, where it would go on for ever. */
  function openPage({ id = randomUUID(), messages = [] as UIMessage[], agentId = agent } = {}) {
    const told = { posts: 0, isDone: false };
    const via: typeof fetch = (address, init) => {
      if (init?.method === 'POST') told.posts += 1;
      return told.posts > MOST_POSTS ? Promise.reject(new Error('too many posts')) : fetch(address, init);
    };
    const chat = openAiChat({
      url: api.url,
      key: api.key,
      agent: agentId,
      id,
      messages,
      fetch: via,
      sendAutomaticallyWhen(chats) {
        const isComplete =
          lastAssistantMessageIsCompleteWithApprovalResponses(chats) ||
          lastAssistantMessageIsCompleteWithToolCalls(chats);
        told.isDone = !isComplete;
        return isComplete;
      },
    });
    const answered = async (answer: () => Promise<void>) => {
      Object.assign(told, { posts: 0, isDone: false });
      await answer();
      await waitUntil('the page posts nothing more', () => told.isDone || told.posts > MOST_POSTS);
      return told.posts;
    };
    return { id, chat, answered };
  }

  const runOf = ({ messages }: { messages: UIMessage[] }) => {
    const metadata = messages.at(-1)?.metadata as { run_id: string } | undefined;
    return metadata?.run_id;
  };
  const cancel = async (chat: { messages: UIMessage[] }) =>
    assert.equal((await api.call('POST', `/v1/runs/${runOf(chat)}/cancel`, { body: {} })).status, 202);
  const past = async (id: string): Promise<UIMessage[]> =>
    (await api.call('GET', `/v1/threads/${id}/ui-messages`)).json.messages;

  const ASKS = {
    'an approval': { call: 'calculator {"expression":"6*7"}', level: 0, settled: 'output-denied' },
    'a tool of the client': { call: 'confirm {"what":"a"}', level: 2, settled: 'output-error' },
    'a question': { call: 'ask_user {"question":"colour?"}', level: 2, settled: 'output-error' },
  };
  for (const [what, { call, level, settled }] of Object.entries(ASKS)) {
    it(`to a turn that was cancelled meanwhile are posted once, and it is told that nobody asks any more: ${what}`, async () => {
      const page = openPage({ agentId: await atLevel(level) });
      const { chat, answered } = page;
      await chat.sendMessage({ text: `call ${call} | say never` });
      const [{ approval, toolCallId, type }] = toolsOf(chat);
      await cancel(chat);
      const posts = await answered(async () => {
        if (approval) await chat.addToolApprovalResponse({ id: approval.id, approved: true });
        else await chat.addToolOutput({ tool: type.slice('tool-'.length), toolCallId, output: 'yes' });
      });
      assert.deepEqual([posts, toolsOf(chat)[0].state], [1, settled]);
      const reloaded = await past(page.id);
      assert.equal(toolsOf({ messages: reloaded })[0].state, settled, 'nor after a reload');
      const late = openPage({ id: page.id });
      assert.equal(await late.answered(() => late.chat.resumeStream()), 0);
      assert.equal(toolsOf(late.chat)[0].state, settled);
    });
  }

  it('that a turn has taken are not posted again once it was cancelled', async () => {
    const { chat, answered } = openPage();
    const words = `say ${randomUUID()}`;
    await chat.sendMessage({ text: `call confirm {"what":"a"} | held cancelled ${words}` });
    const [{ toolCallId }] = toolsOf(chat);
    const posted = answered(async () => chat.addToolOutput({ tool: 'confirm', toolCallId, output: 'yes' }));
    await waitUntil('the model goes on', () => api.model.asked(words).some(({ step }) => step === 1));
    await cancel(chat);
    assert.deepEqual([await posted, toolsOf(chat)[0].output], [1, 'yes']);
    api.model.release('cancelled');
  });

  const STALE = {
    'an approval': { call: 'calculator {"expression":"6*7"}', level: 0 },
    'a result': { call: 'confirm {"what":"a"}', level: 2 },
  };
  for (const [what, { call, level }] of Object.entries(STALE)) {
    it(`of a tab that was left behind show it how that turn went on, and not a later one in it: ${what}`, async () => {
      const agentId = await atLevel(level);
      const stale = openPage({ agentId });
      await stale.chat.sendMessage({ text: `call ${call} | say decided elsewhere` });
      const [{ approval, toolCallId }] = toolsOf(stale.chat);
      const answer = async ({ chat }: typeof stale, isMeant: boolean) => {
        if (approval) return chat.addToolApprovalResponse({ id: approval.id, approved: isMeant });
        await chat.addToolOutput({ tool: 'confirm', toolCallId, output: isMeant ? 'yes' : 'no' });
      };
      const newer = openPage({ id: stale.id, messages: await past(stale.id), agentId });
      await newer.answered(() => answer(newer, true));
      await newer.chat.sendMessage({ text: 'say next one' });
      assert.equal(await stale.answered(() => answer(stale, false)), 1);
      const [, truth] = newer.chat.messages;
      const shown = JSON.parse(JSON.stringify(stale.chat.messages)) as UIMessage[];
      assert.deepEqual([shown.length, shown[1]?.id], [2, truth?.id]);
      assert.equal(toolsOf(stale.chat)[0].state, 'output-available');
      assert.deepEqual(toolsOf(stale.chat)[0].output, toolsOf({ messages: truth ? [truth] : [] })[0].output);
      assert.match(JSON.stringify(shown[1]?.parts), /"decided elsewhere"/);
    });
  }
});
