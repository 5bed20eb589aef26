import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { runInThisContext } from 'node:vm';
import type { HttpAgent } from '@ag-ui/client';
import { ROOT } from '../support/repository.ts';
import { startServer, type LocalServer } from '../support/echo-server.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';
import { lastTextOf, openAgUi, sayTo } from '../support/wire/ag-ui.ts';

describe('a client of AG-UI', () => {
  let api: ScriptedService;
  let agent: string;
  let lost: LocalServer;

  before(async () => {
    lost = await startServer(({ socket }) => socket.destroy());
    api = await startScriptedService({ env: { DROVER_EGRESS_ALLOW: '127.0.0.1' } });
    agent = await api.newAgent(undefined, { autonomy_level: 2 });
  });
  after(async () => {
    await api.close();
    await lost.close();
  });

  const open = ({ of = agent, thread = randomUUID() } = {}) =>
    openAgUi({ url: api.url, key: api.key, agent: of, thread });

  describe('that is interrupted', () => {
    it('is answered as its page says, by `resume` alone on an agent that was told of the interrupts', async () => {
      const page = readFileSync(new URL('docs/wire-forms.md', ROOT), 'utf8');
      const [, sample = ''] = /```ts\n(const resume[^]*?)```/.exec(page) ?? [];
      const names = 'agent, mayBeDone, askUser, resultOf';
      const answer = runInThisContext(`(async (${names}) => {${sample.replaceAll(' as const', '')}})`);
      const answerAll = (client: HttpAgent) =>
        answer(
          client,
          () => true,
          () => 'ten',
          () => ({ clicked: true }),
        );
      const decided = open({ of: await api.newAgent(undefined, { autonomy_level: 0 }) });
      await sayTo(decided, 'call calculator {"expression":"6*7"} | say done');
      await answerAll(decided);
      assert.deepEqual([decided.pendingInterrupts, lastTextOf(decided)], [[], 'done']);
      const client = open();
      await sayTo(client, 'call ask_user {"question":"How much?"} & confirm {"what":"a"}');
      const [, toolCallId = ''] = client.pendingInterrupts.map(({ id }) => id);
      const before = client.messages;
      for (const said of [
        { role: 'user' as const, content: 'ten' },
        { role: 'tool' as const, toolCallId, content: 'yes' },
      ]) {
        client.addMessage({ id: randomUUID(), ...said });
        await assert.rejects(client.runAgent(), /pending interrupt\(s\) not addressed by resume/);
        client.setMessages(before);
      }
      await answerAll(client);
      assert.deepEqual(client.pendingInterrupts, []);
      const results = client.messages.flatMap(({ role, content }) => (role === 'tool' ? [content] : []));
      assert.match(JSON.stringify(results), /ten.*clicked|clicked.*ten/);
    });

    it('gives a call of unknown outcome up where the interrupt is cancelled', async () => {
      const transport = { type: 'http', endpoint: lost.url };
      const body = { name: 'lost', description: 'A tool.', transport };
      assert.equal((await api.call('POST', '/v1/tools', { body })).status, 201);
      const client = open({ of: await api.newAgent(['lost']) });
      await sayTo(client, 'call lost {} | say done');
      const [asked] = client.pendingInterrupts;
      assert.equal(asked?.reason, 'unknown');
      await client.runAgent({ resume: [{ interruptId: asked.id, status: 'cancelled' }] });
      assert.deepEqual([lastTextOf(client), client.pendingInterrupts], ['done', []]);
    });

    it('is answered by a message, or by a result, from an agent that was told of no interrupt', async () => {
      const answers = {
        'ask_user {"question":"How much?"}': () => ({ role: 'user' as const, content: 'ten' }),
        'confirm {"what":"a"}': (toolCallId: string) => ({ role: 'tool' as const, toolCallId, content: 'ten' }),
      };
      for (const [call, answer] of Object.entries(answers)) {
        const thread = randomUUID();
        const client = open({ thread });
        await sayTo(client, `call ${call}`);
        const again = open({ thread });
        again.setMessages(client.messages);
        again.addMessage({ id: randomUUID(), ...answer(client.pendingInterrupts[0]?.id ?? '') });
        await again.runAgent();
        assert.deepEqual(again.pendingInterrupts, []);
        assert.match(JSON.stringify(lastTextOf(again)), /ten/);
      }
    });
  });

  describe('that joins a thread', () => {
    const user = ({ role }: { role: string }) => role === 'user';
    const ids = (client: HttpAgent) => client.messages.map(({ id }) => id);
    const wordsOf = (client: HttpAgent) => client.messages.filter(user).map(({ content }) => content);
    /** Without the ids of the user's messages, which are each client's own. */
    const shownBy = (client: HttpAgent) =>
      client.messages.map(({ id, ...message }) => (user(message) ? message : { id, ...message }));
    const turns = [
      'think of a sum; call calculator {"expression":"6*7"} & calculator {"expression":"1+1"} | say 42',
      'call confirm {"what":"a"} | say confirmed',
      'say three',
      'call unknown_tool {} | say four',
    ];
    /** A client that was there all the time, with what it had after each turn. */
    const attend = async (thread: ReturnType<typeof randomUUID>) => {
      const client = open({ thread });
      const after: HttpAgent['messages'][] = [];
      for (const text of turns) {
        await sayTo(client, text);
        const resume = client.pendingInterrupts.map(({ id: interruptId }) => {
          return { interruptId, status: 'resolved' as const, payload: 'yes' };
        });
        if (resume.length > 0) await client.runAgent({ resume });
        after.push([...client.messages]);
      }
      return { client, after };
    };

    it('has the whole conversation that one has which was there, under the same ids', async () => {
      const thread = randomUUID();
      const { client } = await attend(thread);
      const late = open({ thread });
      await late.runAgent();
      assert.deepEqual(shownBy(late), shownBy(client));
      const had = ids(late);
      await late.runAgent();
      assert.deepEqual(ids(late), had);
      await sayTo(late, 'say five');
      assert.deepEqual([late.messages.length, lastTextOf(late)], [had.length + 2, 'five']);
    });

    it('has what was said while it was away in its place, wherever it stood, and its own messages as they are', async () => {
      const thread = randomUUID();
      const { client, after } = await attend(thread);
      const places = [1, 2, 4, 5, (after[0]?.length ?? 0) + 1, after[1]?.length ?? 0, (after[2]?.length ?? 0) - 1];
      for (const length of places) {
        const late = openAgUi({ url: api.url, key: api.key, agent, thread, after: 1_000_000 });
        late.setMessages(client.messages.slice(0, length));
        // The last one would be said again.
        if (late.messages.at(-1)?.role === 'user') late.addMessage({ id: 'x', role: 'assistant', content: 'cut' });
        await late.runAgent();
        const shown = shownBy(late).filter(({ content }) => content !== 'cut');
        assert.deepEqual(shown, shownBy(client), `after ${length} messages`);
        const own = client.messages.slice(0, length).filter(user);
        assert.deepEqual(late.messages.filter(user).slice(0, own.length), own, `after ${length} messages`);
      }
      const others = open({ thread });
      others.setMessages((after[0] ?? []).concat((after[3] ?? []).slice(after[2]?.length ?? 0)));
      await others.runAgent();
      assert.deepEqual(shownBy(others), shownBy(client));
    });

    it('has its own message again, and the answer, where it was cut between the two snapshots that tell of it', async () => {
      const thread = randomUUID();
      const gate = `gate${randomUUID()}`;
      const post = async (messages: object[]) => {
        const body = JSON.stringify({ threadId: thread, runId: 'r', messages });
        const headers = { authorization: `Bearer ${api.key}`, 'content-type': 'application/json' };
        return fetch(`${api.url}/ag-ui/${agent}`, { method: 'POST', headers, body });
      };
      const first = { id: `m${randomUUID()}`, role: 'user', content: `held ${gate} say one` };
      const streams = [await post([first])];
      await waitUntil('it is at work', () => api.model.asked(gate).length > 0);
      const said = { id: `m${randomUUID()}`, role: 'user', content: 'say two' };
      streams.push(await post([first, said]));
      streams.push(await post([first]));
      api.model.release(gate);
      const [, whole = '', again = ''] = await Promise.all(streams.map((stream) => stream.text()));
      for (const text of [whole, again]) assert.match(text, /one[^]*say two[^]*two.*\n[^]*RUN_FINISHED/);
      const [last = ''] = again.match(/^data: .*MESSAGES_SNAPSHOT.*$/gm)?.slice(-1) ?? [];
      assert.match(last, /one.*say two/);
    });

    it('has the newest of it where all would be too much', async () => {
      const thread = randomUUID();
      const client = open({ thread });
      for (const name of ['a', 'b', 'c', 'd']) await sayTo(client, `say ${name.repeat(600_000)}`);
      const late = open({ thread });
      await late.runAgent();
      const begins = wordsOf(late).map((words) => JSON.stringify(words).slice(1, 6));
      assert.deepEqual(begins, ['say b', 'say c', 'say d']);
      const kept = open({ thread });
      kept.setMessages(client.messages);
      await kept.runAgent();
      assert.deepEqual(ids(kept), ids(client), 'what the client has of older turns is its own');
    });
  });

  it('finds nothing on a thread that was erased, by its own name for it', async () => {
    const client = open({ thread: `a thread ${randomUUID()}` });
    await sayTo(client, 'say hello');
    const { runs } = (await api.call('GET', '/v1/runs?limit=1')).json;
    const erased = await api.call('DELETE', `/v1/threads/${runs[0].thread_id}`);
    assert.ok(erased.status < 300, erased.text);
    const body = { threadId: client.threadId, runId: 'r', messages: [] };
    assert.equal((await api.call('POST', `/ag-ui/${agent}`, { body })).status, 404);
  });
});
