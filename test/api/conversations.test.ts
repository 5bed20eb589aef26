import assert from 'node:assert/strict';
import { startFakeAnthropic, type AnthropicReply } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { text, use } from '../support/engine.ts';
import { openTestPlatform, type TestPlatform } from '../support/platform.ts';
import { request } from '../support/api.ts';
import { unnameTurns } from '../support/queries/runs.ts';
import { waitUntil } from '../support/wait-until.ts';

const USAGE = {
  input_tokens: 1000,
  output_tokens: 100,
  cache_read_input_tokens: 400,
  cache_creation_input_tokens: 200,
};

describe('conversations', () => {
  let platform: TestPlatform;
  let model: FakeServer;
  let replies: AnthropicReply[] = [];
  let agent: string;
  before(async () => {
    model = await startFakeAnthropic(() => ({ usage: USAGE, ...(replies.shift() ?? text('nothing to say')) }));
    const env = { ANTHROPIC_API_KEY: 'sk-test', ANTHROPIC_BASE_URL: model.url };
    platform = await openTestPlatform(undefined, { workers: true, api: true, env });
    agent = await newAgent('talker');
  });
  after(async () => {
    await platform.close();
    await model.close();
  });

  const call = (method: string, path: string, body?: unknown) =>
    request(`${platform.url}${path}`, method, { key: platform.apiKey, ...(body !== undefined && { body }) });
  const newAgent = async (name: string, more: Record<string, unknown> = {}) => {
    const llm = { default_model: 'anthropic/claude-haiku-4-5' };
    const { json } = await call('POST', '/v1/agents', { name, llm_config: llm, tools: ['calculator'], ...more });
    return json.id as string;
  };
  const run = async (of: string, message: string, more: Record<string, unknown> = {}) => {
    const { json } = await call('POST', `/v1/agents/${of}/runs`, { input: { message }, ...more });
    await waitUntil('the turn ends', async () => {
      const { json: now } = await call('GET', `/v1/runs/${json.run_id}`);
      return ['completed', 'failed'].includes(now.status) || now.waiting_for?.type === 'turn';
    });
    return json as { run_id: string; thread_id: string };
  };
  const conversations = async (path: string) => (await call('GET', `${path}/conversations`)).json.conversations;

  it('are the turns of a thread, newest first, with what was said, used and paid', async () => {
    replies = [use({ name: 'calculator', input: { expression: '2 + 3' }, id: 'toolu_sum' }), text('It is 5.')];
    const { run_id: first, thread_id: thread } = await run(agent, 'What is 2 + 3?');
    replies = [text('Yes.')];
    const { run_id: second } = await run(agent, 'Sure?', { thread_id: thread, config: { keep_open: true } });
    replies = [text('Bye.')];
    await call('POST', `/v1/agents/${agent}/runs/${second}/turns`, { input: { message: 'Thanks' } });
    const [third, middle, oldest, ...others] = await conversations(`/v1/threads/${thread}`);
    assert.deepEqual(others, []);
    assert.deepEqual(
      [third, middle, oldest].map((each) => each.sequence_number),
      [3, 2, 1],
    );
    assert.deepEqual(
      [third, middle, oldest].map((each) => each.run_id),
      [second, second, first],
    );
    assert.deepEqual([third.user_message, third.final_response, third.messages.length], ['Thanks', 'Bye.', 2]);
    assert.deepEqual(middle.messages[0], { role: 'user', content: [{ type: 'text', text: 'Sure?' }] });
    assert.deepEqual(
      oldest.messages.map((message: { role: string; content: { type: string }[] }) => message.content[0]?.type),
      ['text', 'tool_use', 'tool_result', 'text'],
    );
    assert.deepEqual([oldest.stop_reason, oldest.total_steps, oldest.status], ['end_turn', 2, 'complete']);
    assert.deepEqual(oldest.usage, {
      input_tokens: 2000,
      output_tokens: 200,
      cache_creation_input_tokens: 400,
      cache_read_input_tokens: 800,
    });
    // 1, 5, 0.1 and 1.25 dollars for a million.
    assert.deepEqual(oldest.cost, {
      input_cost: 0.002,
      output_cost: 0.001,
      cache_write_cost: 0.0005,
      cache_read_cost: 0.00008,
      total_cost: 0.00358,
      total_input_tokens: 2000,
      total_output_tokens: 200,
      total_cache_creation_tokens: 400,
      total_cache_read_tokens: 800,
      model_id: 'claude-haiku-4-5',
      long_context_applied: false,
      currency: 'USD',
    });
    assert.deepEqual(oldest.generated_files, []);
    const { json: turn } = await call('GET', `/v1/runs/${first}`);
    assert.equal(oldest.cost.total_cost, turn.usage.cost_usd, 'as the run says');
  });

  it('say that a prompt was so long that the rates for long ones held, and what that came to', async () => {
    const llm_config = { default_model: 'anthropic/claude-haiku-5-5' };
    const reader = await newAgent('reader', { llm_config });
    const long = { input_tokens: 60_000, cache_read_input_tokens: 40_000, cache_creation_input_tokens: 20_000 };
    replies = [
      { ...use({ name: 'calculator', input: { expression: '2+3' } }), usage: { ...long, output_tokens: 1000 } },
      { ...text('It is 5.'), usage: { input_tokens: 100_000, output_tokens: 1000 } },
    ];
    const { run_id, thread_id: thread } = await run(reader, 'Read all of this');
    replies = [{ ...text('Yes.'), usage: { input_tokens: 100_000, output_tokens: 1000 } }];
    await run(reader, 'Sure?', { thread_id: thread });
    const [short, both] = await conversations(`/v1/threads/${thread}`);
    const { json } = await call('GET', `/v1/runs/${run_id}/events?types=model.responded`);
    assert.deepEqual(
      json.events.map(({ payload }: { payload: { long_context?: boolean } }) => payload.long_context),
      [true, undefined],
    );
    // Of the first call at 0.5, 2.5, 0.05 and 0.625 dollars for a million, of the others at 0.1 and 0.5.
    const { input_cost, output_cost, cache_read_cost, cache_write_cost, total_cost } = both.cost;
    assert.deepEqual(
      { input_cost, output_cost, cache_read_cost, cache_write_cost, total_cost },
      { input_cost: 0.04, output_cost: 0.003, cache_read_cost: 0.002, cache_write_cost: 0.0125, total_cost: 0.0575 },
    );
    assert.deepEqual([both.cost.long_context_applied, both.cost.model_id], [true, 'claude-haiku-5-5']);
    assert.deepEqual([short.cost.long_context_applied, short.cost.input_cost], [false, 0.01]);
  });

  it('keep what a client gives them as extras, until they are erased', async () => {
    const { run_id, thread_id: thread } = await run(agent, 'What does it cost?');
    const [{ id, extras, ...shown }] = await conversations(`/v1/threads/${thread}`);
    assert.deepEqual(extras, {});
    const path = `/v1/threads/${thread}/conversations/${id}`;
    const changed = await call('PATCH', path, { extras: { credits_used: 42, rated: 'up' } });
    assert.deepEqual(
      [changed.status, changed.json],
      [200, { id, extras: { credits_used: 42, rated: 'up' }, ...shown }],
    );
    await call('PATCH', path, { extras: { credits_used: 43 } });
    assert.deepEqual((await call('PATCH', path, {})).json.extras, { credits_used: 43 }, 'as a whole, or not at all');
    for (const where of [`/v1/threads/${thread}`, `/v1/agents/${agent}`]) {
      assert.deepEqual((await conversations(where))[0].extras, { credits_used: 43 });
    }
    const { thread_id: other } = await run(agent, 'Something else');
    const answers = [
      await call('PATCH', `/v1/threads/${other}/conversations/${id}`, { extras: {} }),
      await call('PATCH', `/v1/threads/${thread}/conversations/${run_id}`, { extras: {} }),
      await call('PATCH', path, { extras: { x: 'x'.repeat(70_000) } }),
      await call('PATCH', path, { extras: [] }),
      await call('PATCH', path, { final_response: 'x' }),
    ];
    assert.deepEqual(
      answers.map(({ status }) => status),
      [404, 404, 400, 400, 400],
    );
    const { json: reader } = await call('POST', '/v1/api-keys', { name: 'reader', scopes: ['runs:read'] });
    const refused = await request(`${platform.url}${path}`, 'PATCH', { key: reader.key, body: { extras: {} } });
    assert.equal(refused.status, 403);
    assert.equal((await call('DELETE', `/v1/threads/${thread}`)).status, 202);
    assert.deepEqual((await conversations(`/v1/threads/${thread}`))[0].extras, {});
    assert.equal((await call('PATCH', path, { extras: { a: 1 } })).status, 409);
  });

  it('have all that was said where a graph ends with a call, and nothing of the turn before', async () => {
    const workflow_graph = {
      entry_point: 'think',
      nodes: [
        { name: 'think', type: 'llm' },
        { name: 'calculate', type: 'tool', config: { tool: 'calculator', input: { expression: '1+1' } } },
      ],
      edges: [{ from: 'think', to: 'calculate' }],
    };
    const stepper = await newAgent('stepper', { workflow_graph });
    const { run_id: of, thread_id: thread } = await run(stepper, 'first', { config: { keep_open: true } });
    await call('POST', `/v1/agents/${stepper}/runs/${of}/turns`, { input: { message: 'second' } });
    const turns = await conversations(`/v1/threads/${thread}`);
    assert.deepEqual(
      turns.map((each: { user_message: string }) => each.user_message),
      ['second', 'first'],
    );
    for (const { messages, user_message: asked, final_response: answer } of turns) {
      assert.deepEqual(messages[0].content, [{ type: 'text', text: asked }]);
      assert.deepEqual(messages.at(-1).content, [{ type: 'text', text: answer }]);
      assert.deepEqual(
        messages.map(({ content: [block] }: { content: { type: string }[] }) => block?.type),
        ['text', 'text', 'tool_use', 'tool_result', 'text'],
      );
    }
  });

  it('come in pages, by thread and by agent, each turn once', async () => {
    const pager = await newAgent('pager');
    const ran: string[] = [];
    const thread = (await run(pager, 'one')).thread_id;
    for (const message of ['two', 'three', 'four']) ran.push((await run(pager, message, { thread_id: thread })).run_id);
    const { run_id: open } = await run(pager, 'open', { config: { keep_open: true } });
    await run(pager, 'elsewhere');
    await call('POST', `/v1/agents/${pager}/runs/${open}/turns`, { input: { message: 'later' } });
    const walk = async (path: string) => {
      const seen: string[] = [];
      for (let cursor = ''; ;) {
        const { json } = await call('GET', `${path}/conversations?limit=2${cursor}`);
        seen.push(...json.conversations.map((each: { user_message: string }) => each.user_message));
        if (!json.next_cursor) return seen;
        cursor = `&cursor=${json.next_cursor}`;
      }
    };
    assert.deepEqual(await walk(`/v1/threads/${thread}`), ['four', 'three', 'two', 'one']);
    const ofAgent = ['later', 'elsewhere', 'open', 'four', 'three', 'two', 'one'];
    assert.deepEqual(await walk(`/v1/agents/${pager}`), ofAgent);
    for (const old of ran) await unnameTurns(platform, old);
    assert.deepEqual(
      await walk(`/v1/agents/${pager}`),
      ['later', 'elsewhere', 'open', 'one', 'four', 'three', 'two'],
      'those that do not say whose they are come last',
    );
    assert.equal((await call('GET', `/v1/threads/${agent}/conversations`)).status, 404);
    assert.equal((await call('GET', `/v1/agents/${thread}/conversations`)).status, 404);
    assert.equal((await call('GET', `/v1/threads/${thread}/conversations?cursor=abc`)).status, 400);
  });

  it('have no page after a cursor that nobody was given, as no other list has', async () => {
    const { run_id: of, thread_id: thread } = await run(agent, 'Hello');
    const paths = [
      `/v1/runs/${of}/log`,
      `/v1/runs/${of}/turns`,
      `/v1/runs/${of}/events`,
      `/v1/agents/${agent}/versions`,
    ];
    const forged = (key: unknown) => Buffer.from(JSON.stringify(key)).toString('base64url');
    for (const [path, key] of [
      [`/v1/threads/${thread}/conversations`, [99_999_999_999, 1]],
      [`/v1/agents/${agent}/conversations`, [of, 99_999_999_999]],
      [`/v1/agents/${agent}/memory`, `0.5 ${'-'.repeat(36)}`],
      ...paths.map((each) => [each, 99_999_999_999] as const),
    ] as const) {
      assert.equal((await call('GET', `${path}?cursor=${forged(key)}`)).status, 400, path);
    }
  });

  it('say what has gone wrong, and nothing of what was erased', async () => {
    replies = [{ error: { status: 401, type: 'authentication_error' } }];
    const { run_id: failed, thread_id: thread } = await run(agent, 'This fails');
    const [row] = await conversations(`/v1/threads/${thread}`);
    assert.deepEqual([row.status, row.error.code, row.final_response], ['failed', 'provider_rejected', null]);
    assert.deepEqual(row.messages, [{ role: 'user', content: [{ type: 'text', text: 'This fails' }] }]);
    await call('DELETE', `/v1/runs/${failed}`);
    const [erased] = await conversations(`/v1/threads/${thread}`);
    assert.deepEqual([erased.user_message, erased.messages], ['', []]);
  });

  it('have a log of what their runs have done, action by action', async () => {
    const short = await newAgent('short', { execution_config: { max_turns: 1 } });
    replies = [use({ name: 'calculator', input: { expression: '2 +' }, id: 'toolu_bad' }), text('I could not.')];
    const { run_id } = await run(short, 'Add up');
    const { json } = await call('GET', `/v1/runs/${run_id}/log?messages_snapshot=true`);
    const types = json.actions.map((each: { action_type: string }) => each.action_type);
    assert.deepEqual(types, [
      'run_started',
      'api_call_started',
      'api_response_received',
      'tool_execution',
      'tool_error',
      'max_steps_reached',
      'context_transformation',
      'api_call_started',
      'api_response_received',
      'final_summary_generation',
      'run_completed',
    ]);
    const find = (type: string) => json.actions.find((each: { action_type: string }) => each.action_type === type);
    assert.equal(find('run_started').action_data.user_message, 'Add up');
    const { action_data: tool } = find('tool_execution');
    assert.deepEqual([tool.tool_name, tool.tool_use_id, tool.success], ['calculator', 'toolu_bad', false]);
    assert.deepEqual(tool.input, { expression: '2 +' });
    assert.equal(find('api_response_received').action_data.usage.cache_read_input_tokens, 400);
    assert.equal(find('context_transformation').action_data.transformation_type, 'tool_result_added');
    assert.deepEqual(find('api_call_started').messages_snapshot, [
      { role: 'user', content: [{ type: 'text', text: 'Add up' }] },
    ]);
    assert.deepEqual(find('run_completed').action_data, {
      stop_reason: 'max_steps',
      final_response: 'I could not.',
      total_steps: 2,
      total_input_tokens: 2000,
      total_output_tokens: 200,
      files_generated: 0,
    });
    assert.deepEqual(
      json.actions.map((each: { step_number: number }) => each.step_number),
      [0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2],
    );
    assert.ok(find('run_completed').duration_ms >= find('api_response_received').duration_ms);
    const ids = json.actions.map((each: { log_id: number }) => each.log_id);
    assert.deepEqual(
      ids,
      [...new Set<number>(ids)].toSorted((a, b) => a - b),
    );
    const { json: calls } = await call('GET', `/v1/runs/${run_id}/log?types=tool_execution,run_failed`);
    assert.deepEqual(
      calls.actions.map((each: { action_type: string }) => each.action_type),
      ['tool_execution'],
    );
    const pages: unknown[] = [];
    for (let cursor = ''; ;) {
      const { json: page } = await call('GET', `/v1/agents/${short}/runs/${run_id}/log?limit=3${cursor}`);
      pages.push(...page.actions);
      if (!page.next_cursor) break;
      cursor = `&cursor=${page.next_cursor}`;
    }
    assert.deepEqual(
      pages.map((each) => (each as { log_id: number }).log_id),
      ids,
    );
  });
});
