/** Where the AI SDK's client posts its answers: with the id of another message, without any, and again. */
import assert from 'node:assert/strict';
import type { UIMessage } from 'ai';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
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
    assert.match((await again).text, /"delta":"over"/);
  });
});
