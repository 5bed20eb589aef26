import assert from 'node:assert/strict';
import { newId } from '../../lib/new-id.ts';
import { request } from '../support/api.ts';
import { startServer, type LocalServer } from '../support/echo-server.ts';
import { text as say, use } from '../support/engine.ts';
import { startFakeAnthropic, type AnthropicReply, type AnthropicRequest } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { openTestPlatform, type TestPlatform } from '../support/platform.ts';
import { waitUntil } from '../support/wait-until.ts';

/** A wait that a test ends. */
function gate(): { opened: Promise<void>; open: () => void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}

describe('a session', function () {
  let platform: TestPlatform;
  let model: FakeServer;
  let tools: LocalServer;
  /** What the model does, by the last text that a user has said. */
  let script: (said: string, asked: AnthropicRequest) => AnthropicReply | Promise<AnthropicReply>;
  /** What the tools wait for before they answer. */
  let hold: Promise<void> | undefined;
  let called: string[];
  let agent: string;
  let user: string;

  const call = (method: string, path: string, body?: unknown) =>
    request(`${platform.url}${path}`, method, { key: platform.apiKey, ...(body === undefined ? {} : { body }) });
  const chat = (message: string, more: Record<string, unknown> = {}) =>
    call('POST', '/agent/chat', { message, user_id: user, agent_id: agent, ...more });
  const begin = async (message: string, more: Record<string, unknown> = {}): Promise<string> => {
    const { status, json, text } = await chat(message, more);
    assert.equal(status, 202, text);
    return json.session_id;
  };
  const read = async (session: string) => {
    const { status, json, text } = await call('GET', `/agent/session/${session}`);
    assert.equal(status, 200, text);
    return json;
  };
  const until = async (session: string, ...statuses: string[]) => {
    let last;
    await waitUntil(`session ${session} is ${statuses.join(' or ')}`, async () => {
      last = await read(session);
      return statuses.includes(last.status);
    });
    return last as unknown as Awaited<ReturnType<typeof read>>;
  };
  const log = async (session: string) => {
    const { run_id } = await read(session);
    const { json } = await call('GET', `/v1/runs/${run_id}/events?limit=200`);
    return json.events as { type: string; payload: Record<string, unknown> }[];
  };
  const texts = (asked: AnthropicRequest) =>
    asked.messages.flatMap(({ role, content }) =>
      role !== 'user'
        ? []
        : typeof content === 'string'
          ? [content]
          : content.flatMap((block) => (block.type === 'text' ? [String(block['text'])] : [])),
    );

  before(async () => {
    model = await startFakeAnthropic((asked) => script(texts(asked).at(-1) ?? '', asked));
    tools = await startServer((seen, response) => {
      called.push(seen.path);
      void (hold ?? Promise.resolve()).then(() => {
        const failed = seen.path.includes('broken');
        response.writeHead(failed ? 400 : 200, { 'content-type': 'application/json' });
        response.end('{"ok":true}');
      });
    });
    const env = { ANTHROPIC_API_KEY: 'sk-test', ANTHROPIC_BASE_URL: model.url, DROVER_EGRESS_ALLOW: '127.0.0.1' };
    platform = await openTestPlatform(undefined, { api: true, workers: true, env });
    const risks = { look: 'READ_ONLY', broken: 'READ_ONLY', buy: 'WRITE_LOW_RISK', slow: 'WRITE_LOW_RISK' };
    for (const [name, risk_level] of Object.entries(risks)) {
      const transport = { type: 'http', endpoint: `${tools.url}/${name}` };
      const made = await call('POST', '/v1/tools', { name, description: 'A tool.', risk_level, transport });
      assert.equal(made.status, 201, made.text);
    }
    const made = await call('POST', '/v1/agents', { name: 'trader', tools: [...Object.keys(risks), 'ask_user'] });
    agent = made.json.id;
  });
  after(async () => {
    await platform?.close();
    await model?.close();
    await tools?.close();
  });
  beforeEach(() => {
    user = newId();
    called = [];
    hold = undefined;
    script = () => say('fine');
  });

  it('answers, keeps what was said, and goes on', async () => {
    const first = await chat('hello', { context: { place: 'Jita' } });
    assert.deepEqual([first.status, first.json.status], [202, 'planning']);
    const session = first.json.session_id;
    const done = await until(session, 'completed');
    assert.deepEqual(done.messages, [
      { role: 'user', content: 'hello' },
      { role: 'assistant', content: 'fine' },
    ]);
    assert.deepEqual(
      [done.user_id, done.autonomy_level, done.archived, done.context],
      [user, 1, false, { place: 'Jita' }],
    );
    await begin('and in Amarr?', { session_id: session });
    const after = await until(session, 'completed');
    assert.equal(after.run_id, done.run_id, 'the run stays open');
    assert.deepEqual(
      after.messages.map(({ content }: { content: string }) => content),
      ['hello', 'fine', 'and in Amarr?', 'fine'],
    );
  });

  it('takes whole numbers as character_id, and the only agent of its workspace', async () => {
    const made = await call('POST', '/agent/chat', { message: 'hi', character_id: 1117367444 });
    assert.equal(made.status, 202, made.text);
    const view = await until(made.json.session_id, 'completed');
    assert.deepEqual([view.character_id, view.user_id, view.agent_id], [1117367444, '1117367444', agent]);
  });

  it("is nobody else's: another user gets 404, another agent or level 409", async () => {
    const session = await begin('hello');
    assert.equal((await chat('mine?', { session_id: session, user_id: newId() })).status, 404);
    assert.equal((await chat('more?', { session_id: session, autonomy_level: 3 })).status, 409);
    assert.equal((await chat('who?', { session_id: newId() })).status, 404);
    assert.equal((await call('GET', `/agent/session/${newId()}`)).status, 404);
  });

  it('refuses a message that is too long, or has no user, or two', async () => {
    assert.equal((await chat('')).status, 400);
    assert.equal((await chat('x'.repeat(5001))).status, 400);
    assert.equal((await chat(`<b>{${'x'.repeat(4990)}`)).status, 202);
    assert.equal((await chat('🙂'.repeat(5000))).status, 202, 'as many characters, each of two units');
    assert.equal((await call('POST', '/agent/chat', { message: 'hi', agent_id: agent })).status, 400);
    assert.equal((await chat('hi', { character_id: 5 })).status, 400, 'two users');
    await until(await begin('hi', { user_id: '5', character_id: 5 }), 'completed');
  });

  it('begins once for an Idempotency-Key', async () => {
    const body = { message: 'once', user_id: user, agent_id: agent };
    const headers = { 'idempotency-key': newId() };
    const once = () => request(`${platform.url}/agent/chat`, 'POST', { key: platform.apiKey, body, headers });
    const [one, two] = [await once(), await once()];
    assert.equal(one.json.session_id, two.json.session_id);
    assert.deepEqual((await until(one.json.session_id, 'completed')).messages.length, 2);
  });

  const reads = use({ name: 'look' }, { name: 'look' }, { name: 'look' });
  const thenAnswer =
    (first: AnthropicReply) =>
    (_said: string, { messages }: AnthropicRequest) =>
      JSON.stringify(messages.at(-1)).includes('tool_result') ? say('bought') : first;

  it('carries out at once what only reads, and tells of what has failed', async () => {
    script = thenAnswer(use({ name: 'look' }, { name: 'broken' }, { name: 'look' }));
    const session = await begin('look around');
    const done = await until(session, 'completed_with_errors');
    assert.equal(done.pending_plan, null);
    script = thenAnswer(reads);
    await begin('again', { session_id: session });
    await until(session, 'completed');
  });

  describe('with a plan', () => {
    const propose = async (more: Record<string, unknown> = {}) => {
      script = thenAnswer(use({ name: 'look' }, { name: 'buy', input: { what: 'ore' } }));
      const session = await begin('buy ore', more);
      const view = await until(session, 'waiting_approval');
      return { session, plan: view.pending_plan };
    };
    const decide = (what: string, [session, plan_id]: [string, string], more = {}) =>
      call('POST', `/agent/${what}`, { session_id: session, plan_id, ...more });

    /** What the audit log says of a plan's executions. */
    const executionsOf = async (plan: string) => {
      const { json } = await call('GET', '/v1/audit?limit=50');
      const rows: { action: string; target: { id: string }; details: unknown }[] = json.audit;
      const executed = rows.filter(({ action, target }) => action === 'plan.executed' && target.id === plan);
      return executed.map(({ details }) => details);
    };
    const byPerson = { autonomy_level: 1, automatic: false, tools: 1 };

    it('waits with the one call that needs approval, and carries it out once', async () => {
      const { session, plan } = await propose();
      assert.deepEqual(
        [plan.steps.map(({ tool }: { tool: string }) => tool), plan.max_risk_level, plan.tool_count],
        [['buy'], 'WRITE_LOW_RISK', 1],
      );
      assert.deepEqual(plan.steps[0].arguments, { what: 'ore' });
      // It may be made after it is known that the other one waits.
      await waitUntil('what only reads does not wait', () => called.join() === '/look');
      assert.equal((await decide('execute', [session, newId()])).status, 409);
      const executed = await decide('execute', [session, plan.plan_id]);
      assert.equal(executed.status, 200);
      assert.deepEqual(executed.json, { status: 'executing', message: 'Plan execution started' });
      await until(session, 'completed');
      assert.deepEqual(called, ['/look', '/buy']);
      const again = await decide('execute', [session, plan.plan_id]);
      assert.deepEqual([again.status, again.json.status, again.json.result], [200, 'completed', 'bought']);
      assert.deepEqual(called, ['/look', '/buy']);
      assert.deepEqual(await executionsOf(plan.plan_id), [{ session_id: session, user_id: user, ...byPerson }]);
    });

    it('is audited as executed however it was approved', async () => {
      const { session, plan } = await propose();
      const { run_id } = await read(session);
      const { status, text } = await call('POST', `/v1/runs/${run_id}/resume`, { decision: { decision: 'approve' } });
      assert.equal(status, 200, text);
      assert.deepEqual(await executionsOf(plan.plan_id), [{ session_id: session, user_id: user, ...byPerson }]);
    });

    it('refuses a second execution while the first one is under way', async () => {
      const { session, plan } = await propose();
      const held = gate();
      hold = held.opened;
      assert.equal((await decide('execute', [session, plan.plan_id])).status, 200);
      await until(session, 'executing');
      const again = await decide('execute', [session, plan.plan_id]);
      assert.equal(again.status, 409, again.text);
      held.open();
      await until(session, 'completed');
    });

    it('ends the turn when the plan is rejected, without asking the model', async () => {
      const { session, plan } = await propose();
      const asked = model.requests.length;
      const rejected = await decide('reject', [session, plan.plan_id], { reason: 'too dear' });
      assert.deepEqual([rejected.status, rejected.json], [200, { status: 'idle', message: 'Plan rejected' }]);
      assert.equal((await read(session)).status, 'idle');
      assert.equal(model.requests.length, asked);
      assert.equal((await decide('execute', [session, plan.plan_id])).status, 409);
      script = (said) => say(`you said ${said}`);
      await begin('something cheaper', { session_id: session });
      const done = await until(session, 'completed');
      assert.equal(done.messages.at(-1).content, 'you said something cheaper');
      const last = model.requests.at(-1)?.body as AnthropicRequest;
      assert.match(JSON.stringify(last.messages), /A person rejected the plan: too dear/);
      assert.deepEqual(called, ['/look']);
    });

    it('makes another plan where it is refined; the old one is dead', async () => {
      const { session, plan } = await propose();
      let feedback = '';
      script = (_said, { messages }) => {
        feedback = JSON.stringify(messages.at(-1));
        return feedback.includes('ice') ? use({ name: 'buy', input: { what: 'ice' } }) : say('done');
      };
      const refined = await decide('refine', [session, plan.plan_id], { feedback: 'ice instead' });
      assert.equal(refined.status, 202, refined.text);
      await waitUntil('another plan waits', async () => {
        const now = await read(session);
        return now.pending_plan !== null && now.pending_plan.plan_id !== plan.plan_id;
      });
      const next = (await read(session)).pending_plan;
      assert.match(feedback, /A person wants another plan: ice instead/);
      assert.deepEqual(next.steps[0].arguments, { what: 'ice' });
      assert.equal((await decide('execute', [session, plan.plan_id])).status, 409);
      assert.equal((await decide('execute', [session, next.plan_id])).status, 200);
      await until(session, 'completed');
      assert.deepEqual(called, ['/look', '/buy']);
    });

    it('gives the model with the results what was said meanwhile', async () => {
      const { session, plan } = await propose();
      const queued = await chat('and be quick', { session_id: session });
      assert.deepEqual(
        [queued.status, queued.json.status, queued.json.plan_id],
        [202, 'waiting_approval', plan.plan_id],
      );
      assert.equal((await read(session)).queued_message, 'and be quick');
      await decide('execute', [session, plan.plan_id]);
      const done = await until(session, 'completed');
      assert.equal(done.queued_message, null);
      assert.deepEqual(
        done.messages.map(({ content }: { content: string }) => content),
        ['buy ore', 'and be quick', 'bought'],
        'one turn has read both',
      );
    });

    it('begins the next turn with what was said before the plan was rejected', async () => {
      const { session, plan } = await propose();
      script = (said) => say(`you said ${said}`);
      await chat('forget it', { session_id: session });
      await decide('reject', [session, plan.plan_id]);
      const done = await until(session, 'completed');
      assert.equal(done.messages.at(-1).content, 'you said forget it');
    });

    it("needs the scope approvals:write for a decision, and for a level above the agent's", async () => {
      const { session, plan } = await propose();
      const { json: key } = await call('POST', '/v1/api-keys', { name: 'talker', scopes: ['runs:write', 'runs:read'] });
      const as = (path: string, body: unknown) => request(`${platform.url}${path}`, 'POST', { key: key.key, body });
      for (const what of ['execute', 'reject', 'refine']) {
        const answer = await as(`/agent/${what}`, {
          session_id: session,
          plan_id: plan.plan_id,
          ...(what === 'refine' && { feedback: 'x' }),
        });
        assert.equal(answer.status, 403, what);
      }
      assert.equal(
        (await as('/agent/chat', { message: 'hi', user_id: user, agent_id: agent, autonomy_level: 3 })).status,
        403,
      );
      assert.equal((await as('/agent/interrupt', { session_id: session })).status, 200);
    });

    it('asks nobody at a level that allows the calls', async () => {
      script = thenAnswer(use({ name: 'buy' }, { name: 'look' }));
      const session = await begin('buy', { autonomy_level: 2 });
      await until(session, 'completed');
      assert.deepEqual(called.toSorted(), ['/buy', '/look']);
    });
  });

  describe('while a turn is open', () => {
    /** A session whose model waits for `release` with its first answer. */
    const busy = async () => {
      const { opened, open } = gate();
      let asked = 0;
      script = async (said) => {
        if (asked++ === 0) await opened;
        return say(`you said ${said}`);
      };
      const session = await begin('first');
      await waitUntil('the model is asked', () => asked > 0);
      return { session, release: open };
    };

    it('keeps one message, the newest, and begins the next turn with it', async () => {
      const { session, release } = await busy();
      const one = await chat('second', { session_id: session });
      assert.deepEqual([one.status, one.json.status], [202, 'executing_queued']);
      await chat('third', { session_id: session });
      assert.deepEqual(
        [(await read(session)).queued_message, (await read(session)).status],
        ['third', 'executing_queued'],
      );
      release();
      await waitUntil('the queued message is answered', async () => (await read(session)).messages.length === 4);
      const done = await until(session, 'completed');
      assert.deepEqual(
        done.messages.map(({ content }: { content: string }) => content),
        ['first', 'you said first', 'third', 'you said third'],
      );
      assert.equal(done.queued_message, null);
      const events = await log(session);
      const end = events.findIndex(({ type }) => type === 'turn.completed');
      assert.deepEqual(
        events.slice(end, end + 3).map(({ type }) => type),
        ['turn.completed', 'message.dequeued', 'turn.started'],
      );
    });

    it('refuses a message in mode reject', async () => {
      const { session, release } = await busy();
      assert.equal((await chat('no', { session_id: session, mode: 'reject' })).status, 409);
      release();
      await until(session, 'completed');
      assert.equal((await chat('now', { session_id: session, mode: 'reject' })).status, 202);
    });

    it('shows a message in mode steer to the turn under way, before its next model call', async () => {
      const held = gate();
      hold = held.opened;
      script = (said, asked) =>
        JSON.stringify(asked.messages.at(-1)).includes('use the tool')
          ? use({ name: 'look' })
          : say(`you said ${said}`);
      const session = await begin('use the tool');
      await until(session, 'executing');
      await chat('in short', { session_id: session, mode: 'steer' });
      held.open();
      const done = await until(session, 'completed');
      assert.deepEqual(
        done.messages.map(({ content }: { content: string }) => content),
        ['use the tool', 'in short', 'you said in short'],
      );
      assert.equal((await log(session)).filter(({ type }) => type === 'turn.started').length, 1);
    });

    it('stops when it is interrupted, and answers what comes next', async () => {
      const { session } = await busy();
      const stopped = await call('POST', '/agent/interrupt', { session_id: session });
      assert.deepEqual([stopped.status, stopped.json], [200, { status: 'interrupted', message: 'Execution stopped' }]);
      assert.equal((await read(session)).status, 'interrupted');
      const again = await call('POST', '/agent/interrupt', { session_id: session });
      assert.deepEqual([again.status, again.json.status], [200, 'interrupted']);
      await begin('next', { session_id: session });
      const done = await until(session, 'completed');
      assert.equal(done.messages.at(-1).content, 'you said next');
      assert.deepEqual(done.messages.map(({ content }: { content: string }) => content).slice(0, 2), ['first', 'next']);
    });

    it('goes on with the queued message when it is interrupted', async () => {
      const { session } = await busy();
      await chat('second', { session_id: session });
      const stopped = await call('POST', '/agent/interrupt', { session_id: session });
      assert.deepEqual([stopped.json.status, stopped.json.queued_message], ['interrupted', 'second']);
      const done = await until(session, 'completed');
      assert.equal(done.messages.at(-1).content, 'you said second');
    });

    it('closes an open call towards the model; what may have had its effect is unknown and asks nobody', async () => {
      const held = gate();
      hold = held.opened;
      script = (said, asked) =>
        JSON.stringify(asked.messages.at(-1)).includes('buy slowly') ? use({ name: 'slow' }) : say(`you said ${said}`);
      const session = await begin('buy slowly', { autonomy_level: 2 });
      await waitUntil('the tool is called', () => called.includes('/slow'));
      await call('POST', '/agent/interrupt', { session_id: session });
      assert.equal((await read(session)).status, 'interrupted');
      held.open();
      await begin('what now?', { session_id: session });
      const done = await until(session, 'completed');
      assert.equal(done.messages.at(-1).content, 'you said what now?');
      const types = (await log(session)).map(({ type }) => type);
      assert.ok(types.includes('tool.unknown'), types.join(' '));
      assert.ok(!types.includes('approval.requested'));
      assert.deepEqual(called, ['/slow'], 'it is not made again');
    });

    for (const mode of ['queue', 'reject']) {
      it(`loses no queued message where its run is cancelled from outside, and takes one in mode ${mode}`, async () => {
        const { session } = await busy();
        await chat('second', { session_id: session });
        const { run_id } = await read(session);
        assert.equal((await call('POST', `/v1/runs/${run_id}/cancel`, {})).status, 202);
        assert.equal((await read(session)).queued_message, 'second');
        assert.equal((await chat('third', { session_id: session, mode })).status, 202);
        await waitUntil(
          'both are answered',
          async () => (await read(session)).messages.at(-1).content === 'you said third',
        );
        const { messages, status } = await until(session, 'completed');
        const said = messages.map(({ content }: { content: string }) => content).slice(-4);
        assert.deepEqual([said, status], [['second', 'you said second', 'third', 'you said third'], 'completed']);
      });
    }

    it('takes many messages at once without losing or doubling a turn', async () => {
      script = (said) => say(`you said ${said}`);
      const session = await begin('first');
      const sent = await Promise.all(
        Array.from({ length: 12 }, (_, n) => chat(`message ${n}`, { session_id: session })),
      );
      assert.deepEqual([...new Set(sent.map(({ status }) => status))], [202]);
      const done = await until(session, 'completed');
      const events = await log(session);
      const count = (type: string) => events.filter((event) => event.type === type).length;
      assert.equal(done.queued_message, null);
      assert.equal(count('turn.started'), count('turn.completed'));
      const asked = done.messages.filter(({ role }: { role: string }) => role === 'user');
      assert.equal(new Set(asked.map(({ content }: { content: string }) => content)).size, asked.length);
    });

    it('ends when it is deleted, and takes no more messages', async () => {
      const { session } = await busy();
      const gone = await call('DELETE', `/agent/session/${session}`);
      assert.deepEqual([gone.status, gone.json], [200, { message: 'Session deleted', archived: true }]);
      assert.equal((await call('DELETE', `/agent/session/${session}`)).status, 200);
      const view = await read(session);
      assert.deepEqual([view.archived, view.status], [true, 'interrupted']);
      assert.equal((await chat('still there?', { session_id: session })).status, 409);
    });
  });

  it('takes no message for an answer before its turn has begun', async () => {
    const env = { DROVER_MODEL: 'offline' };
    const idle = await openTestPlatform(undefined, { api: true, env });
    try {
      const post = async (path: string, body: unknown) => {
        const { status, json, text } = await request(`${idle.url}${path}`, 'POST', { key: idle.apiKey, body });
        assert.ok(status < 300, text);
        return json;
      };
      await post('/v1/agents', { name: 'slow' });
      const { session_id } = await post('/agent/chat', { message: 'one', user_id: user });
      await post('/agent/interrupt', { session_id });
      const second = await post('/agent/chat', { message: 'two', user_id: user, session_id });
      assert.equal(second.status, 'planning', 'nobody has asked anything');
      const third = await post('/agent/chat', { message: 'three', user_id: user, session_id });
      assert.equal(third.status, 'executing_queued');
      const { json } = await request(`${idle.url}/agent/session/${session_id}`, 'GET', { key: idle.apiKey });
      assert.equal(json.queued_message, 'three');
    } finally {
      await idle.close();
    }
  });

  it('takes a message as the answer where the agent has asked', async () => {
    script = (said, { messages }) =>
      JSON.stringify(messages.at(-1)).includes('tool_result')
        ? say(`so ${JSON.stringify(messages.at(-1)).includes('blue') ? 'blue' : said}`)
        : use({ name: 'ask_user', input: { question: 'which colour?' } });
    const session = await begin('paint it');
    const { waiting_for: asks, pending_plan } = await until(session, 'waiting_approval');
    assert.deepEqual([pending_plan, asks.type, asks.question], [null, 'user', 'which colour?']);
    await begin('blue', { session_id: session });
    const done = await until(session, 'completed');
    assert.deepEqual([done.messages.at(-1).content, done.waiting_for], ['so blue', null]);
  });

  it('is held to policies about its user', async () => {
    script = thenAnswer(use({ name: 'look' }));
    const when = `tool == "look" && user == "${user}"`;
    const rule = { name: `blacklist ${user}`, when, decision: 'block', reason: 'not for this user' };
    assert.equal((await call('POST', '/v1/policies', rule)).status, 201);
    const session = await begin('look');
    await until(session, 'completed', 'completed_with_errors');
    assert.deepEqual(called, []);
    user = newId();
    await until(await begin('look'), 'completed');
    assert.deepEqual(called, ['/look']);
  });

  it('is an error when its turn fails, and goes on with the next message', async () => {
    script = () => ({ error: { status: 400, type: 'invalid_request_error' } });
    const session = await begin('fail');
    assert.equal((await until(session, 'error')).error.code, 'model_invalid_request');
    script = () => say('better');
    const { messages, error } = await until(await begin('again', { session_id: session }), 'completed');
    assert.deepEqual([messages.at(-1).content, error], ['better', null]);
  });

  it('goes on in another run after its run was completed', async () => {
    const session = await begin('one');
    const { run_id } = await until(session, 'completed');
    assert.equal((await call('POST', `/v1/runs/${run_id}/complete`)).status, 200);
    assert.equal((await read(session)).status, 'completed');
    await begin('two', { session_id: session });
    await waitUntil('both turns are answered', async () => (await read(session)).messages.length === 4);
    assert.notEqual((await read(session)).run_id, run_id);
  });
});
