/** The two tables and the five query patterns of docs/threads.md (conversations and the run log), as they are asked over HTTP. */
import assert from 'node:assert/strict';
import { request } from '../support/api.ts';
import { text, use } from '../support/engine.ts';
import { startFakeAnthropic, type AnthropicReply, type AnthropicRequest } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { openTestPlatform, type TestPlatform } from '../support/platform.ts';
import { waitUntil } from '../support/wait-until.ts';

const MODEL = 'anthropic/claude-haiku-4-5';
const CONFIRM = { name: 'confirm', description: 'Asks the user in the browser.', transport: { type: 'client' } };
const LONG = 'lorem ipsum '.repeat(200);

describe('What is kept of conversations, in two tables and five patterns of query,', () => {
  let platform: TestPlatform;
  let model: FakeServer;
  let replies: AnthropicReply[] = [];
  before(async () => {
    model = await startFakeAnthropic(({ tools }: AnthropicRequest) => {
      const forced = tools?.[0]?.name;
      if (forced === 'submit_summary') return use({ name: forced, input: { summary: 'Two long texts.' } });
      return { usage: { input_tokens: 1000, output_tokens: 100 }, ...(replies.shift() ?? text('fine')) };
    });
    const env = { ANTHROPIC_API_KEY: 'sk', ANTHROPIC_BASE_URL: model.url };
    platform = await openTestPlatform(undefined, { workers: true, api: true, env });
    assert.equal((await call('POST', '/v1/tools', CONFIRM)).status, 201);
  });
  after(async () => {
    await platform.close();
    await model.close();
  });

  const call = (method: string, path: string, body?: unknown) =>
    request(`${platform.url}${path}`, method, { key: platform.apiKey, ...(body !== undefined && { body }) });
  const get = async (path: string) => {
    const { status, json, text: said } = await call('GET', path);
    assert.equal(status, 200, said);
    return json;
  };
  let agents = 0;
  const newAgent = async (more: Record<string, unknown> = {}) => {
    const llm_config = { default_model: MODEL, ...(more['llm_config'] as object | undefined) };
    const body = { name: `agent ${++agents}`, tools: ['calculator', 'confirm'], ...more, llm_config };
    const { json, text: said } = await call('POST', '/v1/agents', body);
    assert.ok(json.id, said);
    return json.id as string;
  };
  /** One run with a turn, on a thread where it is named; over when it answers. */
  const ask = async (agent: string, message: string, thread_id?: string) => {
    const { json, text: said } = await call('POST', `/v1/agents/${agent}/runs`, { input: { message }, thread_id });
    assert.ok(json.run_id, said);
    await waitUntil('the run ends, or waits', async () => {
      const { status, waiting_for: waiting } = await get(`/v1/runs/${json.run_id}`);
      return ['completed', 'failed'].includes(status) || waiting !== undefined;
    });
    return json as { run_id: string; thread_id: string; turn_id: string };
  };

  it('agent_config: all that its columns hold, but what Drover has no such thing of', async () => {
    const agent = await newAgent({
      system_prompt: 'You reckon.',
      memory_config: { short_term: { max_tokens: 1000, strategy: 'summarize' }, long_term: { enabled: true } },
      execution_config: { max_turns: 7 },
      llm_config: { max_tokens: 5000, thinking_tokens: 2048, api_kwargs: { top_p: 0.95 }, beta_headers: ['b-2025'] },
    });
    const { thread_id: thread } = await ask(agent, LONG);
    await ask(agent, LONG, thread);
    replies = [
      use(
        { name: 'calculator', input: { expression: '2+3' }, id: 'toolu_01backbackbackbackback' },
        { name: 'confirm', input: { message: 'Sure?' }, id: 'toolu_01frontfrontfrontfront' },
      ),
    ];
    const { run_id: last } = await ask(agent, 'and now?', thread);
    await call('PATCH', `/v1/threads/${thread}`, { extras: { user_id: 'user_123' } });
    await waitUntil('it has a title', async () => (await get(`/v1/threads/${thread}`)).title !== null);

    const config = await get(`/v1/threads/${thread}?messages=true`);
    const { resumption, created_at, updated_at, last_run_at, ...row } = config;
    assert.deepEqual(row, {
      id: thread,
      thread_id: thread,
      agent_id: agent,
      title: 'A title',
      extras: { user_id: 'user_123' },
      metadata: {},
      total_runs: 3,
      last_run_id: last,
      last_run_status: 'awaiting_tool',
    });
    assert.ok(created_at <= last_run_at && last_run_at <= updated_at);
    const { messages, tool_schemas, ...settings } = resumption;
    assert.deepEqual(settings, {
      agent_version: '1.0.0',
      system_prompt: 'You reckon.',
      model: MODEL,
      max_steps: 7,
      max_tokens: 5000,
      thinking_tokens: 2048,
      container_id: null,
      tool_names: ['calculator', 'confirm', 'read_tool_output'],
      server_tools: [],
      beta_headers: ['b-2025'],
      api_kwargs: { top_p: 0.95 },
      compactor_type: 'summarize',
      memory_store_type: 'drover',
      max_retries: 2,
      base_delay: 1,
      last_known_input_tokens: 1000,
      last_known_output_tokens: 100,
      current_step: 1,
      awaiting_frontend_tools: true,
      pending_frontend_tools: [
        { tool_use_id: 'toolu_01frontfrontfrontfront', name: 'confirm', input: { message: 'Sure?' } },
      ],
      pending_backend_results: [
        { type: 'tool_result', tool_use_id: 'toolu_01backbackbackbackback', content: '{"result":5}' },
      ],
    });
    const described = tool_schemas.map((tool: { name: string; input_schema: { type: string } }) => [
      tool.name,
      tool.input_schema.type,
    ]);
    assert.deepEqual(described, [
      ['calculator', 'object'],
      ['confirm', 'object'],
      ['read_tool_output', 'object'],
    ]);
    assert.match(JSON.stringify(messages[0]), /Two long texts\./, 'as it is compacted');
    const sent = await get(`/v1/runs/${last}/log?types=api_call_started&messages_snapshot=true`);
    const { messages_snapshot: before } = sent.actions.at(-1);
    assert.deepEqual(messages.slice(0, before.length), before, 'what was sent last, and what has come since');
    assert.deepEqual(messages.slice(before.length), [
      {
        role: 'assistant',
        content: [
          { type: 'tool_use', id: 'toolu_01backbackbackbackback', name: 'calculator', input: { expression: '2+3' } },
          { type: 'tool_use', id: 'toolu_01frontfrontfrontfront', name: 'confirm', input: { message: 'Sure?' } },
        ],
      },
    ]);
    assert.equal('messages' in (await get(`/v1/threads/${thread}`)).resumption, false, 'only where it is asked for');
  });

  it('conversation_history: all that its columns hold, a row for each turn', async () => {
    replies = [use({ name: 'calculator', input: { expression: '2+3' }, id: 'toolu_sum' }), text('It is 5.')];
    const { thread_id, run_id, turn_id } = await ask(await newAgent(), 'What is 2+3?');
    const { conversations } = await get(`/v1/threads/${thread_id}/conversations`);
    const [{ started_at, completed_at, created_at, agent_id: _, ...row }] = conversations;
    assert.ok(created_at <= started_at && started_at <= completed_at);
    assert.deepEqual(row, {
      id: turn_id,
      conversation_id: turn_id,
      turn_id,
      thread_id,
      run_id,
      sequence_number: 1,
      status: 'complete',
      user_message: 'What is 2+3?',
      final_response: 'It is 5.',
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'What is 2+3?' }] },
        {
          role: 'assistant',
          content: [{ type: 'tool_use', id: 'toolu_sum', name: 'calculator', input: { expression: '2+3' } }],
        },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_sum', content: '{"result":5}' }] },
        { role: 'assistant', content: [{ type: 'text', text: 'It is 5.' }] },
      ],
      stop_reason: 'end_turn',
      error: null,
      total_steps: 2,
      usage: {
        input_tokens: 2000,
        output_tokens: 200,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
      },
      generated_files: [],
      cost: {
        input_cost: 0.002,
        output_cost: 0.001,
        cache_write_cost: 0,
        cache_read_cost: 0,
        total_cost: 0.003,
        total_input_tokens: 2000,
        total_output_tokens: 200,
        total_cache_creation_tokens: 0,
        total_cache_read_tokens: 0,
        model_id: 'claude-haiku-4-5',
        long_context_applied: false,
        currency: 'USD',
      },
      extras: {},
    });
  });

  it('pattern 1: what an agent is resumed with comes in one answer, and is what it is resumed with', async () => {
    const agent = await newAgent();
    const { thread_id: thread } = await ask(agent, 'one');
    const { resumption, ...config } = await get(`/v1/threads/${thread}?messages=true`);
    assert.deepEqual([config.agent_id, config.total_runs, resumption.model], [agent, 1, MODEL]);
    const { run_id: next } = await ask(agent, 'two', thread);
    const sent = await get(`/v1/runs/${next}/log?types=api_call_started&messages_snapshot=true`);
    assert.deepEqual(sent.actions[0].messages_snapshot, [
      ...resumption.messages,
      { role: 'user', content: [{ type: 'text', text: 'two' }] },
    ]);
  });

  it('pattern 2: the history of a conversation, newest first, page by page', async () => {
    const agent = await newAgent();
    const { thread_id: thread } = await ask(agent, 'one');
    await ask(agent, 'two', thread);
    await ask(agent, 'three', thread);
    const path = `/v1/threads/${thread}/conversations?limit=2`;
    const page = await get(path);
    const rest = await get(`${path}&cursor=${page.next_cursor}`);
    const shown = [...page.conversations, ...rest.conversations].map(
      ({ sequence_number: place, user_message: asked, final_response: answer, ...row }) => {
        for (const column of ['conversation_id', 'started_at', 'generated_files', 'total_steps']) {
          assert.ok(column in row, column);
        }
        return [place, asked, answer];
      },
    );
    assert.deepEqual(shown, [
      [3, 'three', 'fine'],
      [2, 'two', 'fine'],
      [1, 'one', 'fine'],
    ]);
    assert.equal(rest.next_cursor, undefined);
  });

  it('pattern 3: what a run has done, in the order in which it did', async () => {
    replies = [use({ name: 'calculator', input: { expression: '1+1' } }), text('2')];
    const { run_id: run } = await ask(await newAgent(), 'How much?');
    const { actions } = await get(`/v1/runs/${run}/log`);
    const times = actions.map(({ timestamp }: { timestamp: string }) => timestamp);
    assert.deepEqual(times, times.toSorted());
    const rows = actions.map((each: Record<string, unknown>) => [each['step_number'], each['action_type']]);
    assert.deepEqual(rows, [
      [0, 'run_started'],
      [1, 'api_call_started'],
      [1, 'api_response_received'],
      [1, 'tool_execution'],
      [1, 'context_transformation'],
      [2, 'api_call_started'],
      [2, 'api_response_received'],
      [2, 'run_completed'],
    ]);
    const timed = actions.filter((each: object) => 'duration_ms' in each);
    assert.deepEqual(
      timed.map((each: { action_type: string }) => each.action_type),
      ['api_response_received', 'tool_execution', 'api_response_received', 'run_completed'],
    );
  });

  it('pattern 4: the average tokens of a run over seven days, by agent', async () => {
    const [often, once] = [await newAgent(), await newAgent()];
    replies = [use({ name: 'calculator', input: { expression: '1+1' } }), text('2')];
    await ask(often, 'two steps');
    await ask(often, 'one step');
    await ask(once, 'one step');
    const { agents: rows } = await get('/v1/dashboard/agents');
    const averages = new Map(
      rows.map((row: { agent_id: string; avg_tokens_per_run: number }) => [row.agent_id, row.avg_tokens_per_run]),
    );
    assert.deepEqual([averages.get(often), averages.get(once)], [1650, 1100]);
    const past = await get('/v1/dashboard/agents?from=2020-01-01&to=2020-01-07');
    assert.deepEqual(past.agents, []);
  });

  it('pattern 5: errors, newest first, of all agents or of one', async () => {
    const refusal = { error: { status: 401, type: 'authentication_error' } };
    const [first, second] = [await newAgent(), await newAgent()];
    replies = [refusal];
    const { run_id: older } = await ask(first, 'x');
    replies = [refusal];
    const { run_id: newer } = await ask(second, 'x');
    const { errors } = await get('/v1/dashboard/errors?limit=2');
    const rows = errors.map(({ timestamp, ...row }: Record<string, unknown>) => {
      assert.ok(timestamp);
      return [row['agent_id'], row['run_id'], row['action_type']];
    });
    assert.deepEqual(rows, [
      [second, newer, 'error'],
      [first, older, 'error'],
    ]);
    const { actions } = await get(`/v1/runs/${newer}/log?types=error`);
    assert.deepEqual(errors[0].action_data, actions[0].action_data);
    const ofFirst = await get(`/v1/dashboard/errors?agent_id=${first}`);
    assert.deepEqual(ofFirst.errors, [errors[1]]);
  });
});
