import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { methods, type SessionNotification } from '@agentclientprotocol/sdk';
import type { UIMessage } from 'ai';
import { onFilesystem, type Place as StorePlace } from '../support/file-places.ts';
import { PIXEL } from '../support/pixel.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';
import { openAcp } from '../support/wire/acp.ts';
import { openAgUi } from '../support/wire/ag-ui.ts';
import { openAiChat } from '../support/wire/ai-chat.ts';

interface Conversation {
  turn_id: string;
  run_id: string;
  thread_id: string;
  sequence_number: number;
  user_message: string;
  final_response: string;
  messages: { role: string; content: { type: string; text?: string }[]; origin?: string }[];
}

interface Place {
  run: string;
  thread: string;
}

const NO_SERVERS = { cwd: '/', mcpServers: [] };

describe('the thread of a fork', () => {
  let api: ScriptedService;
  let store: StorePlace;
  let agent: string;

  before(async () => {
    store = await onFilesystem();
    api = await startScriptedService({ env: { DROVER_FILES_URL: store.url } });
    agent = await api.newAgent(undefined, { autonomy_level: 3 });
  });
  after(async () => {
    await api.close();
    await store.close();
  });

  const post = async (path: string, body: unknown, key = api.key) => {
    const { status, json, text } = await api.call('POST', path, { body, key });
    assert.ok(status < 300, `${path}: ${text}`);
    return json;
  };
  const get = async (path: string, key = api.key) => {
    const { status, json, text } = await api.call('GET', path, { key });
    assert.equal(status, 200, `${path}: ${text}`);
    return json;
  };
  const rests = (run: string) =>
    waitUntil('its turn ends', async () => {
      const { status, waiting_for } = await get(`/v1/runs/${run}`);
      return ['completed', 'failed', 'cancelled'].includes(status) || waiting_for?.type === 'turn';
    });
  const say = (run: string, words: string) => post(`/v1/runs/${run}/turns`, { input: { message: words } });
  /** A run that stays open, in which this was said, on a thread of its own or on a given one. */
  async function talk(words: readonly string[], { of = agent, on }: { of?: string; on?: string } = {}): Promise<Place> {
    const [message, ...others] = words;
    const config = { keep_open: true };
    const thread = on === undefined ? {} : { thread_id: on };
    const { run_id: run, thread_id } = await post(`/v1/agents/${of}/runs`, { input: { message }, config, ...thread });
    await rests(run);
    for (const each of others) await say(run, each);
    return { run, thread: thread_id };
  }
  const checkpoints = async (run: string) =>
    (await get(`/v1/runs/${run}/checkpoints`)).checkpoints.toReversed() as { id: string }[];
  const messagesAt = async (run: string, id: string | undefined): Promise<unknown[]> =>
    (await get(`/v1/runs/${run}/checkpoints/${id}`)).state.messages;
  async function replay(run: string, body: object, key = api.key): Promise<Place> {
    const { run_id, thread_id } = await post(`/v1/runs/${run}/replay`, { config: { keep_open: true }, ...body }, key);
    await rests(run_id);
    return { run: run_id, thread: thread_id };
  }
  /** What a front end does whose user edits what began a turn of a run: the number of the turn in the run. */
  async function edit({ run }: Place, turn: number, words: string): Promise<Place> {
    const edited = { role: 'user', content: words };
    if (turn === 1) return replay(run, { checkpoint_id: 'start', modified_state: { messages: [edited] } });
    const before = (await checkpoints(run))[turn - 2]?.id;
    const messages = [...(await messagesAt(run, before)), edited];
    return replay(run, { checkpoint_id: before, modified_state: { messages } });
  }
  /** Pages of a list, each in its order. */
  async function pagesOf<T>(path: string, name: string, limit = 50): Promise<T[][]> {
    const pages: T[][] = [];
    for (let query = `?limit=${limit}`; ;) {
      const { [name]: found, next_cursor } = await get(`${path}${query}`);
      pages.push(found);
      if (next_cursor === undefined) return pages;
      query = `?limit=${limit}&cursor=${next_cursor}`;
    }
  }
  const conversations = async (thread: string, limit?: number) =>
    (await pagesOf<Conversation>(`/v1/threads/${thread}/conversations`, 'conversations', limit)).flat();
  const uiMessages = async (thread: string, limit?: number) =>
    (await pagesOf<UIMessage>(`/v1/threads/${thread}/ui-messages`, 'messages', limit)).toReversed().flat();
  const textsOf = (messages: UIMessage[]) =>
    messages.map(({ parts }) => parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join());
  const asked = async (thread: string) =>
    (await conversations(thread)).toReversed().map(({ user_message: message }) => message);
  /** What the model is sent of it next, as a list of texts. */
  const known = async (thread: string) =>
    saidIn((await get(`/v1/threads/${thread}?messages=true`)).resumption.messages as Conversation['messages']);
  const saidIn = (messages: Conversation['messages']) =>
    messages.flatMap(({ content }) => content.flatMap(({ text }) => text ?? []));
  const shownOf = async (thread: string) =>
    (await conversations(thread)).toReversed().flatMap(({ messages }) => saidIn(messages));

  it('shows what was said before an edited message, by pages, and once in the list of the agent', async () => {
    const of = await api.newAgent();
    const first = await talk(['say one', 'say two', 'say three', 'say four'], { of });
    const before = (await conversations(first.thread)).slice(2);
    const fork = await edit(first, 3, 'say other');
    await say(fork.run, 'say five');
    const all = await conversations(fork.thread);
    assert.deepEqual(
      all.map((each) => [each.sequence_number, each.user_message, each.final_response]),
      [
        [4, 'say five', 'five'],
        [3, 'say other', 'other'],
        [2, 'say two', 'two'],
        [1, 'say one', 'one'],
      ],
    );
    assert.deepEqual(all.slice(2), before, 'the same turns of the other thread');
    assert.deepEqual(saidIn(all[1]?.messages ?? []), ['say other', 'other']);
    for (const limit of [1, 2, 3]) assert.deepEqual(await conversations(fork.thread, limit), all, `by ${limit}`);
    assert.deepEqual(await shownOf(fork.thread), await known(fork.thread));
    const ofAgent = (await pagesOf<Conversation>(`/v1/agents/${of}/conversations`, 'conversations', 3)).flat();
    assert.deepEqual(
      ofAgent.map(({ sequence_number, user_message }) => [sequence_number, user_message]),
      [
        [4, 'say five'],
        [3, 'say other'],
        [4, 'say four'],
        [3, 'say three'],
        [2, 'say two'],
        [1, 'say one'],
      ],
    );
    assert.deepEqual(await asked(first.thread), ['say one', 'say two', 'say three', 'say four']);
  });

  it('is the whole conversation for a page of the AI SDK that begins anew, and goes on with it', async () => {
    const first = await talk(['say one', 'call calculator {"expression":"6*7"} | say two', 'say three']);
    const before = (await uiMessages(first.thread)).slice(0, 4);
    const fork = await edit(first, 3, 'say other');
    const messages = await uiMessages(fork.thread);
    assert.deepEqual(messages.slice(0, 4), before);
    assert.deepEqual(textsOf(messages).slice(4), ['say other', 'other']);
    for (const limit of [1, 2]) assert.deepEqual(await uiMessages(fork.thread, limit), messages);
    const chat = openAiChat({ url: api.url, key: api.key, agent, id: fork.thread, messages });
    await chat.resumeStream();
    assert.deepEqual(textsOf(chat.messages), textsOf(messages));
    await chat.sendMessage({ text: 'say more' });
    const later = await uiMessages(fork.thread);
    assert.deepEqual(textsOf(later), [...textsOf(messages), 'say more', 'more']);
    assert.deepEqual(
      later.filter(({ role }) => role === 'assistant').map(({ id }) => id),
      chat.messages.filter(({ role }) => role === 'assistant').map(({ id }) => id),
    );
  });

  it('is the whole conversation for AG-UI clients that join it', async () => {
    const fork = await edit(await talk(['say one', 'say two', 'say three']), 3, 'say other');
    const client = openAgUi({ url: api.url, key: api.key, agent, thread: fork.thread });
    await client.runAgent();
    assert.deepEqual(
      client.messages.map(({ content }) => content),
      ['say one', 'one', 'say two', 'two', 'say other', 'other'],
    );
    assert.equal(new Set(client.messages.map(({ id }) => id)).size, 6);
  });

  it('is the whole conversation for ACP clients that load it, and nothing of the past for those that resume it', async () => {
    const fork = await edit(await talk(['say one', 'say two', 'say three']), 3, 'say other');
    const open = async () => {
      const told: SessionNotification[] = [];
      const client = await openAcp({ url: api.url, key: api.key, agent, onUpdate: (update) => told.push(update) });
      const said = () =>
        told.flatMap(({ update }) =>
          'content' in update && !Array.isArray(update.content) && update.content?.type === 'text'
            ? update.content.text || []
            : [],
        );
      return { ...client, told, said };
    };
    const [loading, resuming, later] = [await open(), await open(), await open()];
    const { load, resume } = methods.agent.session;
    const session = { ...NO_SERVERS, sessionId: fork.thread };
    await loading.agent.request(load, session);
    await loading.roundTrip();
    assert.deepEqual(loading.said(), ['say one', 'one', 'say two', 'two', 'say other', 'other']);
    const places = loading.told.flatMap(({ _meta }) => (_meta?.['drover'] as { seq?: number })?.seq ?? []);
    assert.deepEqual(
      places,
      places.toSorted((a, b) => a - b),
    );
    await later.agent.request(load, { ...session, _meta: { drover: { after: places[0] } } });
    await later.roundTrip();
    assert.ok(!later.said().includes('one') && later.said().includes('other'));
    const waiting = await replay(fork.run, { checkpoint_id: (await checkpoints(fork.run)).at(-1)?.id });
    await resuming.agent.request(resume, { ...NO_SERVERS, sessionId: waiting.thread });
    await resuming.roundTrip();
    assert.deepEqual(resuming.said(), []);
    for (const { leave } of [loading, resuming, later]) leave();
  });

  it('shows nothing of before where the first message was edited, and all where nothing was', async () => {
    const first = await talk(['say one', 'say two']);
    assert.deepEqual(await asked((await edit(first, 1, 'say other')).thread), ['say other']);
    const last = (await checkpoints(first.run)).at(-1)?.id;
    const waiting = await replay(first.run, { checkpoint_id: last });
    assert.deepEqual(await asked(waiting.thread), ['say one', 'say two']);
    assert.deepEqual(textsOf(await uiMessages(waiting.thread)), ['say one', 'one', 'say two', 'two']);
    await say(waiting.run, 'say three');
    assert.deepEqual(await asked(waiting.thread), ['say one', 'say two', 'say three']);
    assert.deepEqual(await shownOf(waiting.thread), await known(waiting.thread));
  });

  it('shows the turns whose answers are among the messages that a client has kept, and what it has put in their place', async () => {
    const first = await talk(['say one', 'say two', 'say three', 'say four']);
    const last = (await checkpoints(first.run)).at(-1)?.id;
    const messages = (await messagesAt(first.run, last)).slice(0, 3);
    messages.push({ role: 'assistant', content: 'corrected' }, { role: 'user', content: 'say other' });
    const fork = await replay(first.run, { checkpoint_id: last, modified_state: { messages } });
    const [own, ...others] = await conversations(fork.thread);
    assert.deepEqual(
      [own?.sequence_number, saidIn(own?.messages ?? [])],
      [2, ['say two', 'corrected', 'say other', 'other']],
    );
    assert.deepEqual(
      others.map(({ sequence_number, user_message }) => [sequence_number, user_message]),
      [[1, 'say one']],
    );
    assert.deepEqual(await shownOf(fork.thread), await known(fork.thread));
  });

  it('has the beginning of a turn that was open at the point among the messages of that turn', async () => {
    const of = await api.newAgent(undefined, {
      autonomy_level: 3,
      execution_config: { checkpoint_frequency: 'on_change' },
    });
    const first = await talk(['say one', 'call calculator {"expression":"6*7"} | say two'], { of });
    for (const { id } of await checkpoints(first.run)) {
      const fork = await replay(first.run, { checkpoint_id: id });
      assert.deepEqual(await shownOf(fork.thread), await known(fork.thread), 'all that its model knows');
      const numbers = (await conversations(fork.thread)).map(({ sequence_number: number }) => number);
      assert.deepEqual(
        numbers.toReversed(),
        numbers.map((_, index) => index + 1),
      );
    }
  });

  it('goes back through all forks and all runs of their threads', async () => {
    const first = await talk(['say one', 'say two']);
    await post(`/v1/runs/${first.run}/complete`, {});
    const second = await talk(['say three', 'say four'], { on: first.thread });
    const fork = await edit(second, 2, 'say five');
    assert.deepEqual(await asked(fork.thread), ['say one', 'say two', 'say three', 'say five']);
    // A fork of the fork's first turn shares nothing of the fork itself.
    const beside = await edit(fork, 1, 'say six');
    assert.deepEqual(await asked(beside.thread), ['say six']);
    await post(`/v1/runs/${fork.run}/complete`, {});
    const later = await talk(['say seven', 'say eight'], { on: fork.thread });
    const third = await edit(later, 2, 'say nine');
    const all = ['say one', 'say two', 'say three', 'say five', 'say seven', 'say nine'];
    assert.deepEqual(await asked(third.thread), all);
    assert.deepEqual(
      (await conversations(third.thread, 2)).map(({ sequence_number: number }) => number),
      [6, 5, 4, 3, 2, 1],
    );
    assert.deepEqual(
      textsOf(await uiMessages(third.thread, 1)).filter((text) => text.startsWith('say ')),
      all,
    );
    assert.deepEqual(await shownOf(third.thread), await known(third.thread));
    // Other messages in the place of all but the first turn: of the forks in between nothing is left.
    const last = (await checkpoints(third.run)).at(-1)?.id;
    const messages = [...(await messagesAt(third.run, last)).slice(0, 2), { role: 'user', content: 'say anew' }];
    const far = await replay(third.run, { checkpoint_id: last, modified_state: { messages } });
    assert.deepEqual(
      (await conversations(far.thread)).map(({ sequence_number, user_message }) => [sequence_number, user_message]),
      [
        [2, 'say anew'],
        [1, 'say one'],
      ],
    );
    assert.deepEqual(await shownOf(far.thread), await known(far.thread));
  });

  it('shows whole what its model is sent a summary of', async () => {
    const memory_config = { short_term: { strategy: 'fifo', window_size: 2 } };
    const of = await api.newAgent(undefined, { memory_config });
    const fork = await edit(await talk(['say one', 'say two', 'say three', 'say four'], { of }), 4, 'say other');
    assert.deepEqual(textsOf(await uiMessages(fork.thread)), [
      'say one',
      'one',
      'say two',
      'two',
      'say three',
      'three',
      'say other',
      'other',
    ]);
  });

  it('is shown with a token for it, and not to who has another, nor beyond the turns that it shares', async () => {
    const first = await talk(['say one', 'say two', 'say three']);
    const fork = await edit(first, 2, 'say other');
    const mint = async (thread: string) =>
      (await post(`/v1/threads/${thread}/tokens`, { ttl_seconds: 600, scopes: ['read'] })).token as string;
    const [own, others] = [await mint(fork.thread), await mint(first.thread)];
    const path = `/v1/threads/${fork.thread}/ui-messages`;
    assert.deepEqual(textsOf((await get(path, own)).messages), ['say one', 'one', 'say other', 'other']);
    assert.equal((await api.call('GET', path, { key: others })).status, 403);
    assert.equal((await api.call('GET', path, { key: (await api.newTenant()).key })).status, 404);
    for (const place of [
      [9, 9, 1],
      [1, 9, 1],
      [1, 1, 1],
      [0, 0, 1],
      [1, 1, 2],
    ]) {
      const cursor = Buffer.from(JSON.stringify(place)).toString('base64url');
      const { messages } = await get(`${path}?cursor=${cursor}`, own);
      assert.ok(!JSON.stringify(messages).includes('say two'), String(place));
    }
  });

  it('has the files of the turns that it shows, and no other, for a token for it', async () => {
    const picture = (words: string) => {
      const source = { type: 'base64', media_type: 'image/png', data: PIXEL.replace(/^.*,/, '') };
      return { message: words, attachments: [{ type: 'image', source }] };
    };
    const first = await talk(['say one']);
    for (const input of [picture('say two'), { message: 'say three' }, picture('say four')]) {
      await post(`/v1/runs/${first.run}/turns`, { input });
    }
    const fork = await replay(first.run, { checkpoint_id: (await checkpoints(first.run))[1]?.id });
    assert.deepEqual(await asked(fork.thread), ['say one', 'say two', 'say three']);
    const { token: key } = await post(`/v1/threads/${fork.thread}/tokens`, { ttl_seconds: 600, scopes: ['read'] });
    const filesOf = async (thread: string) =>
      (await uiMessages(thread)).flatMap(({ parts }) =>
        parts.flatMap((part) => (part.type === 'file' ? part.url : [])),
      );
    const [shared, later, ...others] = await filesOf(first.thread);
    assert.deepEqual([await filesOf(fork.thread), others], [[shared], []]);
    assert.equal((await api.call('GET', shared ?? '', { key })).status, 200);
    assert.equal((await api.call('GET', later ?? '', { key })).status, 403);
  });

  it('shows a key that may not read only what was said on threads where it has asked for a turn', async () => {
    const scopes = ['runs:write'];
    const { key } = await post('/v1/api-keys', { name: `writer ${randomUUID()}`, scopes });
    const first = await talk(['say one', 'say two']);
    const before = (await checkpoints(first.run))[0]?.id;
    const fork = await replay(first.run, { checkpoint_id: before }, key);
    const join = async (by: string, thread: string) => {
      const client = openAgUi({ url: api.url, key: by, agent, thread });
      await client.runAgent();
      return client.messages.map(({ content }) => content);
    };
    assert.deepEqual(await join(key, fork.thread), ['say two', 'two']);
    assert.deepEqual(await join(api.key, fork.thread), ['say one', 'one', 'say two', 'two']);
    const end = (await checkpoints(fork.run)).at(-1)?.id;
    const again = await replay(fork.run, { checkpoint_id: end }, key);
    const { turn_id } = (
      await api.call('POST', `/v1/runs/${again.run}/turns`, { body: { input: { message: 'say more' } }, key })
    ).json;
    assert.ok(turn_id);
    assert.deepEqual(await join(key, again.thread), ['say two', 'two', 'say more', 'more']);
  });

  it('is gone with what it stands on, and goes on without it', async () => {
    const first = await talk(['say one', 'say two']);
    const fork = await edit(first, 2, 'say other');
    await post(`/v1/runs/${fork.run}/complete`, {});
    const next = await edit(fork, 1, 'say apart');
    assert.equal((await api.call('DELETE', `/v1/threads/${first.thread}`)).status, 409);
    assert.equal((await api.call('DELETE', `/v1/runs/${fork.run}?dependents=true`)).status, 202);
    for (const thread of [fork.thread, next.thread]) assert.deepEqual(await uiMessages(thread), []);
    const later = await talk(['say later'], { on: fork.thread });
    assert.deepEqual(await known(later.thread), ['say later', 'later']);
    assert.deepEqual(textsOf(await uiMessages(fork.thread)), ['say later', 'later']);
    assert.deepEqual(textsOf(await uiMessages(first.thread)), ['say one', 'one', 'say two', 'two']);
    assert.equal((await api.call('DELETE', `/v1/threads/${first.thread}?dependents=true`)).status, 202);
    assert.deepEqual(await uiMessages(first.thread), []);
  });
});
