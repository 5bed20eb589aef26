/** The taxonomy of docs/threads.md over HTTP: each action that happens is in the log of its run under its name, with the fields of its table. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { request } from '../support/api.ts';
import { startServer } from '../support/echo-server.ts';
import { text, use } from '../support/engine.ts';
import {
  startFakeAnthropic,
  type AnthropicReply,
  type AnthropicRequest,
  type FakeFile,
} from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { openTestPlatform, type TestPlatform } from '../support/platform.ts';
import { waitUntil } from '../support/wait-until.ts';

interface ShownAction {
  log_id: number;
  timestamp: string;
  step_number: number;
  action_type: string;
  action_data: Record<string, unknown>;
  messages_count?: number;
  estimated_tokens?: number;
  duration_ms?: number;
  messages_snapshot?: unknown[];
}

const MODEL = 'anthropic/claude-haiku-4-5';
const BROKEN: AnthropicReply = { error: { status: 500, type: 'api_error' } };
const REFUSED: AnthropicReply = { error: { status: 401, type: 'authentication_error' } };
const LONG = 'lorem ipsum '.repeat(200);

describe('The log of a run', () => {
  let folder: string;
  let platform: TestPlatform;
  let model: FakeServer;
  /** What the model says to agents, and what to Drover itself, by the tool that is forced. */
  let replies: AnthropicReply[] = [];
  let own: Record<string, AnthropicReply> = {};
  const files = new Map<string, FakeFile>();

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'drover-run-log-'));
    model = await startFakeAnthropic(
      ({ tools }: AnthropicRequest) => {
        const forced = tools?.[0]?.name ?? '';
        return forced.startsWith('submit_') ? (own[forced] ?? text('no')) : (replies.shift() ?? text('fine'));
      },
      { files },
    );
    const env = { ANTHROPIC_API_KEY: 'sk', ANTHROPIC_BASE_URL: model.url, DROVER_FILES_URL: `file:${folder}` };
    platform = await openTestPlatform(undefined, { workers: true, api: true, env });
  });
  after(async () => {
    await platform.close();
    await model.close();
    await rm(folder, { recursive: true, force: true });
  });
  beforeEach(() => {
    replies = [];
    own = {};
  });

  const call = (method: string, path: string, body?: unknown) =>
    request(`${platform.url}${path}`, method, { key: platform.apiKey, ...(body !== undefined && { body }) });
  let agents = 0;
  const newAgent = async (more: Record<string, unknown> = {}) => {
    const llm_config = { default_model: MODEL, base_delay: 0, ...(more['llm_config'] as object | undefined) };
    const { json, text: said } = await call('POST', '/v1/agents', { name: `agent ${++agents}`, ...more, llm_config });
    assert.ok(json.id, said);
    return json.id as string;
  };
  /** A run in which somebody says all of these, one after the other; its answers are those of `replies`. */
  const talk = async (agent: string, messages: readonly string[]): Promise<string> => {
    const { json } = await call('POST', `/v1/agents/${agent}/runs`, { config: { keep_open: true } });
    for (const message of messages) {
      const turn = await call('POST', `/v1/runs/${json.run_id}/turns`, { input: { message } });
      assert.equal(turn.status, 200, turn.text);
    }
    return json.run_id as string;
  };
  const logOf = async (run: string, query = ''): Promise<ShownAction[]> => {
    const { json, text: said } = await call('GET', `/v1/runs/${run}/log${query}`);
    assert.ok(json.actions, said);
    return json.actions;
  };
  const typesOf = (actions: readonly ShownAction[]) => actions.map(({ action_type }) => action_type);
  /** The one action of this type, the same whether all are asked for or it alone. */
  const only = async (run: string, type: string): Promise<ShownAction> => {
    const found = (await logOf(run)).filter(({ action_type }) => action_type === type);
    assert.equal(found.length, 1, JSON.stringify(found));
    assert.deepEqual(await logOf(run, `?types=${type}`), found);
    const [action] = found;
    assert.ok(action);
    return action;
  };

  it('run_started: what the user has said, before any step', async () => {
    const action = await only(await talk(await newAgent(), ['Hello']), 'run_started');
    assert.deepEqual(action.action_data, { user_message: 'Hello', turn_number: 1 });
    assert.equal(action.step_number, 0);
  });

  it('run_completed: the answer, and what all of it came to', async () => {
    replies = [{ ...text('Bye.'), usage: { input_tokens: 30, output_tokens: 4 } }];
    const { step_number, duration_ms, action_data } = await only(await talk(await newAgent(), ['x']), 'run_completed');
    assert.deepEqual(action_data, {
      stop_reason: 'end_turn',
      final_response: 'Bye.',
      total_steps: 1,
      total_input_tokens: 30,
      total_output_tokens: 4,
      files_generated: 0,
    });
    assert.equal(step_number, 1);
    assert.ok(Number(duration_ms) >= 0);
  });

  it('run_failed and error: the same fault, which the list of errors has, too', async () => {
    const agent = await newAgent();
    replies = [REFUSED];
    const run = await talk(agent, ['x']);
    const failed = await only(run, 'run_failed');
    const error = await only(run, 'error');
    const { code } = failed.action_data['error'] as { code: string };
    assert.deepEqual([failed.action_data['stop_reason'], code], ['failed', 'provider_rejected']);
    assert.deepEqual(error.action_data, { error: failed.action_data['error'] });
    const { json } = await call('GET', `/v1/dashboard/errors?agent_id=${agent}`);
    assert.deepEqual(json.errors[0].action_data, error.action_data);
  });

  it('run_failed and error: in the step that has failed', async () => {
    const sum = use({ name: 'calculator', input: { expression: '1+1' } });
    const invalid: AnthropicReply = { error: { status: 400, type: 'invalid_request_error' } };
    for (const answers of [[], [sum, sum]]) {
      replies = [...answers, invalid];
      const run = await talk(await newAgent({ tools: ['calculator'] }), ['x']);
      for (const type of ['api_error', 'run_failed', 'error']) {
        assert.equal((await only(run, type)).step_number, answers.length + 1, type);
      }
    }
  });

  it('run_failed: of a turn that somebody cancels, with the reason that its conversation shows', async () => {
    replies = [{ ...text('never'), hang: true }];
    const { json } = await call('POST', `/v1/agents/${await newAgent()}/runs`, { input: { message: 'x' } });
    await waitUntil('the model is asked', async () => typesOf(await logOf(json.run_id)).includes('api_call_started'));
    await call('POST', `/v1/runs/${json.run_id}/cancel`);
    const { action_data, step_number } = await only(json.run_id, 'run_failed');
    assert.deepEqual([action_data, step_number], [{ stop_reason: 'cancelled' }, 1]);
    const { json: page } = await call('GET', `/v1/threads/${json.thread_id}/conversations`);
    assert.equal(page.conversations[0].stop_reason, action_data['stop_reason']);
  });

  it('max_steps_reached and final_summary_generation: the limit, and what the model then says', async () => {
    const agent = await newAgent({ tools: ['calculator'], execution_config: { max_turns: 1 } });
    replies = [use({ name: 'calculator', input: { expression: '1+1' } }), text('So far 2.')];
    const run = await talk(agent, ['x']);
    assert.deepEqual((await only(run, 'max_steps_reached')).action_data, { limit: 1 });
    const { action_data } = await only(run, 'final_summary_generation');
    assert.deepEqual(action_data, { stop_reason: 'end_turn', content: [{ type: 'text', text: 'So far 2.' }] });
  });

  it('memory_retrieval: what the turn was given, before its first step', async () => {
    const agent = await newAgent({ memory_config: { long_term: { enabled: true } } });
    const content = 'Ada prefers trains to planes.';
    await call('POST', `/v1/agents/${agent}/memory`, { content, memory_type: 'SEMANTIC' });
    const action = await only(await talk(agent, ['Does Ada like trains?']), 'memory_retrieval');
    assert.equal(action.action_data['memories_injected'], 1);
    assert.match(JSON.stringify(action.action_data['entries']), /prefers trains/);
    assert.equal(action.step_number, 0);
  });

  it('memory_update: what was learnt from the turn after its end, and when', async () => {
    const agent = await newAgent({ memory_config: { long_term: { enabled: true, extract: true } } });
    const add = [{ content: 'The user prefers trains to planes.', memory_type: 'semantic', importance: 0.8 }];
    own = { submit_memories: use({ name: 'submit_memories', input: { add } }) };
    const run = await talk(agent, ['I prefer trains to planes.']);
    await waitUntil('it is learnt', async () => (await logOf(run, '?types=memory_update')).length > 0);
    const { action_data, timestamp, step_number } = await only(run, 'memory_update');
    const { json } = await call('GET', `/v1/agents/${agent}/memory`);
    assert.deepEqual(action_data, {
      made_by: 'model',
      refused: {},
      memories_added: 1,
      memories_superseded: 0,
      added: [json.entries[0].id],
      superseded: [],
    });
    const all = await logOf(run);
    assert.equal(typesOf(all).at(-1), 'memory_update');
    assert.deepEqual([timestamp >= String(all.at(-2)?.timestamp), step_number], [true, 1]);
    await call('DELETE', `/v1/runs/${run}`);
    assert.deepEqual(await logOf(run, '?types=memory_update'), []);
  });

  it('memory_update: what the agent remembers in the middle of its turn; not what it had remembered already', async () => {
    const agent = await newAgent({ memory_config: { long_term: { enabled: true } }, tools: ['remember'] });
    const remember = use({ name: 'remember', input: { content: 'Ada prefers trains to planes.' } });
    replies = [remember, text('noted'), remember, text('known')];
    const run = await talk(agent, ['Remember it.', 'Again.']);
    const { action_data, step_number } = await only(run, 'memory_update');
    const { json } = await call('GET', `/v1/agents/${agent}/memory`);
    assert.deepEqual([action_data['made_by'], action_data['added']], ['agent', [json.entries[0].id]]);
    assert.equal(step_number, 1);
  });

  it('compaction: with the strategy and the tokens before and after', async () => {
    const memory_config = { short_term: { max_tokens: 1000, strategy: 'summarize' } };
    own = { submit_summary: use({ name: 'submit_summary', input: { summary: 'All of it.' } }) };
    const run = await talk(await newAgent({ memory_config }), [LONG, LONG, 'and now?']);
    const { action_data, estimated_tokens } = await only(run, 'compaction');
    assert.deepEqual([action_data['compaction_applied'], action_data['strategy']], [true, 'summarize']);
    assert.ok(Number(action_data['tokens_before']) > Number(action_data['tokens_after']));
    assert.equal(estimated_tokens, action_data['tokens_after']);
    const asked = await logOf(run, '?types=api_call_started&messages_snapshot=true');
    assert.match(JSON.stringify(asked.at(-1)?.messages_snapshot?.[0]), /All of it\./);
  });

  it('context_transformation: results that came in, with the step that they are of, counts and tokens', async () => {
    replies = [
      {
        ...use({ name: 'calculator', input: { expression: '1+1' } }),
        usage: { input_tokens: 1000, output_tokens: 200 },
      },
    ];
    const run = await talk(await newAgent({ tools: ['calculator'] }), ['x']);
    const [first, second] = await logOf(run, '?types=api_call_started');
    const { action_data, ...action } = await only(run, 'context_transformation');
    assert.deepEqual(action_data, {
      transformation_type: 'tool_result_added',
      messages_before_count: 2,
      messages_after_count: 3,
      tokens_before: first?.estimated_tokens,
      tokens_after: second?.estimated_tokens,
    });
    assert.ok(Number(first?.estimated_tokens) < Number(second?.estimated_tokens), 'the call and its result are more');
    assert.deepEqual(
      [action.step_number, action.messages_count, action.estimated_tokens],
      [1, 3, second?.estimated_tokens],
    );
  });

  it('context_transformation: what is left out, where the strategy is fifo', async () => {
    const run = await talk(await newAgent({ memory_config: { short_term: { max_tokens: 1000 } } }), [LONG, LONG, 'x']);
    const { action_data } = await only(run, 'context_transformation');
    assert.deepEqual(
      [action_data['transformation_type'], action_data['dropped_messages'], action_data['first_kept_ordinal']],
      ['messages_left_out', 2, 2],
    );
  });

  it('api_call_started and api_response_received: a call and its answer', async () => {
    replies = [{ ...text('Yes.'), usage: { input_tokens: 30, output_tokens: 4, cache_read_input_tokens: 5 } }];
    const run = await talk(await newAgent(), ['Sure?']);
    const [started] = await logOf(run, '?types=api_call_started&messages_snapshot=true');
    assert.deepEqual(started?.messages_snapshot, [{ role: 'user', content: [{ type: 'text', text: 'Sure?' }] }]);
    assert.deepEqual([started?.step_number, started?.messages_count], [1, 1]);
    assert.ok(Number(started?.estimated_tokens) > 0);
    const { action_data, duration_ms } = await only(run, 'api_response_received');
    const { usage, content, cost_usd, stop_reason } = action_data;
    assert.deepEqual(usage, {
      input_tokens: 30,
      output_tokens: 4,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 5,
    });
    assert.deepEqual([content, stop_reason], [[{ type: 'text', text: 'Yes.' }], 'end_turn']);
    assert.equal(cost_usd, 0.0000505);
    assert.ok(Number(duration_ms) >= 0);
  });

  it('api_call_started: what the model may say and think, and how many tools it is offered', async () => {
    const server_tools = [{ type: 'web_search_20250305', name: 'web_search' }];
    const thinker = await newAgent({
      tools: ['calculator'],
      llm_config: { max_tokens: 5000, thinking_tokens: 2048, server_tools },
    });
    const run = await talk(thinker, ['Sure?']);
    const { action_data } = await only(run, 'api_call_started');
    const sent = model.requests.at(-1)?.body['tools'];
    const tools_count = Array.isArray(sent) ? sent.length : 0;
    const { provider, model: name, ...offered } = action_data;
    assert.deepEqual([provider, `${String(provider)}/${String(name)}`], ['anthropic', MODEL]);
    assert.deepEqual(offered, { tool_choice: 'auto', max_tokens: 5000, thinking_tokens: 2048, tools_count });
    assert.ok(tools_count > 1);
  });

  it('api_retry: a call that is made again, and one that goes to another model', async () => {
    replies = [BROKEN];
    const again = await only(await talk(await newAgent(), ['x']), 'api_retry');
    assert.equal(again.action_data['attempt'], 1);
    // A model of its own: for a while nobody asks it.
    const llm_config = { default_model: 'anthropic/claude-sonnet-5', fallback_model: MODEL, max_retries: 0 };
    replies = [BROKEN];
    const other = await only(await talk(await newAgent({ llm_config }), ['x']), 'api_retry');
    assert.deepEqual([other.action_data['from'], other.action_data['to']], ['claude-sonnet-5', 'claude-haiku-4-5']);
  });

  it('api_error: a call that has failed for good', async () => {
    replies = [REFUSED];
    const { action_data } = await only(await talk(await newAgent(), ['x']), 'api_error');
    assert.equal((action_data['error'] as { code: string }).code, 'authentication');
  });

  it('api_error: a call that was announced, and for which no budget was left', async () => {
    const agent = await newAgent({ tools: ['calculator'] });
    const asks = use({ name: 'calculator', input: { expression: '1+1' } });
    const says = { content: [{ type: 'text' as const, text: 'Let me see.' }, ...(asks.content ?? [])] };
    for (const [reply, ...end] of [
      [says, 'run_completed'],
      [asks, 'run_failed', 'error'],
    ] as const) {
      replies = [reply];
      const config = { keep_open: true, budget: { max_steps: 1 } };
      const { json } = await call('POST', `/v1/agents/${agent}/runs`, { config });
      await call('POST', `/v1/runs/${json.run_id}/turns`, { input: { message: 'x' } });
      const { step_number, action_data } = await only(json.run_id, 'api_error');
      assert.deepEqual([step_number, (action_data['error'] as { code: string }).code], [2, 'budget']);
      const types = typesOf(await logOf(json.run_id));
      assert.deepEqual(types.slice(types.lastIndexOf('api_call_started') + 1), ['api_error', ...end]);
    }
  });

  it('tool_execution: what was called with what, what it answered and how long it took', async () => {
    replies = [use({ name: 'calculator', input: { expression: '2+3' }, id: 'toolu_sum' })];
    const action = await only(await talk(await newAgent({ tools: ['calculator'] }), ['x']), 'tool_execution');
    const { tool_call_id: _, execution_time_ms: took, ...data } = action.action_data;
    assert.deepEqual(data, {
      tool_name: 'calculator',
      tool_use_id: 'toolu_sum',
      input: { expression: '2+3' },
      result: { result: 5 },
      success: true,
    });
    assert.deepEqual([action.step_number, action.duration_ms], [1, took]);
  });

  it('tool_error: of a call that fails, beside it; of one that is refused, by itself', async () => {
    const agent = await newAgent({ tools: ['calculator'], guardrail_config: { tool_rails: { allowed_tools: [] } } });
    replies = [use({ name: 'calculator', input: { expression: '1+1' } })];
    const refused = await talk(agent, ['x']);
    assert.ok((await only(refused, 'tool_error')).action_data['error']);
    assert.deepEqual(await logOf(refused, '?types=tool_execution'), []);
    replies = [use({ name: 'nonesuch' })];
    const unknown = await talk(agent, ['x']);
    assert.equal((await only(unknown, 'tool_execution')).action_data['success'], false);
    const { error } = (await only(unknown, 'tool_error')).action_data as { error: { code: string } };
    assert.equal(error.code, 'unknown_tool');
  });

  it('tool_execution: of a call whose outcome was not known, once somebody says that it has happened', async () => {
    const rude = await startServer((_, response) => response.destroy());
    const transport = { type: 'http', endpoint: `${rude.url}/send` };
    assert.equal((await call('POST', '/v1/tools', { name: 'send', description: 'Sends.', transport })).status, 201);
    replies = [use({ name: 'send' })];
    const { json } = await call('POST', `/v1/agents/${await newAgent({ tools: ['send'] })}/runs`, {
      input: { message: 'x' },
    });
    const asked = async () => (await call('GET', `/v1/runs/${json.run_id}`)).json.waiting_for?.approval_id as string;
    await waitUntil('somebody is asked', async () => (await asked()) !== undefined);
    assert.deepEqual(await logOf(json.run_id, '?types=tool_execution'), []);
    const decision = { decision: 'happened', result: { sent: true } };
    assert.equal((await call('POST', `/v1/approvals/${await asked()}`, decision)).status, 200);
    await waitUntil('the turn ends', async () => typesOf(await logOf(json.run_id)).includes('run_completed'));
    const { action_data, step_number } = await only(json.run_id, 'tool_execution');
    assert.deepEqual([action_data['success'], action_data['result'], step_number], [true, { sent: true }, 1]);
    assert.equal((await only(json.run_id, 'tool_error')).action_data['tool_name'], 'send');
    await rude.close();
  });

  it('final_answer_validation and final_answer_validation_failed: each check of an answer', async () => {
    const output_rails = [{ type: 'format', config: { schema: { type: 'object', required: ['city'] } } }];
    replies = [text('{}'), text('{"city": "Bonn"}')];
    const run = await talk(await newAgent({ guardrail_config: { output_rails } }), ['x']);
    const failed = await only(run, 'final_answer_validation_failed');
    assert.match(JSON.stringify(failed.action_data['errors']), /city/);
    assert.equal((await only(run, 'final_answer_validation')).action_data['attempt'], 2);
  });

  it('file_generated, file_downloaded, file_stored and file_error: what the provider’s own code has made', async () => {
    files.set('file_made', { filename: 'plot.txt', mime_type: 'text/plain', content: Buffer.from('a plot') });
    const server_tools = [{ type: 'code_execution_20250825', name: 'code_execution' }];
    const made = (file_id: string) => ({ type: 'bash_code_execution_output', file_id });
    const result = {
      type: 'bash_code_execution_result',
      stdout: '',
      stderr: '',
      return_code: 0,
      content: ['file_made', 'file_gone'].map(made),
    };
    replies = [
      {
        content: [
          { type: 'server_tool_use', id: 'srvtoolu_1', name: 'bash_code_execution', input: { command: 'plot' } },
          { type: 'bash_code_execution_tool_result', tool_use_id: 'srvtoolu_1', content: result },
          { type: 'text', text: 'plotted' },
        ],
      },
    ];
    const run = await talk(await newAgent({ llm_config: { default_model: MODEL, server_tools } }), ['Plot it.']);
    const { json } = await call('GET', `/v1/files?run_id=${run}`);
    for (const type of ['file_generated', 'file_downloaded', 'file_stored']) {
      const { action_data, step_number } = await only(run, type);
      assert.deepEqual([action_data['file_id'], action_data['size'], step_number], [json.files[0].id, 6, 1], type);
    }
    assert.ok((await only(run, 'file_error')).action_data['error']);
    assert.equal((await only(run, 'run_completed')).action_data['files_generated'], 1);
  });

  it('knows the three types of the taxonomy that never happen here as no types', async () => {
    const run = await talk(await newAgent(), ['x']);
    for (const type of ['memory_before_compact', 'memory_after_compact', 'streaming_chunk']) {
      assert.equal((await call('GET', `/v1/runs/${run}/log?types=${type}`)).status, 400, type);
    }
  });
});
