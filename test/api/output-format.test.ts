import assert from 'node:assert/strict';
import { ROUTES } from '../../api/routes.ts';
import { assertAsDescribed, request } from '../support/api.ts';
import { text, use } from '../support/engine.ts';
import { startFakeAnthropic, type AnthropicReply, type AnthropicRequest } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { openTestPlatform, type TestPlatform } from '../support/platform.ts';

const CITY = {
  type: 'object',
  properties: { city: { type: 'string' }, people: { type: 'integer' } },
  required: ['city', 'people'],
  additionalProperties: false,
};
const GOOD = '{"city": "Bonn", "people": 3}';
const NO_NUMBER = '{"city": "Bonn"}';

describe('An answer that has to fit a schema', () => {
  let platform: TestPlatform;
  let model: FakeServer;
  let replies: AnthropicReply[] = [];
  before(async () => {
    model = await startFakeAnthropic(() => replies.shift() ?? text('nothing to say'));
    const env = { ANTHROPIC_API_KEY: 'sk-test', ANTHROPIC_BASE_URL: model.url };
    platform = await openTestPlatform(DOMAIN_MODE, { workers: true, api: true, env });
  });
  after(async () => {
    await platform.close();
    await model.close();
  });

  const call = async (method: string, path: string, body?: unknown) => {
    const answer = await request(`${platform.url}${path}`, method, {
      key: platform.apiKey,
      ...(body !== undefined && { body }),
    });
    if (method === 'GET' || answer.status < 300) assertAsDescribed(ROUTES, `${method} ${path}`, answer);
    return answer;
  };
  let names = 0;
  const newAgent = async (more: Record<string, unknown>) => {
    const llm_config = { default_model: 'anthropic/claude-haiku-4-5' };
    const body = { name: `form ${++names}`, llm_config, tools: ['calculator'], ...more };
    const { json, text: said } = await call('POST', '/v1/agents', body);
    assert.ok(json.id, said);
    return json.id as string;
  };
  const railOf = (schema: unknown, more: object = {}) => ({
    guardrail_config: { output_rails: [{ type: 'format', config: { schema, ...more } }] },
  });
  /** The turn of a new run whose model says this. */
  const play = async (
    agent: string,
    said: AnthropicReply[],
    input: Record<string, unknown> = { message: 'Where?' },
  ) => {
    replies = said;
    model.requests.length = 0;
    const { json: run } = await call('POST', `/v1/agents/${agent}/runs`, { config: { keep_open: true } });
    const path = `/v1/agents/${agent}/runs/${run.run_id}`;
    const { json: turn } = await call('POST', `${path}/turns`, { input });
    const { json: log } = await call('GET', `/v1/runs/${run.run_id}/log`);
    const actions = log.actions.map(({ action_type }: { action_type: string }) => action_type) as string[];
    const checks = actions.filter((type) => type.startsWith('final_answer'));
    const requests = model.requests.map(({ body }) => body as AnthropicRequest);
    return { run: run.run_id as string, thread: run.thread_id as string, path, turn, checks, requests, log };
  };

  it('comes as data beside the message, wherever a turn is shown', async () => {
    const agent = await newAgent({ output_schema: CITY });
    const { turn, checks, path, run, requests } = await play(agent, [
      use({ name: 'calculator', input: { expression: '1+2' } }),
      text(`\`\`\`json\n${GOOD}\n\`\`\``),
    ]);
    assert.equal(turn.output.status, 'complete');
    assert.deepEqual(turn.output.data, { city: 'Bonn', people: 3 });
    assert.match(turn.output.message, /^```json/);
    assert.deepEqual(checks, ['final_answer_validation']);
    assert.match(JSON.stringify(requests[0]?.['system']), /additionalProperties/);
    const { json: shown } = await call('GET', `${path}/turns/${turn.turn_id}`);
    assert.deepEqual(shown.output.data, { city: 'Bonn', people: 3 });
    assert.deepEqual((await call('GET', `/v1/runs/${run}`)).json.output.data, { city: 'Bonn', people: 3 });
    await call('POST', `/v1/runs/${run}/complete`);
    const stream = await call('GET', `/v1/runs/${run}/stream`);
    assert.match(stream.text, /event: done\ndata: .*"data":\{"city":"Bonn","people":3\}/);
  });

  it('is no other number in its data than the model has written', async () => {
    const agent = await newAgent({ output_schema: CITY });
    const { turn, requests } = await play(agent, [
      text('{"city": "Bonn", "people": 12345678901234567890}'),
      text(GOOD),
    ]);
    assert.deepEqual(turn.output.data, { city: 'Bonn', people: 3 });
    assert.match(JSON.stringify(requests[1]?.messages.at(-1)), /The integer at people is beyond 2\^53/);
  });

  it('goes back to the model with what is wrong, and the conversation keeps all of it', async () => {
    const agent = await newAgent(railOf(CITY));
    const { turn, checks, requests, thread, run } = await play(agent, [text('Bonn!'), text(NO_NUMBER), text(GOOD)]);
    assert.deepEqual(turn.output.data, { city: 'Bonn', people: 3 });
    const failed = 'final_answer_validation_failed';
    assert.deepEqual(checks, [failed, failed, 'final_answer_validation']);
    assert.match(JSON.stringify(requests[1]?.messages.at(-1)), /is not JSON/);
    assert.match(JSON.stringify(requests[2]?.messages.at(-1)), /must have required property 'people'/);
    assert.deepEqual(
      requests[2]?.messages.map(({ role }) => role),
      ['user', 'assistant', 'user', 'assistant', 'user'],
    );
    const { json } = await call('GET', `/v1/threads/${thread}/conversations`);
    const [conversation] = json.conversations;
    assert.equal(conversation.user_message, 'Where?');
    assert.equal(conversation.final_response, GOOD);
    assert.equal(conversation.messages.length, 6);
    const again = await call('POST', `/v1/runs/${run}/replay`, {
      checkpoint_id: 'start',
      mode: 'recorded',
      config: { keep_open: false },
    });
    const before = model.requests.length;
    const stream = await call('GET', `/v1/runs/${again.json.new_run_id}/stream`);
    assert.match(stream.text, /event: done\ndata: .*"people":3/);
    assert.equal(model.requests.length, before, 'the record answers');
  });

  it('that never fits fails the turn, after as many chances as the rail gives', async () => {
    for (const [max_retries, chances] of [
      [0, 1],
      [1, 2],
      [undefined, 3],
    ] as const) {
      const agent = await newAgent(railOf(CITY, { max_retries }));
      const { turn, checks, requests } = await play(
        agent,
        Array.from({ length: 5 }, () => text('Bonn!')),
      );
      assert.equal(turn.output.status, 'failed');
      assert.equal(turn.output.error.code, 'invalid_output');
      assert.equal(turn.output.message, 'Bonn!', 'what was said is shown');
      assert.equal('data' in turn.output, false);
      assert.equal(requests.length, chances);
      assert.equal(checks.length, chances);
    }
  });

  it('may be demanded by a turn alone, in place of what the agent demands', async () => {
    const agent = await newAgent({ output_schema: CITY });
    const list = { type: 'array', items: { type: 'integer' } };
    const input = { message: 'Which numbers?', output_schema: list };
    const { turn, path, requests } = await play(agent, [text(GOOD), text('[1, 2]')], input);
    assert.deepEqual(turn.output.data, [1, 2]);
    assert.match(JSON.stringify(requests[0]?.messages), /Which numbers\?.*\\"items\\":/);
    replies = [text(GOOD)];
    const { json: next } = await call('POST', `${path}/turns`, { input: { message: 'And where?' } });
    assert.deepEqual(next.output.data, { city: 'Bonn', people: 3 });
    replies = [text('7')];
    const { json: last } = await call('POST', `${path}/turns`, {
      input: { message: 'How many?' },
      output_schema: { type: 'integer' },
    });
    assert.equal(last.output.data, 7);
    replies = [text('Just so.')];
    const free = { message: 'Why?', output_schema: { type: 'string' } };
    const { json: word } = await call('POST', `${path}/turns`, { input: free });
    assert.equal(word.output.data, 'Just so.');
  });

  it('is not asked for beyond the limit of steps', async () => {
    const agent = await newAgent({ output_schema: CITY, execution_config: { max_turns: 1 } });
    const { turn, requests } = await play(agent, [text('no'), text('still not'), text(GOOD)]);
    assert.equal(turn.output.error.code, 'invalid_output');
    assert.equal(requests.length, 2, 'the last one without tools');
  });

  it('cannot be demanded by a schema that is none, nor its rail be loosened by whoever may not', async () => {
    const bad = { type: 'nonsense' };
    const answers = await Promise.all([
      call('POST', '/v1/agents', { name: 'bad', output_schema: bad }),
      call('POST', '/v1/agents', { name: 'bad', ...railOf({ pattern: '(' }) }),
      call('POST', `/v1/agents/${await newAgent({})}/runs`, { input: { message: 'm', output_schema: bad } }),
    ]);
    assert.deepEqual(
      answers.map(({ status, json }) => [status, json.errors[0].path]),
      [
        [422, 'body.output_schema'],
        [422, 'body.guardrail_config.output_rails.0.config.schema'],
        [422, 'body.input.output_schema'],
      ],
    );
    const key = await call('POST', '/v1/api-keys', { name: 'editor', scopes: ['agents:write'] });
    const agent = await newAgent(railOf(CITY));
    const patch = (guardrail_config: unknown) =>
      request(`${platform.url}/v1/agents/${agent}`, 'PATCH', { key: key.json.key, body: { guardrail_config } });
    assert.equal((await patch({})).status, 403);
    assert.equal((await patch({ ...railOf({ type: 'object' }).guardrail_config })).status, 403);
    const [rail] = railOf(CITY).guardrail_config.output_rails;
    assert.equal((await patch({ output_rails: [rail, { type: 'format', config: { schema: {} } }] })).status, 200);
  });
});
