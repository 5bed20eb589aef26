import assert from 'node:assert/strict';
import { endDueWaits } from '../../../modules/waits/end-waits.ts';
import { startServer, type LocalServer } from '../../support/echo-server.ts';
import { DOMAIN_MODE } from '../../support/modes.ts';
import { openTestPlatform, type TestPlatform } from '../../support/platform.ts';
import { startScriptedModel, type ScriptedModel } from '../../support/scripted-model.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { countUnsentJobsOf } from '../../support/queries/outbox.ts';
import { holdOfRun } from '../../support/queries/runs.ts';
import { openWaits } from '../../support/queries/waits.ts';
import { newName } from '../../support/new-name.ts';

interface Call {
  id: string;
  tool_use_id: string;
  tool: string;
  input: Record<string, unknown>;
}

describe('tools that the client executes', () => {
  let model: ScriptedModel;
  let backend: LocalServer;
  let platform: TestPlatform;

  before(async () => {
    model = await startScriptedModel();
    backend = await startServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end('{"from":"backend"}');
    });
    const env = { ANTHROPIC_API_KEY: 'test', ANTHROPIC_BASE_URL: model.url };
    platform = await openTestPlatform(DOMAIN_MODE, { workers: true, api: true, env });
    const schema = { type: 'object', properties: { what: { type: 'string' } }, required: ['what'] };
    await register({ name: 'confirm', input_schema: schema, transport: { type: 'client' } });
    await register({ name: 'risky', transport: { type: 'client' }, risk_level: 'WRITE_HIGH_RISK' });
    await register({ name: 'backend', transport: { type: 'http', endpoint: backend.url } });
  });

  after(async () => {
    await platform.close();
    await backend.close();
    await model.close();
  });

  async function send(route: string, body?: unknown, headers: Record<string, string> = {}) {
    const [method = '', path = ''] = route.split(' ');
    return fetch(`${platform.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${platform.apiKey}`, 'content-type': 'application/json', ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  }

  async function call(route: string, body?: unknown, headers?: Record<string, string>) {
    const response = await send(route, body, headers);
    const text = await response.text();
    // oxlint-disable-next-line typescript/no-explicit-any -- tests say themselves what they expect of an answer
    const json: any = text ? JSON.parse(text) : {};
    return { status: response.status, headers: response.headers, body: json };
  }

  async function register(tool: Record<string, unknown>) {
    const { status } = await call('POST /v1/tools', { description: 'A tool of the test.', ...tool });
    assert.equal(status, 201);
  }

  async function openRun(agent: Record<string, unknown> = {}): Promise<string> {
    const tools = ['confirm', 'risky', 'backend'];
    const made = await call('POST /v1/agents', { name: newName('fronted'), tools, ...agent });
    const { body } = await call(`POST /v1/agents/${made.body.id}/runs`, {});
    return body.run_id;
  }

  const say = (run: string, message: string) => call(`POST /v1/runs/${run}/turns`, { input: { message } });
  const answer = (run: string, tool_results: unknown[], headers?: Record<string, string>) =>
    call(`POST /v1/runs/${run}/turns`, { tool_results }, headers);
  const getRun = async (run: string) => (await call(`GET /v1/runs/${run}`)).body;
  const typesOf = async (run: string) => {
    const { body } = await call(`GET /v1/runs/${run}/events?limit=200`);
    return body.events.map(({ type }: { type: string }) => type);
  };

  it('make a turn answer awaiting_tool with the calls, and the same turn go on with their results', async () => {
    const run = await openRun();
    const asked = await say(run, 'call confirm {"what":"send"}');
    assert.equal(asked.status, 200);
    assert.equal(asked.body.output.status, 'awaiting_tool');
    const [wish, ...others] = asked.body.output.tool_calls;
    assert.deepEqual([wish?.tool, wish?.input, others], ['confirm', { what: 'send' }, []]);
    const { status, waiting_for } = await getRun(run);
    assert.deepEqual([status, waiting_for?.type], ['awaiting_tool', 'client_tools']);
    const leftMs = Date.parse(waiting_for?.until ?? '') - Date.now();
    assert.ok(leftMs > 3_500_000 && leftMs <= 3_600_000, `${leftMs} ms`);

    const done = await answer(run, [{ tool_use_id: wish?.tool_use_id, content: 'they agree' }]);
    assert.deepEqual([done.status, done.body.turn_id], [200, asked.body.turn_id]);
    assert.deepEqual([done.body.output.status, done.body.output.message], ['complete', 'done: they agree']);
    assert.deepEqual(
      model.asked('call confirm {"what":"send"}').map(({ step }) => step),
      [0, 1],
    );
    assert.equal((await getRun(run)).status, 'awaiting_human');
  });

  it('take results inside `input` as well, JSON as it is, text blocks as their text, errors as errors', async () => {
    const run = await openRun();
    const { body } = await say(run, 'call confirm {"what":"a"} & confirm {"what":"b"} & confirm {"what":"c"}');
    const [a, b, c] = body.output.tool_calls.map(({ tool_use_id }: Call) => tool_use_id);
    const tool_results = [
      { tool_use_id: b, content: [{ type: 'text', text: 'two' }] },
      { tool_use_id: a, content: { n: 1 } },
      { tool_use_id: c, content: 'broken', is_error: true },
    ];
    const done = await call(`POST /v1/runs/${run}/turns`, { input: { tool_results } });
    assert.equal(done.body.output.message, 'done: {"n":1}, two, broken');
    const { body: turn } = await call(`GET /v1/runs/${run}/turns/${body.turn_id}`);
    assert.deepEqual(
      turn.tool_calls.map(({ status }: { status: string }) => status),
      ['succeeded', 'succeeded', 'failed'],
    );
  });

  it('are answered while backend tools run, and the model gets all results together', async () => {
    const run = await openRun();
    const { body } = await say(run, 'call backend {} & confirm {"what":"mixed"}');
    assert.deepEqual(
      body.output.tool_calls.map(({ tool }: Call) => tool),
      ['confirm'],
    );
    await waitUntil('the backend tool has run', async () => (await typesOf(run)).includes('tool.succeeded'));
    assert.equal(model.asked('"what":"mixed"').length, 1, 'the model was asked before all results were there');
    const tool_use_id = body.output.tool_calls[0]?.tool_use_id;
    const done = await answer(run, [{ tool_use_id, content: 'yes' }]);
    assert.equal(done.body.output.message, 'done: {"from":"backend"}, yes');
    const [, second] = model.asked('"what":"mixed"');
    assert.equal(second?.results.length, 2);
  });

  it('keep a partial set of results until the rest has come', async () => {
    const run = await openRun();
    const { body } = await say(run, 'call confirm {"what":"one"} & confirm {"what":"two"}');
    const [one, two] = body.output.tool_calls.map(({ tool_use_id }: Call) => tool_use_id);
    const partly = await answer(run, [{ tool_use_id: two, content: '2' }]);
    assert.deepEqual([partly.status, partly.body.output.status], [200, 'awaiting_tool']);
    assert.deepEqual(
      partly.body.output.tool_calls.map(({ tool_use_id }: Call) => tool_use_id),
      [one],
    );
    const done = await answer(run, [{ tool_use_id: one, content: '1' }]);
    assert.equal(done.body.output.message, 'done: 1, 2');
  });

  it('refuse results that are late or for no open call with 409, and then keep none of them', async () => {
    const run = await openRun();
    assert.equal((await answer(run, [{ tool_use_id: 'toolu_x', content: '' }])).status, 409);
    const { body } = await say(run, 'call confirm {"what":"x"}');
    const tool_use_id = body.output.tool_calls[0]?.tool_use_id;
    const good = { tool_use_id, content: 'good' };
    const bad = { tool_use_id: 'toolu_of_nobody', content: 'bad' };
    for (const results of [[bad], [good, bad]]) assert.equal((await answer(run, results)).status, 409);
    const key = { 'idempotency-key': 'once' };
    assert.equal((await answer(run, [good], key)).body.output.message, 'done: good');
    const again = await answer(run, [good], key);
    assert.deepEqual([again.status, again.headers.get('idempotent-replayed')], [200, 'true']);
    assert.equal((await answer(run, [good])).status, 409);
    assert.equal((await typesOf(run)).filter((type: string) => type === 'tool.succeeded').length, 1);
    await call(`POST /v1/runs/${run}/complete`, {});
    assert.equal((await answer(run, [good])).status, 409);
  });

  it('refuse a set that has a result twice with 400, by whatever way it comes', async () => {
    const run = await openRun();
    const { body } = await say(run, 'call confirm {"what":"twice"}');
    const good = { tool_use_id: body.output.tool_calls[0]?.tool_use_id, content: 'good' };
    const twice = [good, { ...good, content: 'other' }];
    const signal = (payload: unknown) => ({ type: 'tool_results', payload });
    const ways: [path: string, sent: object][] = [
      ['turns', { tool_results: twice }],
      ['turns', { input: { tool_results: twice } }],
      ['resume', { tool_results: twice }],
      ['signals', signal(twice)],
      ['signals', signal({ tool_results: twice })],
    ];
    for (const [path, sent] of ways) {
      const { status } = await call(`POST /v1/runs/${run}/${path}`, sent);
      assert.equal(status, 400, JSON.stringify(sent));
    }
    const { errors } = (await answer(run, twice)).body;
    assert.deepEqual(errors, [{ path: 'body.tool_results', message: 'has a tool_use_id twice' }]);
    assert.equal((await answer(run, [good])).body.output.message, 'done: good');
  });

  it('take results beside a message that is null, or empty', async () => {
    const run = await openRun();
    for (const message of [null, '']) {
      const { body } = await say(run, 'call confirm {"what":"x"}');
      const tool_results = [{ tool_use_id: body.output.tool_calls[0]?.tool_use_id, content: 'yes' }];
      const done = await call(`POST /v1/runs/${run}/turns`, { input: { message, tool_results } });
      assert.deepEqual([done.status, done.body.output.message], [200, 'done: yes']);
      assert.equal((await call(`POST /v1/runs/${run}/turns`, { input: { message } })).status, 400);
    }
  });

  it('refuse a message together with results, an empty set, and a message while results are awaited', async () => {
    const run = await openRun();
    const { body } = await say(run, 'call confirm {"what":"x"}');
    const result = { tool_use_id: body.output.tool_calls[0]?.tool_use_id, content: 'x' };
    const both = { input: { message: 'and this', tool_results: [result] } };
    assert.equal((await call(`POST /v1/runs/${run}/turns`, both)).status, 400);
    assert.equal((await answer(run, [])).status, 400);
    assert.equal((await call(`POST /v1/runs/${run}/turns`, { input: {} })).status, 400);
    assert.equal((await say(run, 'something else')).status, 409);
  });

  it('show their calls at the end of a stream, and the next stream goes on after it', async () => {
    const run = await openRun();
    const first = await send(`POST /v1/runs/${run}/turns/stream`, {
      input: { message: 'call confirm {"what":"s"}' },
    });
    const asked = readSse(await first.text());
    const done = asked.at(-1);
    assert.deepEqual([done?.event, done?.data['status']], ['done', 'awaiting_tool']);
    const [wish] = (done?.data['tool_calls'] ?? []) as Call[];
    assert.deepEqual(wish?.input, { what: 's' });
    const second = await send(`POST /v1/runs/${run}/turns/stream`, {
      tool_results: [{ tool_use_id: wish?.tool_use_id, content: 'ok' }],
    });
    const rest = readSse(await second.text());
    assert.deepEqual([rest.at(-1)?.event, rest.at(-1)?.data['status']], ['done', 'complete']);
    assert.ok(Number(rest[0]?.id) > Number(done?.id));
    const { events } = (await call(`GET /v1/runs/${run}/events?limit=200`)).body;
    const ids = [...asked, ...rest].flatMap(({ id }) => (id === undefined ? [] : [Number(id)]));
    assert.equal(new Set(ids).size, ids.length);
    assert.ok(ids.every((id) => events.some(({ seq }: { seq: number }) => seq === id)));
  });

  it('take their results as a signal too, which counts once by its id', async () => {
    const run = await openRun();
    const { body } = await say(run, 'call confirm {"what":"signal"}');
    const tool_results = [{ tool_use_id: body.output.tool_calls[0]?.tool_use_id, content: 'signalled' }];
    const signal = { type: 'tool_results', payload: { tool_results }, id: 'only-once' };
    assert.equal((await call(`POST /v1/runs/${run}/signals`, signal)).status, 202);
    assert.equal((await call(`POST /v1/runs/${run}/signals`, signal)).status, 200);
    const changed = { ...signal, payload: { tool_results: [{ ...tool_results[0], content: 'changed' }] } };
    assert.equal((await call(`POST /v1/runs/${run}/signals`, changed)).status, 422);
    const turnIs = async () => (await call(`GET /v1/runs/${run}/turns/${body.turn_id}`)).body.output;
    await waitUntil('the turn ends', async () => (await turnIs())?.message === 'done: signalled');
    const other = { type: 'tool_results', payload: tool_results };
    assert.equal((await call(`POST /v1/runs/${run}/signals`, other)).status, 409);
    await call(`POST /v1/runs/${run}/complete`, {});
    const late = await Promise.all([signal, changed, other].map((each) => call(`POST /v1/runs/${run}/signals`, each)));
    assert.deepEqual(
      late.map(({ status }) => status),
      [200, 422, 409],
      'it is known to the run after its end, too',
    );
  });

  it('end as an error that the model sees where the client takes too long, and then take no result', async () => {
    const run = await openRun({ execution_config: { client_tool_timeout_seconds: 0.3 } });
    const { body } = await say(run, 'call confirm {"what":"slow"}');
    assert.equal(body.output.status, 'awaiting_tool');
    await waitUntil('the run goes on', async () => (await getRun(run)).status === 'awaiting_human');
    const { body: turn } = await call(`GET /v1/runs/${run}/turns/${body.turn_id}`);
    assert.equal(turn.output.message, 'done: The client gave no result in time.');
    const late = [{ tool_use_id: body.output.tool_calls[0]?.tool_use_id, content: 'late' }];
    assert.equal((await answer(run, late)).status, 409);
    assert.equal(await endDueWaits(platform.context), 0);
  });

  it('pass the gate: bad arguments, then a person, then the client', async () => {
    const run = await openRun();
    const { body: refused } = await say(run, 'call confirm {"wrong":1}');
    assert.match(refused.output.message, /Invalid arguments/);
    const { body } = await say(run, 'call risky {"n":1}');
    assert.equal(body.output.status, 'awaiting_human');
    const { approvals } = (await call(`GET /v1/approvals?status=pending&run_id=${run}`)).body;
    await call(`POST /v1/approvals/${approvals[0]?.id}`, { decision: 'edit', arguments: { n: 2 } });
    await waitUntil('the client is asked', async () => (await getRun(run)).waiting_for?.type === 'client_tools');
    const { events } = (await call(`GET /v1/runs/${run}/events?types=client_tools.requested`)).body;
    const id = events[0]?.payload.tool_call_ids[0];
    const { tool_calls } = (await call(`GET /v1/runs/${run}/turns/${body.turn_id}`)).body;
    const wish = tool_calls.find((each: Call) => each.id === id);
    assert.deepEqual(wish?.input, { n: 2 });
    const done = await answer(run, [{ tool_use_id: wish?.tool_use_id, content: 'approved and done' }]);
    assert.equal(done.body.output.message, 'done: approved and done');
  });

  it('are not asked for where a policy forbids it by the time a person has let the call', async () => {
    const run = await openRun();
    const { body } = await say(run, 'call risky {"forbidden":true}');
    const { approvals } = (await call(`GET /v1/approvals?status=pending&run_id=${run}`)).body;
    const rule = {
      name: 'no more',
      priority: 1,
      when: 'tool.name == "risky"',
      decision: 'block',
      reason: 'not any more',
    };
    const policy = await call('POST /v1/policies', rule);
    assert.equal(policy.status, 201);
    await call(`POST /v1/approvals/${approvals[0]?.id}`, { decision: 'approve' });
    const turnOf = async () => (await call(`GET /v1/runs/${run}/turns/${body.turn_id}`)).body;
    await waitUntil('the turn ends', async () => (await turnOf()).status === 'complete');
    assert.match((await turnOf()).output.message, /not any more/);
    assert.ok(!(await typesOf(run)).includes('client_tools.requested'));
    await call(`DELETE /v1/policies/${policy.body.id}`);
  });

  it('hold nothing while they wait, and are closed when the run is cancelled', async () => {
    const run = await openRun();
    const { body } = await say(run, 'call confirm {"what":"hold"}');
    // A job that was sent leaves the outbox a moment later.
    await waitUntil('nothing is held', async () => {
      const { lease } = await holdOfRun(platform, run);
      return lease === null && (await countUnsentJobsOf(platform, run)) === 0;
    });
    for (const name of ['turns', 'tool-calls'] as const) {
      const jobs = await platform.context.queues.queue(name).getJobs(['waiting', 'prioritized', 'delayed', 'active']);
      assert.ok(!jobs.some((job) => job.data.runId === run));
    }
    assert.equal((await call(`POST /v1/runs/${run}/cancel`, {})).status, 202);
    const results = [{ tool_use_id: body.output.tool_calls[0]?.tool_use_id, content: 'late' }];
    assert.equal((await answer(run, results)).status, 409);
    assert.deepEqual(await openWaits(platform, run), []);
  });

  it('cannot be tried out outside a run', async () => {
    const { body } = await call('GET /v1/tools?filter=name:risky');
    const tried = await call(`POST /v1/tools/${body.tools[0]?.id}/execute`, { input: {} });
    assert.deepEqual([tried.status, tried.body.status], [200, 'error']);
  });
});

interface Shown {
  id: string | undefined;
  event: string | undefined;
  data: Record<string, unknown>;
}

function readSse(text: string): Shown[] {
  const blocks = text.split('\n\n').filter((block) => block.includes('data:'));
  return blocks.map((block) => {
    const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1];
    return { id: field('id'), event: field('event'), data: JSON.parse(field('data') ?? '{}') as Shown['data'] };
  });
}
