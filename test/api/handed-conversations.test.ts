import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { agentsOf, hasResult, startAgentsThatSay, text, use, type Say } from '../support/agents-that-say.ts';
import type { TestApi } from '../support/api.ts';
import type { AnthropicRequest } from '../support/fake-anthropic.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { sessionsWaitingIn } from '../support/queries/postgres.ts';
import { ledgerOfRun } from '../support/queries/tool-calls.ts';
import { attemptOf, briefly } from '../support/tool-attempt.ts';
import { waitUntil } from '../support/wait-until.ts';
import { lockHandoff } from '../../db/handoffs.ts';
import { lockRun } from '../../db/runs.ts';
import { lockThread } from '../../db/threads.ts';
import { carryHandoffs } from '../../modules/workflows/carry-handoffs.ts';
import { handOver, rejectHandoff } from '../../modules/workflows/hand-over.ts';

describe('handoffs of conversations', () => {
  let api: TestApi;
  let key: string;
  let tenant: string;
  let { ids, make, read, agent } = {} as ReturnType<typeof agentsOf>;
  let say: Say;

  const inState = async (path: string, status: string) => {
    await waitUntil(`${path} is ${status}`, async () => {
      await carryHandoffs(api.context);
      return (await read(path)).status === status;
    });
  };

  before(async () => {
    ({ api } = await startAgentsThatSay((...asked) => say(...asked)));
  });
  after(() => api.close());
  beforeEach(async () => {
    ({ id: tenant, key } = await api.newTenant());
    ({ ids, make, read, agent } = agentsOf(api, key));
    await agent('ann', { capabilities: [{ skill_name: 'ann' }], tools: ['handoff'] });
    await agent('bob', { capabilities: [{ skill_name: 'bob' }], tools: ['reject_handoff'] });
  });

  it('are taken on before another run begins on the thread', async () => {
    const [finished, finish] = held();
    say = async (name, _said, request) => {
      if (name === 'ann' && !hasResult(request)) return use('handoff', { to_agent: 'bob', reason: 'Better at it' });
      if (name === 'bob') await finished;
      return text('over');
    };
    const { id: team_id } = await make('/v1/teams', { name: 'both', members: [{ agent_id: ids['ann'] }] });
    const objective = (of: Record<string, unknown>, thread_id: string) => {
      const asked = { schema_version: 'v1', objective_prompt: 'And then?', request_id: randomUUID() };
      return api.call('POST', '/v1/objectives', { key, body: { ...asked, ...of, thread_id } });
    };
    const headers = { accept: 'application/json, text/event-stream' };
    const begin: Record<string, (thread: string) => Promise<{ text: string }>> = {
      run: (thread_id) =>
        api.call('POST', `/v1/agents/${ids['ann']}/runs`, {
          key,
          body: { thread_id, input: { message: 'And then?' } },
        }),
      objective: (thread_id) => objective({ agent_id: ids['ann'] }, thread_id),
      'objective of a team': (thread_id) => objective({ team_id }, thread_id),
      mcp: (thread_id) => {
        const params = { name: 'run_ann', arguments: { message: 'And then?', thread_id } };
        return api.call('POST', '/mcp', {
          key,
          headers,
          body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params },
        });
      },
      a2a: (contextId) => {
        const message = { messageId: '1', role: 'ROLE_USER', parts: [{ text: 'And then?' }], contextId };
        const body = { jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } };
        return api.call('POST', `/a2a/${ids['ann']}`, { key, headers: { 'a2a-version': '1.0' }, body });
      },
    };
    for (const [way, next] of Object.entries(begin)) {
      const { run_id, thread_id } = await make(`/v1/agents/${ids['ann']}/runs`, { input: { message: 'Help me' } }, 202);
      await waitUntil('the turn has ended', async () => (await read(`/v1/runs/${run_id}`)).status === 'completed');
      const { text: told } = await next(thread_id);
      const { runs } = await read(`/v1/runs?thread_id=${thread_id}`);
      assert.deepEqual([runs.length, runs[0].agent_id], [2, ids['bob']], way);
      assert.ok(told.includes(`unfinished run, ${runs[0].run_id}`), `${way}: ${told}`);
    }
    finish();
    for (const { id } of (await read('/v1/handoffs')).handoffs) await inState(`/v1/handoffs/${id}`, 'completed');
  });

  it('go to nobody where the turn that has made them is interrupted', async () => {
    say = (name, _said, request) => {
      if (name === 'bob') return text('bob here');
      return hasResult(request) ? undefined : use('handoff', { capabilities: ['bob'], reason: 'Better at it' });
    };
    const chat = { message: 'Help me', agent_id: ids['ann'], user_id: 'eve', autonomy_level: 2 };
    const { session_id } = await make('/agent/chat', chat, 202);
    await waitUntil('it is handed over', async () => (await read('/v1/handoffs')).handoffs[0]?.status === 'initiated');
    await make('/agent/interrupt', { session_id }, 200);
    await carryHandoffs(api.context);
    assert.equal((await read('/v1/handoffs')).handoffs[0].status, 'cancelled');
    assert.equal((await read(`/v1/runs?agent_id=${ids['bob']}`)).runs.length, 0);
    say = (name) => text(`${name} goes on`);
    await make('/agent/chat', { message: 'Go on', session_id, user_id: 'eve' }, 202);
    await waitUntil('it goes on with ann', async () => {
      const { messages } = await read(`/agent/session/${session_id}`);
      return JSON.stringify(messages).includes('ann goes on');
    });
  });

  interface Said {
    role: string;
    content: string | { text?: string }[];
    origin?: string;
  }
  const toldIn = (messages: Said[]) =>
    messages.flatMap(({ role, content, origin }) => {
      if (role !== 'user') return [];
      const [begins = ''] = (typeof content === 'string' ? content : (content[0]?.text ?? '')).split('\n');
      return [[begins.replace(/, handoff .*|handed over .*/, ''), origin ?? 'user']];
    });

  it("are told to agents in messages that are Drover's, and nobody's own", async () => {
    const [taken, take] = held();
    say = async (name, said, request) => {
      if (name === 'ann' && said.includes('has not taken')) return text('ann again');
      if (name === 'ann' && !hasResult(request)) return use('handoff', { to_agent: 'bob', reason: 'Better at it' });
      if (name === 'ann') return text('over');
      await taken;
      return hasResult(request) ? text('no') : use('reject_handoff', { reason: 'Not today' });
    };
    const chat = { message: 'Help me', agent_id: ids['ann'], user_id: 'eve', autonomy_level: 2 };
    const { session_id } = await make('/agent/chat', chat, 202);
    const told = async () => toldIn((await read(`/agent/session/${session_id}`)).messages);
    const brief = ['Handed over to you by the agent ann', 'drover'];
    await waitUntil('it is handed over', async () => {
      await carryHandoffs(api.context);
      return (await told()).length > 1;
    });
    assert.deepEqual(await told(), [['Help me', 'user'], brief], 'before it was read');
    take();
    await waitUntil('it has come back', async () => {
      await carryHandoffs(api.context);
      return JSON.stringify((await read(`/agent/session/${session_id}`)).messages).includes('ann again');
    });
    const note = ['The agent bob has not taken what you ', 'drover'];
    assert.deepEqual(await told(), [['Help me', 'user'], brief, note]);
    const { conversations } = await read(`/v1/threads/${session_id}/conversations`);
    const all = conversations.toReversed().flatMap(({ messages }: { messages: Said[] }) => messages);
    assert.deepEqual(
      toldIn(all).filter(([begins]) => begins),
      [['Help me', 'user'], brief, note],
    );
    const { messages } = await read(`/v1/threads/${session_id}/ui-messages`);
    const origins = messages.flatMap(({ role, metadata }: { role: string; metadata: { origin?: string } }) =>
      role === 'user' ? [metadata.origin] : [],
    );
    assert.deepEqual(origins, [undefined, 'drover', 'drover']);
  });

  it("are told so in Drover's messages where the run that begins with one is retried, too", async () => {
    say = (name, _said, request) => {
      if (name === 'bob') return undefined;
      return hasResult(request) ? text('over') : use('handoff', { to_agent: 'bob', reason: 'Better at it' });
    };
    const chat = { message: 'Help me', agent_id: ids['ann'], user_id: 'eve', autonomy_level: 2 };
    const { session_id } = await make('/agent/chat', chat, 202);
    let run = '';
    await waitUntil('it is handed over', async () => {
      await carryHandoffs(api.context);
      run = (await read(`/v1/runs?agent_id=${ids['bob']}`)).runs[0]?.run_id ?? '';
      return run !== '';
    });
    for (const answer of [undefined, text('bob here')]) {
      await make(`/v1/runs/${run}/cancel`, {}, 202);
      say = () => answer;
      run = (await make(`/v1/runs/${run}/retry`, {}, 202)).new_run_id;
    }
    await waitUntil('it has gone on', async () => {
      return JSON.stringify((await read(`/agent/session/${session_id}`)).messages).includes('bob here');
    });
    const brief = ['Handed over to you by the agent ann', 'drover'];
    assert.deepEqual(toldIn((await read(`/agent/session/${session_id}`)).messages), [['Help me', 'user'], brief]);
    const { conversations } = await read(`/v1/threads/${session_id}/conversations`);
    const all = conversations.toReversed().flatMap(({ messages }: { messages: Said[] }) => messages);
    const words = toldIn(all).filter(([begins]) => begins);
    assert.deepEqual(words.slice(0, 1), [['Help me', 'user']]);
    assert.ok(words.length > 1 && words.slice(1).every(([, origin]) => origin === 'drover'), JSON.stringify(words));
    const { messages } = await read(`/v1/threads/${session_id}/ui-messages`);
    const asked = messages.filter(({ role }: Said) => role === 'user');
    assert.deepEqual(
      asked.map(({ metadata }: { metadata: { origin?: string } }) => metadata.origin),
      [undefined, 'drover', 'drover', 'drover'],
    );
  });

  it('stay as they are where the turn of the tool was ended meanwhile, or its call made again', async () => {
    say = (name, _said, request) => {
      if (name === 'eve') return use('sleep', { seconds: 600 });
      return hasResult(request) ? text('over') : use('handoff', { to_agent: 'eve', reason: 'Better at it' });
    };
    const eve = await agent('eve', { tools: ['handoff', 'reject_handoff', 'sleep'] });
    const chat = { message: 'Help me', agent_id: ids['ann'], user_id: 'adam', autonomy_level: 2 };
    const { session_id } = await make('/agent/chat', chat, 202);
    const callOf = async (turn: number) => {
      let calls: Awaited<ReturnType<typeof ledgerOfRun>> = [];
      let runId = '';
      await waitUntil('eve waits', async () => {
        await carryHandoffs(api.context);
        runId = (await read(`/v1/runs?agent_id=${eve}`)).runs[0]?.run_id ?? '';
        calls = runId === '' ? [] : await ledgerOfRun({ ...api, tenantId: tenant }, runId);
        return calls.length === turn && calls.at(-1)?.status === 'running';
      });
      const { id = '', attempt = 0 } = calls.at(-1) ?? {};
      // A call for which the turn waits, in place of one of the tool.
      return { tenantId: tenant, runId, toolCallId: id, attempt };
    };
    const changesNothing = async (call: Awaited<ReturnType<typeof callOf>>) => {
      const outcomes = [
        await handOver(api.context, { ...attemptOf({ to_agent: 'bob', reason: 'Late' }), ...call }),
        await rejectHandoff(api.context, { ...attemptOf({ reason: 'Late' }), ...call }),
      ];
      assert.deepEqual(outcomes.map(briefly), ['error turn-ended', 'error turn-ended']);
      const { handoffs } = await read('/v1/handoffs');
      assert.deepEqual([handoffs.length, handoffs[0].status], [1, 'accepted']);
    };
    const first = await callOf(1);
    await changesNothing({ ...first, attempt: first.attempt + 1 });
    await make('/agent/interrupt', { session_id }, 200);
    await changesNothing(first);
    await make('/agent/chat', { message: 'Go on', session_id, user_id: 'adam' }, 202);
    const second = await callOf(2);
    await changesNothing(first);
    const inTime = await rejectHandoff(api.context, { ...attemptOf({ reason: 'In time' }), ...second });
    assert.equal(briefly(inTime), 'succeeded');
    await make(`/v1/runs/${second.runId}/cancel`, {}, 202);
  });

  describe('in which more is said', () => {
    /** What each agent was asked after 'And then?' was said. */
    let heard: string[];
    let session: string;
    let finish: () => void;

    const chat = (message: string, more = {}, expected = 202) =>
      make('/agent/chat', { message, user_id: 'eve', ...(session && { session_id: session }), ...more }, expected);
    const answered = async () => {
      await waitUntil('the second message is answered', async () => {
        await carryHandoffs(api.context);
        const { status, messages } = await read(`/agent/session/${session}`);
        return status === 'completed' && JSON.stringify(messages).includes('bob on then');
      });
      const { messages } = await read(`/agent/session/${session}`);
      return messages.map(({ content }: { content: string }) => content) as string[];
    };
    const runsOf = async (name: string) => (await read(`/v1/runs?agent_id=${ids[name]}`)).runs;

    beforeEach(async () => {
      heard = [];
      session = '';
      const [finished, end] = held();
      finish = end;
      say = async (name, said, request) => {
        if (said.includes('And then?')) heard.push(name);
        if (name === 'bob') return text(said.includes('And then?') ? 'bob on then' : 'bob here');
        if (!hasResult(request)) return use('handoff', { to_agent: 'bob', reason: 'Better at it' });
        await finished;
        return text('over');
      };
      ({ session_id: session } = await chat('Help me', { agent_id: ids['ann'], autonomy_level: 2 }));
      await waitUntil('it is handed over', async () => (await read('/v1/handoffs')).handoffs.length === 1);
    });
    afterEach(() => finish());

    /** Ends ann's turn. */
    const bobIsAsked = async () => {
      finish();
      await waitUntil('bob is asked', async () => {
        await carryHandoffs(api.context);
        return (await runsOf('bob')).length === 1;
      });
    };

    it('take along a message that waits for the end of the turn', async () => {
      assert.equal((await chat('And then?')).status, 'executing_queued');
      finish();
      const contents = await answered();
      assert.deepEqual([contents.at(-2), contents.at(-1)], ['And then?', 'bob on then']);
      assert.equal(contents.filter((content) => content === 'And then?').length, 1);
      assert.deepEqual(heard, ['bob']);
      assert.deepEqual([(await runsOf('bob')).length, (await runsOf('ann')).length], [1, 1]);
      assert.equal((await read(`/agent/session/${session}`)).queued_message, null);
    });

    it('take it back where the target rejects them', async () => {
      const [rejecting, reject] = held();
      say = async (name, said, request) => {
        if (said.includes('And then?')) heard.push(name);
        if (name === 'ann') return text(said.includes('And then?') ? 'ann, not bob on then' : 'over');
        await rejecting;
        return hasResult(request) ? text('no') : use('reject_handoff', { reason: 'Not today' });
      };
      await bobIsAsked();
      await chat('And then?');
      reject();
      const contents = await answered();
      assert.equal(contents.at(-1), 'ann, not bob on then');
      assert.deepEqual(heard, ['ann']);
    });

    it('stay with the target where the source takes no runs any more, and it answers what waits', async () => {
      const [rejecting, reject] = held();
      const [answering, answer] = held();
      say = async (name, said, request) => {
        if (name === 'ann') return text('over');
        if (said.includes('And last?')) return text('bob on last and bob on then');
        if (said.includes('And then?')) {
          heard.push(name);
          await answering;
          return text('then');
        }
        await rejecting;
        return hasResult(request) ? text('no') : use('reject_handoff', { reason: 'Not today' });
      };
      await bobIsAsked();
      await chat('And then?');
      await api.call('DELETE', `/v1/agents/${ids['ann']}`, { key });
      reject();
      await waitUntil('bob reads what waits', async () => {
        await carryHandoffs(api.context);
        return heard.includes('bob');
      });
      await chat('And last?');
      answer();
      assert.deepEqual((await answered()).slice(-4), ['And then?', 'then', 'And last?', 'bob on last and bob on then']);
      assert.deepEqual([(await runsOf('bob')).length, (await runsOf('ann')).length], [1, 1]);
    });

    it('stay with the source where neither takes runs any more, and it answers what waits', async () => {
      await chat('And then?');
      for (const name of ['ann', 'bob']) await api.call('DELETE', `/v1/agents/${ids[name]}`, { key });
      const usual = say;
      say = (name, said, request) =>
        said.includes('And then?') ? text(`${name}, not bob on then`) : usual(name, said, request);
      finish();
      assert.equal((await answered()).at(-1), 'ann, not bob on then');
      const [handoff] = (await read('/v1/handoffs')).handoffs;
      assert.deepEqual([handoff.status, handoff.returned_run_id], ['rejected', null]);
      assert.deepEqual([(await runsOf('bob')).length, (await runsOf('ann')).length], [0, 1]);
    });

    /** In a turn that does not end by itself. */
    const bobRejects = async () => {
      say = (name, said, request) => {
        if (said.includes('And then?')) return text(`${name} on then`);
        if (name === 'ann') return text('over');
        return hasResult(request) ? undefined : use('reject_handoff', { reason: 'Not today' });
      };
      finish();
      await waitUntil('bob rejects it', async () => {
        await carryHandoffs(api.context);
        return (await read('/v1/handoffs')).handoffs[0].status === 'rejected';
      });
    };

    it('stay with the target where the turn in which it rejects them is interrupted', async () => {
      await bobRejects();
      await make('/agent/interrupt', { session_id: session }, 200);
      await carryHandoffs(api.context);
      const [handoff] = (await read('/v1/handoffs')).handoffs;
      assert.deepEqual([handoff.status, handoff.rejection, handoff.returned_run_id], ['accepted', null, null]);
      await chat('And then?');
      assert.equal((await answered()).at(-1), 'bob on then');
      assert.deepEqual([(await runsOf('bob')).length, (await runsOf('ann')).length], [1, 1]);
      await make(`/v1/runs/${handoff.target_run_id}/complete`, {}, 200);
      await inState(`/v1/handoffs/${handoff.id}`, 'completed');
    });

    it('come back to nobody where the run that rejects them is cancelled', async () => {
      await bobRejects();
      await make(`/v1/runs/${(await runsOf('bob'))[0].run_id}/cancel`, {}, 202);
      const { id } = (await read('/v1/handoffs')).handoffs[0];
      await inState(`/v1/handoffs/${id}`, 'cancelled');
      assert.equal((await read(`/v1/handoffs/${id}`)).returned_run_id, null);
      assert.equal((await runsOf('ann')).length, 1);
      await chat('And then?');
      assert.equal((await answered()).at(-1), 'bob on then');
      assert.deepEqual([(await runsOf('bob')).length, (await runsOf('ann')).length], [2, 1]);
    });

    // The embedded database has one session: nobody waits for a lock there.
    for (const status of DOMAIN_MODE === 'embedded' ? [] : ['initiated', 'rejected']) {
      it(`wait for whoever speaks or erases, who does not wait for them, where they are ${status}`, async () => {
        const { db } = api.context;
        const [rejecting, reject] = held();
        const usual = say;
        const answer = (request: AnthropicRequest) =>
          hasResult(request) ? text('no') : use('reject_handoff', { reason: 'Not today' });
        say = (name, said, request) =>
          name === 'ann' ? usual(name, said, request) : rejecting.then(() => answer(request));
        if (status === 'rejected') await bobIsAsked();
        const { run_id: run } = await read(`/agent/session/${session}`);
        const handoffId = (await read('/v1/handoffs')).handoffs[0].id;
        let carried: Promise<unknown> | undefined;
        await db.withTenant(tenant, async (tx) => {
          await lockThread(tx, session);
          if (status === 'rejected') reject();
          else finish();
          await waitUntil('the turn has ended', async () => {
            const [handoff] = (await read('/v1/handoffs')).handoffs;
            return handoff.status === status && (await read(`/agent/session/${session}`)).status === 'completed';
          });
          carried = carryHandoffs(api.context);
          await waitUntil('it waits', async () => (await sessionsWaitingIn(db, 'from threads where id')).length > 0);
          await lockRun(tx, run);
          await lockHandoff(tx, handoffId);
        });
        await carried;
        const next = status === 'rejected' ? 'ann' : 'bob';
        await waitUntil(`${next} goes on`, async () => {
          return (await read(`/agent/session/${session}`)).run_id === (await runsOf(next))[0]?.run_id;
        });
        reject();
      });
    }

    it('leave the session with the agent that goes on, by its own id or that of the one before', async () => {
      finish();
      await chat('And then?');
      await answered();
      await chat('And then, bob?', { agent_id: ids['bob'] });
      await answered();
      const refused = await chat('And eve?', { agent_id: await agent('eve') }, 409);
      assert.equal(refused.agent_id, ids['bob']);
      const complete = async () =>
        make(`/v1/runs/${(await read(`/agent/session/${session}`)).run_id}/complete`, {}, 200);
      await complete();
      await chat('And then, ann?', { agent_id: ids['ann'] });
      await answered();
      assert.deepEqual([(await runsOf('bob')).length, (await runsOf('ann')).length], [2, 1]);
      assert.deepEqual(new Set(heard), new Set(['bob']));
      await complete();
      await api.call('DELETE', `/v1/agents/${ids['bob']}`, { key });
      await chat('And then, whoever?');
      await waitUntil('ann is asked', () => heard.includes('ann'));
    });

    it('count the run that ends with them as any other', async () => {
      const runsEnded = async () => {
        const { text: numbers } = await api.call('GET', '/metrics', { key: null });
        const [, total = '0'] = /^drover_runs_total\{outcome="completed",code=""\} (\d+)$/m.exec(numbers) ?? [];
        const [, timed = '0'] = /^drover_run_duration_seconds_count\{outcome="completed"\} (\d+)$/m.exec(numbers) ?? [];
        return [Number(total), Number(timed)];
      };
      const [total = 0, timed = 0] = await runsEnded();
      finish();
      const [source] = await runsOf('ann');
      await inState(`/v1/runs/${source.run_id}`, 'completed');
      await waitUntil('it is counted', async () => (await runsEnded())[0] === total + 1);
      assert.deepEqual(await runsEnded(), [total + 1, timed + 1]);
    });

    it('take along what is said between the turns', async () => {
      const [{ id: run }] = await runsOf('ann');
      finish();
      await waitUntil(
        'the turn has ended',
        async () => (await read(`/agent/session/${session}`)).status === 'completed',
      );
      const turn = { input: { message: 'And then?' } };
      await make(`/v1/agents/${ids['ann']}/runs/${run}/turns`, turn, 409);
      await make(`/v1/runs/${run}/resume`, { answer: turn.input.message }, 409);
      await chat('And then?');
      const contents = await answered();
      assert.equal(contents.filter((content) => content === 'And then?').length, 1);
      assert.deepEqual(heard, ['bob']);
      assert.deepEqual([(await runsOf('bob')).length, (await runsOf('ann')).length], [1, 1]);
    });
  });
});

/** What waits until it is let go, and what does that. */
function held(): [Promise<void>, () => void] {
  let letGo = () => {};
  const waiting = new Promise<void>((resolve) => (letGo = resolve));
  return [waiting, () => letGo()];
}
