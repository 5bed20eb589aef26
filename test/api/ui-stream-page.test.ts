/** What a page does with the AI SDK's client as docs/wire-forms.md has it. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { UIMessage } from 'ai';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';
import { openDocumentedChat } from '../support/wire/documented-chat.ts';

// oxlint-disable-next-line typescript/no-explicit-any -- a test says itself what it expects of a part
type Parts = any[];

describe('a page of the AI SDK, as documented,', function () {
  // A chat that hangs must not pass for one that is slow.
  this.timeout(60_000);
  let api: ScriptedService;
  let agent: string;

  before(async () => {
    api = await startScriptedService();
    const rule = { name: 'sums', when: 'tool.name == "calculator"', decision: 'require_approval' };
    const policy = await api.call('POST', '/v1/policies', { body: rule });
    assert.equal(policy.status, 201, policy.text);
    agent = await api.newAgent(['ask_user', 'confirm', 'calculator'], { autonomy_level: 2 });
  });
  after(() => api.close());

  function open({ id = `chat ${randomUUID()}`, key = api.key, messages = [] as UIMessage[] } = {}) {
    const errors: string[] = [];
    /** What was posted: the role of the last message, and the message that is named. */
    const posts: string[] = [];
    let cutAfter: RegExp | undefined;
    const via: typeof fetch = async (address, init) => {
      if (typeof init?.body === 'string') {
        const body = JSON.parse(init.body) as { messages: UIMessage[]; messageId?: string };
        posts.push(`${body.messages.at(-1)?.role} ${body.messages.findIndex((each) => each.id === body.messageId)}`);
      }
      const answer = await fetch(address, init);
      return cutAfter && answer.body ? new Response(cutting(answer.body, cutAfter), answer) : answer;
    };
    const more = { messages, onError: (error: Error) => void errors.push(error.message) };
    const { chat, resumes } = openDocumentedChat({ url: api.url, key, agent, id, more, fetch: via });
    const shown = (): Parts => chat.messages.findLast(({ role }) => role === 'assistant')?.parts ?? [];
    const tool = (name: string) => shown().findLast(({ type }) => type === `tool-${name}`);
    const text = () =>
      shown()
        .flatMap((part) => (part.type === 'text' ? [part.text] : []))
        .join('');
    return {
      id,
      chat,
      resumes,
      errors,
      posts,
      shown,
      text,
      tool,
      cutAfter: (what: RegExp | undefined) => void (cutAfter = what),
      approve: (isApproved = true) =>
        chat.addToolApprovalResponse({ id: tool('calculator').approval.id, approved: isApproved }),
      confirm: (output = 'yes') =>
        chat.addToolOutput({ tool: 'confirm', toolCallId: tool('confirm').toolCallId, output }),
      ends: (said: string) => waitUntil(`it says ${said}`, () => text().endsWith(said) && chat.status === 'ready'),
    };
  }

  /** A connection that breaks once it has brought this. */
  function cutting(body: ReadableStream<Uint8Array>, what: RegExp): ReadableStream<Uint8Array> {
    let had = '';
    const cut = new TransformStream<Uint8Array, Uint8Array>({
      transform(bytes, controller) {
        had += Buffer.from(bytes).toString();
        controller.enqueue(bytes);
        if (what.test(had)) controller.error(new TypeError('network error'));
      },
    });
    return body.pipeThrough(cut);
  }

  const BOTH = 'call calculator {"expression":"6*7"} & confirm {"what":"a"} | say all done';
  const isOpen = async (id: string) => {
    const { json } = await api.call('GET', `/v1/threads/${encodeURIComponent(id)}/conversations`);
    return json.conversations.map(({ status }: { status: string }) => status);
  };

  for (const order of [
    ['approve', 'confirm'],
    ['confirm', 'approve'],
  ] as const) {
    it(`answers an approval beside a tool of the client, ${order.join(' and then ')}`, async () => {
      const { id, chat, errors, posts, ends, ...acts } = open();
      await chat.sendMessage({ text: BOTH });
      for (const act of order) await acts[act]();
      await ends('all done');
      assert.deepEqual([errors, posts, await isOpen(id)], [[], ['user -1', 'assistant 1'], ['complete']]);
    });

    it(`does so once the person has looked at both for a while, ${order.join(' and then ')}`, async () => {
      const { chat, posts, ends, ...acts } = open();
      await chat.sendMessage({ text: BOTH });
      await acts[order[0]]();
      await waitUntil('nothing is under way', () => chat.status === 'ready');
      assert.equal(posts.length, 1);
      await acts[order[1]]();
      await ends('all done');
      assert.equal(posts.length, 2);
    });

    it(`sends its answers after a message was typed, ${order.join(' and then ')}`, async () => {
      const { id, chat, errors, posts, shown, ends, ...acts } = open();
      await chat.sendMessage({ text: BOTH });
      await chat.sendMessage({ text: 'say beside it' });
      for (const act of order) await acts[act]();
      await waitUntil('it ends', () => shown().at(-1)?.type === 'text' && chat.status === 'ready');
      await ends('beside it');
      assert.deepEqual([errors, posts.slice(0, 2), posts.length], [[], ['user -1', 'user -1'], 3]);
      assert.deepEqual(await isOpen(id), ['complete']);
    });
  }

  it('sends an answer to a tool of the client after a message was typed', async () => {
    const { chat, errors, posts, confirm, shown } = open();
    await chat.sendMessage({ text: 'call confirm {"what":"a"} | say confirmed' });
    const told = chat.sendMessage({ text: 'say and then this' });
    await waitUntil('it is shown where it waits', () => posts.length === 2 && chat.status === 'ready');
    await told;
    await confirm();
    await waitUntil(
      'both are answered',
      () => JSON.stringify(chat.messages).includes('"confirmed"') && chat.status === 'ready',
    );
    assert.ok(shown().length > 0);
    assert.deepEqual([errors, posts.length], [[], 3]);
  });

  it('sends the decisions on two calls at once, and a message typed before only once', async () => {
    const { chat, errors, posts, shown, ends } = open();
    await chat.sendMessage({ text: 'call calculator {"expression":"1"} & calculator {"expression":"2"} | say both' });
    await chat.sendMessage({ text: 'say one more' });
    const ids = new Set(shown().flatMap(({ approval }) => (approval ? [approval.id as string] : [])));
    for (const id of ids) await chat.addToolApprovalResponse({ id, approved: true });
    await ends('one more');
    assert.deepEqual([errors, posts.filter((each) => each.startsWith('user -1')).length], [[], 2]);
  });

  it('goes on asking where the next step asks again', async () => {
    const { chat, errors, posts, approve, ends } = open();
    await chat.sendMessage({
      text: 'call calculator {"expression":"1"} | call calculator {"expression":"2"} | say twice',
    });
    await approve();
    await waitUntil('it asks again', () => posts.length === 2 && chat.status === 'ready');
    await approve(false);
    await ends('twice');
    assert.deepEqual([errors, posts.length], [[], 3]);
  });

  it('posts nothing by itself where its turn was cancelled after its answer, or its message was replaced', async () => {
    const { id, chat, posts, confirm } = open();
    await chat.sendMessage({ text: 'call confirm {"what":"a"} | held it say never' });
    const sent = confirm();
    await waitUntil('the model is asked again', () => api.model.asked('say never').length > 1);
    const status = () => (chat.messages[1]?.metadata as { status?: string } | undefined)?.status;
    await waitUntil('the turn is at work', () => status() === 'executing');
    await chat.stop();
    await sent;
    const early = chat.sendMessage({ text: 'say early' });
    const path = `/v1/threads/${encodeURIComponent(id)}`;
    const run = (await api.call('GET', path)).json.last_run_id;
    await waitUntil('it waits', async () => {
      const { json } = await api.call('GET', `/v1/runs/${run}/events?types=message.queued`);
      return json.events.length === 1;
    });
    const say = (text: string) => {
      const messages = [{ id: randomUUID(), role: 'user', parts: [{ type: 'text', text }] }];
      return api.call('POST', `/v1/agents/${agent}/ui-stream`, { body: { id, messages } });
    };
    const late = say('say late');
    await early;
    assert.deepEqual([chat.status, posts.length], ['ready', 3]);
    await api.call('POST', `/v1/runs/${run}/cancel`);
    await late;
    await chat.resumeStream();
    assert.deepEqual([chat.status, posts.length], ['ready', 3]);
  });

  it('shows each message once after its network was cut in the middle', async () => {
    const { chat, resumes, errors, text, cutAfter } = open();
    assert.equal(resumes, true);
    cutAfter(/"text-delta"/);
    await chat.sendMessage({ text: 'call calculator {"expression":"1"} & confirm {"what":"a"} | say x' });
    cutAfter(/tool-approval-request/);
    await chat.resumeStream();
    cutAfter(undefined);
    await chat.resumeStream();
    assert.equal(text(), '');
    assert.deepEqual(errors, ['network error']);
    assert.equal(chat.messages.length, 2);
  });

  it('shows what is written of an answer when it is opened in the middle, beside other pages and after them', async () => {
    const { id, chat, text } = open();
    const sent = chat.sendMessage({ text: 'hang say as far as this' });
    const all = /^as far as this/;
    await waitUntil('the first page shows it', () => all.test(text()));
    const beside = open({ id, messages: chat.messages.slice(0, 1) });
    const resumed = beside.chat.resumeStream();
    await waitUntil('a page beside it shows it', () => all.test(beside.text()));
    await chat.stop();
    await beside.chat.stop();
    await Promise.all([sent, resumed]);
    const after = open({ id, messages: chat.messages.slice(0, 1) });
    const again = after.chat.resumeStream();
    await waitUntil('a page after them shows it', () => all.test(after.text()));
    assert.equal(after.shown().filter(({ type }) => type === 'text').length, 1);
    const thread = await api.call('GET', `/v1/threads/${encodeURIComponent(id)}`);
    await api.call('POST', `/v1/runs/${thread.json.last_run_id}/cancel`);
    await again;
  });

  it('begins a conversation without an error, under a name of its own', async () => {
    const { id, chat, errors } = open();
    await chat.resumeStream();
    assert.deepEqual([errors, chat.status, chat.messages], [[], 'ready', []]);
    const scopes = ['read', 'answer'];
    const made = await api.call('POST', `/v1/threads/${encodeURIComponent(id)}/tokens`, {
      body: { ttl_seconds: 600, scopes },
    });
    const page = open({ id, key: made.json.token });
    await page.chat.resumeStream();
    assert.deepEqual([page.errors, page.chat.status], [[], 'ready']);
    await page.chat.sendMessage({ text: 'say begun' });
    assert.equal(page.text(), 'begun');
    const other = open({ key: made.json.token });
    await other.chat.resumeStream();
    assert.equal(other.chat.status, 'error', 'a token for another thread');
    const answer = await api.call('GET', `/v1/threads/${randomUUID()}/ui-stream`);
    assert.equal(answer.status, 404, 'an id that there is not');
  });
});
