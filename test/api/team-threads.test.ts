import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { agentsOf, hasResult, startAgentsThatSay, text, use, type Say } from '../support/agents-that-say.ts';
import type { TestApi } from '../support/api.ts';
import { conversationRequests, type AnthropicRequest } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { tablesWith } from '../support/find-text.ts';
import { waitUntil } from '../support/wait-until.ts';
import { titleThreads } from '../../modules/conversations/title-threads.ts';

describe("A team's objective on a thread", () => {
  let api: TestApi;
  let model: FakeServer;
  let key: string;
  let { ids, make, read, agent } = {} as ReturnType<typeof agentsOf>;
  let say: Say;

  before(async () => {
    ({ api, model } = await startAgentsThatSay((...asked) => say(...asked)));
  });
  after(() => api.close());
  beforeEach(async () => {
    ({ key } = await api.newTenant());
    ({ ids, make, read, agent } = agentsOf(api, key));
    for (const name of ['ann', 'bob', 'lead']) await agent(name);
    model.requests.length = 0;
    say = (name) => text(`${name} answers`);
  });

  const team = async (more: Record<string, unknown> = {}, names = ['ann', 'bob']): Promise<string> => {
    const members = names.map((name, priority) => ({ agent_id: ids[name], role: name, priority }));
    const { id } = await make('/v1/teams', {
      name: randomUUID(),
      orchestration_pattern: 'sequential',
      members,
      ...more,
    });
    return id;
  };
  const objective = (who: Record<string, unknown>, more: Record<string, unknown>) =>
    api.call('POST', '/v1/objectives', {
      key,
      body: { schema_version: 'v1', request_id: randomUUID(), objective_prompt: 'And now?', ...who, ...more },
    });
  const isOver = async (id: string) =>
    ['completed', 'failed', 'cancelled'].includes((await read(`/v1/runs/${id}`)).status);
  const ended = async (id: string) => {
    await waitUntil(`${id} ends`, () => isOver(id));
    return read(`/v1/runs/${id}`);
  };
  const done = async (id: string) => {
    const run = await ended(id);
    assert.equal(run.status, 'completed', JSON.stringify(run.error));
    return run;
  };
  const turn = async (
    name: string,
    message: string,
    thread_id?: string,
  ): Promise<{ run_id: string; thread_id: string }> => {
    const made = await make(`/v1/agents/${ids[name]}/runs`, { input: { message }, thread_id }, 202);
    await done(made.run_id);
    return made;
  };
  const asTeam = async (thread_id: string, more: Record<string, unknown> = {}, team_id?: string): Promise<string> => {
    const answer = await objective({ team_id: team_id ?? (await team()) }, { thread_id, ...more });
    assert.equal(answer.status, 202, answer.text);
    return answer.json.run_id;
  };
  const workflow = (id: string) => read(`/v1/workflows/${id}`);

  const sorted = (texts: string[]) => texts.toSorted((a, b) => (a < b ? -1 : 1));

  /** What each request read, as texts, with the name of the agent. */
  const readBy = () =>
    conversationRequests(model).map(({ body }) => {
      const name = /I am (\w+)\./.exec(JSON.stringify(body['system']))?.[1] ?? '?';
      return [name, ...body.messages.map(textOf)];
    });
  const textOf = ({ content }: AnthropicRequest['messages'][number]) =>
    typeof content === 'string'
      ? content
      : content.map((block) => (typeof block['text'] === 'string' ? block['text'] : block.type)).join('\n');

  it('goes on with it: its members read what was said, and who comes after reads the answer', async () => {
    const first = await turn('ann', 'The word is KESTREL.');
    const { thread_id } = first;
    model.requests.length = 0;
    const run_id = await asTeam(thread_id);
    const run = await done(run_id);
    assert.deepEqual([run.kind, run.thread_id, run.output.message], ['workflow', thread_id, 'bob answers']);
    const { text: stream } = await api.call('GET', `/v1/runs/${run_id}/stream`, { key });
    assert.match(stream, /event: message\ndata: .*"bob answers"/);
    const said = ['The word is KESTREL.', 'ann answers'];
    assert.deepEqual(readBy(), [
      ['ann', ...said, 'And now?'],
      ['bob', ...said, 'And now?\n\nResult of 1-ann:\nann answers'],
    ]);
    const { resumption } = await read(`/v1/threads/${thread_id}?messages=true`);
    assert.equal(resumption.messages.length, 4);
    model.requests.length = 0;
    const last = await turn('lead', 'And then?', thread_id);
    assert.deepEqual(readBy(), [['lead', ...said, 'And now?', 'bob answers', 'And then?']]);
    const { conversations } = await read(`/v1/threads/${thread_id}/conversations`);
    assert.deepEqual(
      conversations.map((each: Record<string, unknown>) => [
        each['sequence_number'],
        each['run_id'],
        each['user_message'],
        each['final_response'],
      ]),
      [
        [3, last.run_id, 'And then?', 'lead answers'],
        [2, run_id, 'And now?', 'bob answers'],
        [1, first.run_id, 'The word is KESTREL.', 'ann answers'],
      ],
    );
    const thread = await read(`/v1/threads/${thread_id}?messages=true`);
    assert.deepEqual([thread.total_runs, thread.agent_id, thread.resumption.messages.length], [3, ids['ann'], 6]);
  });

  it('goes on with one that a team has begun, in each way in which teams work', async () => {
    const supervisor_agent_id = ids['lead'];
    const ways: [Record<string, unknown>, string[]][] = [
      [{ orchestration_pattern: 'parallel', supervisor_agent_id }, ['ann', 'bob', 'lead']],
      [{ orchestration_pattern: 'parallel' }, ['ann', 'bob']],
      [{ orchestration_pattern: 'sequential' }, ['ann', 'bob']],
      [{ orchestration_pattern: 'hierarchical', supervisor_agent_id }, ['lead']],
    ];
    for (const [way, names] of ways) {
      const of = await team(way);
      const begun = await done(await asTeam('ext:of a team', { objective_prompt: 'The word is KESTREL.' }, of));
      model.requests.length = 0;
      const again = await done(await asTeam('ext:of a team', {}, of));
      assert.equal(again.thread_id, begun.thread_id);
      const asked = readBy();
      assert.deepEqual(sorted(asked.map(([name = '']) => name)), names, JSON.stringify(way));
      for (const said of asked)
        assert.deepEqual(said.slice(-3, -1), ['The word is KESTREL.', begun.output.message], JSON.stringify(way));
    }
  });

  it('has a title made of it where it begins a thread that its client names, or is the first to be answered', async () => {
    const of = await team({}, ['bob']);
    const titleOf = async (run_id: string) => {
      const { thread_id } = await done(run_id);
      await waitUntil('the thread has a title', async () => {
        await titleThreads(api.context);
        return (await read(`/v1/threads/${thread_id}`)).title !== null;
      });
      return (await read(`/v1/threads/${thread_id}`)).title;
    };
    assert.equal(await titleOf(await asTeam('ext:begun by a team', {}, of)), 'A title');
    say = () => undefined;
    const open = await make(`/v1/agents/${ids['ann']}/runs`, { input: { message: 'Hello' } }, 202);
    await make(`/v1/runs/${open.run_id}/cancel`, {}, 202);
    say = (name) => text(`${name} answers`);
    assert.equal(await titleOf(await asTeam(open.thread_id, {}, of)), 'A title');
  });

  it('keeps from those who do a part of the work what was said on the thread', async () => {
    const { thread_id } = await turn('lead', 'The word is KESTREL.');
    const of = await team({ orchestration_pattern: 'hierarchical', supervisor_agent_id: ids['lead'] });
    let joined: Promise<unknown> = Promise.resolve();
    say = async (name, _said, request) => {
      if (name !== 'lead') return text(`${name} did it`);
      if (hasResult(request)) return text('all is done');
      const workflow_id = (await read(`/v1/threads/${thread_id}`)).last_run_id;
      joined = make(
        '/v1/tasks',
        { description: 'A part, too.', workflow_id, requirements: { preferred_agents: [ids['ann']] } },
        202,
      );
      await joined;
      return use('delegate', { agent: 'bob', description: 'A part.' });
    };
    model.requests.length = 0;
    await done(await asTeam(thread_id, {}, of));
    await joined;
    const others = readBy().filter(([name]) => name !== 'lead');
    assert.deepEqual(sorted(others.map(([, ...said]) => said.join('\n'))), ['A part, too.', 'A part.']);
    assert.ok(readBy().every(([name, first]) => name !== 'lead' || first === 'The word is KESTREL.'));
  });

  it('is refused where an objective of an agent is: for a busy thread, one of others, and one that is gone', async () => {
    const nowhere = '00000000-0000-7000-8000-00000000dead';
    const of = { team_id: await team() };
    const both = async (thread_id: string) => {
      const answers = [await objective({ agent_id: ids['bob'] }, { thread_id }), await objective(of, { thread_id })];
      return answers.map(({ status, json }) => [status, json.code, json.detail, json.run_id]);
    };
    const same = async (thread_id: string, status: number) => {
      const [one, other] = await both(thread_id);
      assert.deepEqual([one?.[0], other], [status, one]);
      return one;
    };
    say = () => undefined;
    const open = await make(`/v1/agents/${ids['ann']}/runs`, { input: { message: 'Hello' } }, 202);
    assert.equal((await same(open.thread_id, 409))?.at(-1), open.run_id);
    await make(`/v1/runs/${open.run_id}/cancel`, {}, 202);
    const busy = await asTeam(open.thread_id);
    assert.equal((await same(open.thread_id, 409))?.at(-1), busy);
    await make(`/v1/runs/${busy}/cancel`, {}, 202);
    await same(nowhere, 404);
    const theirs = agentsOf(api, (await api.newTenant()).key);
    await theirs.agent('ann');
    const foreign = await theirs.make(`/v1/agents/${theirs.ids['ann']}/runs`, {});
    await same(foreign.thread_id, 404);
    assert.equal((await api.call('DELETE', `/v1/threads/${open.thread_id}`, { key })).status, 202);
    await waitUntil('it is erased', async () => (await read(`/v1/threads/${open.thread_id}`)).erased_at !== undefined);
    await same(open.thread_id, 409);
  });

  it('is refused on the thread of a session, whose messages go to its chat', async () => {
    const chat = { message: 'Hello', agent_id: ids['ann'], user_id: 'eve' };
    const { session_id } = await make('/agent/chat', chat, 202);
    await waitUntil('it has answered', async () => (await read(`/agent/session/${session_id}`)).status === 'completed');
    await make(`/v1/runs/${(await read(`/v1/threads/${session_id}`)).last_run_id}/complete`, {}, 200);
    const refused = await objective({ team_id: await team() }, { thread_id: session_id });
    assert.deepEqual([refused.status, refused.json.session_id], [409, session_id], refused.text);
  });

  it('is one run however often it is sent, and another with another thread', async () => {
    const { thread_id } = await turn('ann', 'Hello');
    const body = { request_id: randomUUID(), thread_id };
    const of = { team_id: await team() };
    const answers = await Promise.all([1, 2, 3].map(() => objective(of, body)));
    const [first] = answers;
    for (const { status, json } of answers) assert.deepEqual([status, json], [202, first?.json]);
    await done(first?.json.run_id);
    assert.deepEqual((await objective(of, body)).json, first?.json);
    assert.equal((await objective(of, { ...body, thread_id: undefined })).status, 422);
    assert.equal((await read(`/v1/threads/${thread_id}`)).total_runs, 2);
  });

  it('reads what was said also if it is tried again, or replayed', async () => {
    const { thread_id } = await turn('ann', 'The word is KESTREL.');
    const said = ['The word is KESTREL.', 'ann answers'];
    say = () => undefined;
    const of = await team({}, ['bob']);
    const cancelled = await asTeam(thread_id, {}, of);
    await make(`/v1/runs/${cancelled}/cancel`, {}, 202);
    say = (name) => text(`${name} answers`);
    const bobs = () => readBy().filter(([name]) => name === 'bob');
    model.requests.length = 0;
    const retried = await make(`/v1/runs/${cancelled}/retry`, {}, 202);
    const run = await done(retried.new_run_id);
    assert.deepEqual([run.thread_id, bobs()], [thread_id, [['bob', ...said, 'And now?']]]);
    model.requests.length = 0;
    const again = { checkpoint_id: 'start', rerun_effects: true };
    const replayed = await done((await make(`/v1/runs/${retried.new_run_id}/replay`, again, 202)).new_run_id);
    assert.notEqual(replayed.thread_id, thread_id);
    assert.deepEqual(bobs(), [['bob', ...said, 'And now?']]);
    model.requests.length = 0;
    await turn('lead', 'And then?', replayed.thread_id);
    assert.deepEqual(readBy(), [['lead', ...said, 'And now?', 'bob answers', 'And then?']]);
    model.requests.length = 0;
    const [child] = (await workflow(retried.new_run_id)).tasks;
    const alone = await done(
      (await make(`/v1/runs/${child.run_id}/replay`, { checkpoint_id: 'start' }, 202)).new_run_id,
    );
    assert.equal(alone.output.message, 'bob answers');
    assert.deepEqual(bobs(), [['bob', ...said, 'And now?']]);
  });

  it('is shown on the thread of its replay, too, with what was said before it', async () => {
    const { thread_id } = await turn('ann', 'The word is KESTREL.');
    await turn('bob', 'And so?', thread_id);
    const flow = await asTeam(thread_id, {}, await team({}, ['bob']));
    await done(flow);
    await turn('lead', 'And then?', thread_id);
    const shown = async (thread: string) => {
      const { conversations } = await read(`/v1/threads/${thread}/conversations`);
      const numbered = conversations.map((each: Record<string, unknown>) => [
        each['sequence_number'],
        each['user_message'],
      ]);
      const { messages } = await read(`/v1/threads/${thread}/ui-messages`);
      const { resumption } = await read(`/v1/threads/${thread}?messages=true`);
      return { numbered, told: messages.length, known: resumption.messages.length };
    };
    const before = [
      [2, 'And so?'],
      [1, 'The word is KESTREL.'],
    ];
    const replay = async (run: string, more = {}) =>
      done((await make(`/v1/runs/${run}/replay`, { checkpoint_id: 'start', ...more }, 202)).new_run_id);
    for (const mode of ['live', 'recorded']) {
      const again = await replay(flow, { mode });
      assert.notEqual(again.thread_id, thread_id);
      const replayed = { numbered: [[3, 'And now?'], ...before], told: 6, known: 6 };
      assert.deepEqual(await shown(again.thread_id), replayed, mode);
      const twice = await replay(again.id, { mode });
      assert.deepEqual(await shown(twice.thread_id), replayed, `${mode}, twice`);
      await turn('lead', 'And then?', again.thread_id);
      const gone = { numbered: [[4, 'And then?'], ...replayed.numbered], told: 8, known: 8 };
      assert.deepEqual(await shown(again.thread_id), gone, `${mode}, gone on with`);
    }
  });

  it('saves where it stands while its members are at work, and goes on', async () => {
    const { thread_id } = await turn('ann', 'The word is KESTREL.');
    let finish = () => {};
    const finished = new Promise<void>((resolve) => (finish = resolve));
    say = async (name) => {
      await finished;
      return text(`${name} answers`);
    };
    const run_id = await asTeam(thread_id, {}, await team({}, ['bob']));
    await waitUntil('bob is asked', () => readBy().some(([name]) => name === 'bob'));
    const { id } = await make(`/v1/runs/${run_id}/checkpoints`, {});
    const { state } = await read(`/v1/runs/${run_id}/checkpoints/${id}`);
    assert.equal(state.messages.length, 2);
    finish();
    await done(run_id);
  });

  it('has its members know of what nobody vouches for and no model has answered to', async () => {
    say = () => ({ error: { status: 400, type: 'invalid_request_error', message: 'no' } });
    const image = { type: 'image', source: { type: 'url', url: 'https://a.example/a.png' } };
    const input = { message: 'Look', attachments: [image] };
    const { run_id, thread_id } = await make(`/v1/agents/${ids['ann']}/runs`, { input }, 202);
    assert.equal((await ended(run_id)).status, 'failed');
    say = (name) => text(`${name} answers`);
    const flow = await asTeam(thread_id, {}, await team({}, ['bob']));
    await done(flow);
    const [{ run_id: child }] = (await workflow(flow)).tasks;
    const told = async (run: string, type: string) =>
      (await read(`/v1/runs/${run}/events?types=${type}`)).events[0].payload.untrusted;
    assert.deepEqual(await Promise.all([told(child, 'run.created'), told(flow, 'turn.completed')]), [true, true]);
  });

  it('leaves a message that waits there to the next agent', async () => {
    say = () => undefined;
    const stream = (message: string) =>
      api.call('POST', `/v1/agents/${ids['ann']}/ui-stream`, {
        key,
        body: { id: 'chat', messages: [{ id: randomUUID(), role: 'user', parts: [{ type: 'text', text: message }] }] },
      });
    const streams = [stream('Hello')];
    await waitUntil('ann thinks', () => model.requests.length > 0);
    const { thread_id, run_id } = (await read('/v1/runs')).runs[0];
    streams.push(stream('I WAIT'));
    await waitUntil('it waits', async () =>
      (await read(`/v1/runs/${run_id}/events`)).events.some(({ type }: { type: string }) => type === 'message.queued'),
    );
    await make(`/v1/runs/${run_id}/cancel`, {}, 202);
    await Promise.all(streams);
    say = (name) => text(`${name} answers`);
    model.requests.length = 0;
    await done(await asTeam(thread_id));
    assert.ok(!JSON.stringify(readBy()).includes('I WAIT'));
    model.requests.length = 0;
    await turn('lead', 'And then?', thread_id);
    assert.ok(JSON.stringify(readBy()).includes('I WAIT'));
  });

  it('is erased with what it stands on, with all that its members have read', async () => {
    const word = `kestrel-${randomUUID()}`;
    const first = await turn('ann', `The word is ${word}.`);
    say = (name) => text(`${name} answers ${word}`);
    const run_id = await asTeam(first.thread_id);
    await done(run_id);
    const path = `/v1/runs/${first.run_id}`;
    const refused = await api.call('DELETE', path, { key });
    assert.deepEqual([refused.status, refused.json.code], [409, 'has_dependents'], refused.text);
    assert.ok(refused.json.run_ids?.includes(run_id), refused.text);
    assert.equal((await api.call('DELETE', `${path}?dependents=true`, { key })).status, 202);
    await waitUntil('it is erased', async () => (await read(path)).erased_at !== undefined);
    await waitUntil('nothing is left', async () => (await tablesWith(api.context.db, word)).length === 0);
  });
});
