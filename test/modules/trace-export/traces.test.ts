import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { startCollector, type Collector, type SeenSpan } from '../../support/collector.ts';
import { startServer, type LocalServer } from '../../support/echo-server.ts';
import { sendSpansSoon } from '../../support/send-spans-soon.ts';
import { startScriptedService, type ScriptedService } from '../../support/service.ts';
import { waitUntil } from '../../support/wait-until.ts';

const [INTERNAL, SERVER, CLIENT] = [1, 2, 3];
const ERROR = 2;

interface RunShown {
  status: string;
  waiting_for?: { type: string } | null;
}

describe('The spans of a run', () => {
  sendSpansSoon();
  let collector: Collector;
  let service: ScriptedService;
  let server: LocalServer;
  before(async () => {
    collector = await startCollector();
    server = await startServer((_request, response) => response.end('{"paid":true}'));
    service = await startScriptedService({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } });
    const tool = { name: 'pay', description: 'Pays.', transport: { type: 'http', endpoint: server.url } };
    await post('/v1/tools', { ...tool, risk_level: 'WRITE_LOW_RISK' });
    await post('/v1/tools', { ...tool, name: 'buy', risk_level: 'WRITE_HIGH_RISK' });
  });
  after(async () => {
    await service.close();
    await server.close();
    await collector.close();
  });

  const post = async (path: string, body: unknown, headers: Record<string, string> = {}) => {
    const { json, status, text } = await service.call('POST', path, { body, headers });
    assert.ok(status < 300, text);
    return json;
  };
  /** A caller's trace: its id, the id of the caller's span, and the header. */
  const newTrace = (flags = '01') => {
    const [trace, span] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')];
    return { trace, span, headers: { traceparent: `00-${trace}-${span}-${flags}` } };
  };
  const start = async (agent: string, message: string, headers = {}): Promise<string> =>
    (await post(`/v1/agents/${agent}/runs`, { input: { message } }, headers)).run_id;
  const untilRun = (run: string, is: (state: RunShown) => boolean) =>
    waitUntil('the run is there', async () => is((await service.call('GET', `/v1/runs/${run}`)).json));
  const spansOf = (run: string) => collector.spans.filter(({ attributes }) => attributes['drover.run.id'] === run);
  const turnsOf = (run: string) => spansOf(run).filter(({ name }) => /^invoke_(agent|workflow)/.test(name));
  /** The span of a turn is the last of those that its end tells. */
  const ended = (run: string) => waitUntil('the turn is told', () => turnsOf(run).length > 0);
  const only = (run: string, name: RegExp): SeenSpan => {
    const found = spansOf(run).filter((span) => span.kind !== SERVER && name.test(span.name));
    assert.equal(
      found.length,
      1,
      `${name} among ${spansOf(run)
        .map((span) => span.name)
        .join(', ')}`,
    );
    return found[0] as SeenSpan;
  };

  it('are in the trace of its caller: the request, the turn, and the model and tool calls within', async () => {
    const agent = await service.newAgent(['pay'], { name: 'payer' });
    const { trace, span, headers } = newTrace();
    const run = await start(agent, 'call pay {"amount": 7} | say it is paid', headers);
    await ended(run);
    const request = await collector.span('the request', ({ kind, traceId }) => kind === SERVER && traceId === trace);
    assert.equal(request.parentSpanId, span);
    assert.equal(request.name, 'POST /v1/agents/:id/runs');
    const turn = only(run, /^invoke_agent payer$/);
    assert.deepEqual([turn.parentSpanId, turn.kind, turn.status], [request.spanId, INTERNAL, 0]);
    const within = spansOf(run).filter(({ parentSpanId }) => parentSpanId === turn.spanId);
    assert.deepEqual(within.map(({ name }) => name).toSorted(), [
      'chat claude-sonnet-5',
      'chat claude-sonnet-5',
      'execute_tool pay',
    ]);
    for (const each of [turn, ...within]) {
      assert.equal(each.traceId, trace);
      assert.ok(each.startMs >= turn.startMs && each.startMs <= each.endMs && each.endMs <= turn.endMs, each.name);
    }
    assert.equal(new Set(within.map(({ spanId }) => spanId)).size, 3);
    const [called] = server.seen.filter((seen) => seen.headers['x-drover-run-id'] === run);
    const call = only(run, /^execute_tool/);
    assert.equal(called?.headers['traceparent'], `00-${trace}-${call.spanId}-01`, 'the tool is under its call');
  });

  it('say in the words of the conventions who did what, and hold no content', async () => {
    const agent = await service.newAgent(['pay'], { name: 'namer' });
    const run = await start(agent, 'call pay {"note": "c4nary-argument"} | say c4nary-answer');
    await ended(run);
    const { json } = await service.call('GET', `/v1/runs/${run}`);
    const common = {
      'gen_ai.conversation.id': json.thread_id,
      'gen_ai.agent.id': agent,
      'gen_ai.agent.name': 'namer',
      'drover.run.id': run,
    };
    const has = (span: SeenSpan, wanted: Record<string, unknown>) =>
      assert.deepEqual({ ...span.attributes, ...common, ...wanted }, span.attributes);
    const [first, second] = spansOf(run).filter(({ name }) => name.startsWith('chat'));
    assert.ok(first && second);
    const chat = {
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'anthropic',
      'gen_ai.request.model': 'claude-sonnet-5',
      'gen_ai.response.model': 'claude-sonnet-5',
      'gen_ai.usage.input_tokens': 10,
      'gen_ai.usage.output_tokens': 5,
    };
    has(first, { ...chat, 'gen_ai.response.finish_reasons': ['tool_use'], 'drover.step': 1 });
    has(second, { ...chat, 'gen_ai.response.finish_reasons': ['end_turn'], 'drover.step': 2 });
    assert.equal(first.kind, CLIENT);
    const call = only(run, /^execute_tool pay$/);
    has(call, {
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': 'pay',
      'gen_ai.tool.type': 'function',
    });
    assert.match(String(call.attributes['gen_ai.tool.call.id']), /^toolu_/);
    has(only(run, /^invoke_agent/), {
      'gen_ai.operation.name': 'invoke_agent',
      'gen_ai.agent.version': '1.0.0',
      'gen_ai.usage.input_tokens': 20,
      'gen_ai.usage.output_tokens': 10,
      'drover.turn.number': 1,
    });
    assert.equal(first.resource['service.name'], 'drover');
    assert.ok(!JSON.stringify(collector.spans).includes('c4nary'));
  });

  it('are those of a child under the call that delegates to it', async () => {
    const helper = await service.newAgent([], { name: 'helper' });
    const agent = await service.newAgent(['delegate'], { name: 'boss' });
    const { trace, headers } = newTrace();
    const order = JSON.stringify({ description: 'say found', agent: helper });
    const run = await start(agent, `call delegate ${order} | say told`, headers);
    await ended(run);
    const call = only(run, /^execute_tool delegate$/);
    const child = await collector.span('the child', ({ name }) => name === 'invoke_agent helper');
    assert.deepEqual([child.parentSpanId, child.traceId], [call.spanId, trace]);
    assert.equal(child.attributes['drover.parent_run.id'], run);
    assert.ok(child.startMs >= call.startMs && child.endMs <= call.endMs);
  });

  it('are those of subtasks under their workflow', async () => {
    const agent = await service.newAgent([], { name: 'worker' });
    const { trace, headers } = newTrace();
    const definition = { subtasks: [{ id: 'a', description: 'say part' }] };
    const work = { name: 'w', agent_id: agent, input: { user_query: 'q' }, definition };
    const { run_id: run } = await post('/v1/workflows', work, headers);
    await ended(run);
    const flow = only(run, /^invoke_workflow worker$/);
    assert.equal(flow.traceId, trace);
    const isSubtask = ({ name, parentSpanId }: SeenSpan) =>
      name === 'invoke_agent worker' && parentSpanId === flow.spanId;
    const child = await collector.span('the subtask', isSubtask);
    assert.deepEqual([child.traceId, child.attributes['drover.parent_run.id']], [trace, run]);
  });

  it('do not name a tool that a model has made up', async () => {
    const agent = await service.newAgent(['pay']);
    const run = await start(agent, 'call c4nary-tool {} | say sorry');
    await ended(run);
    const call = only(run, /^execute_tool$/);
    assert.deepEqual([call.attributes['error.type'], call.status], ['unknown_tool', ERROR]);
    assert.ok(!JSON.stringify(spansOf(run)).includes('c4nary'));
  });

  it('are told while a person is waited for, once, and so is the wait', async () => {
    const agent = await service.newAgent(['buy']);
    const run = await start(agent, 'call buy {} | say bought');
    await untilRun(run, ({ waiting_for }) => waiting_for?.type === 'approval');
    await waitUntil('spans are told', () => spansOf(run).some(({ kind }) => kind !== SERVER));
    assert.deepEqual(
      spansOf(run).flatMap(({ kind, name }) => (kind === SERVER ? [] : [name])),
      ['chat claude-sonnet-5'],
    );
    const { json } = await service.call('GET', `/v1/approvals?run_id=${run}`);
    await post(`/v1/approvals/${json.approvals[0].id}`, { decision: 'approve' });
    await ended(run);
    const wait = only(run, /^await_approval buy$/);
    assert.equal(wait.attributes['drover.approval.outcome'], 'granted');
    assert.equal(wait.parentSpanId, only(run, /^invoke_agent/).spanId);
    assert.ok(only(run, /^execute_tool buy$/).startMs >= wait.endMs, 'a call begins with its attempt');
    assert.equal(spansOf(run).filter(({ name }) => name.startsWith('chat')).length, 2);
  });

  it('of a later turn are in the trace of the request that has begun it', async () => {
    const agent = await service.newAgent([]);
    const [first, second] = [newTrace(), newTrace()];
    const body = { input: { message: 'say one' }, config: { keep_open: true } };
    const { run_id: run } = await post(`/v1/agents/${agent}/runs`, body, first.headers);
    await untilRun(run, ({ status }) => status === 'awaiting_human');
    await post(`/v1/runs/${run}/turns`, { input: { message: 'say two' } }, second.headers);
    await waitUntil('both are told', () => turnsOf(run).length === 2);
    assert.deepEqual(
      turnsOf(run).map(({ traceId, attributes }) => [traceId, attributes['drover.turn.number']]),
      [
        [first.trace, 1],
        [second.trace, 2],
      ],
    );
  });

  it('are not exported where the caller samples none', async () => {
    const agent = await service.newAgent([]);
    const { trace, headers } = newTrace('00');
    const run = await start(agent, 'say unseen', headers);
    await untilRun(run, ({ status }) => status === 'completed');
    await ended(await start(agent, 'say seen', newTrace().headers));
    assert.deepEqual(
      collector.spans.filter(({ traceId }) => traceId === trace),
      [],
    );
  });

  it('are not those of requests for health, which come all the time', async () => {
    for (const path of ['/healthz', '/readyz', '/metrics']) assert.ok((await service.call('GET', path)).status < 500);
    const { headers, trace } = newTrace();
    await service.call('GET', '/v1/agents', { headers });
    await collector.span('the request after them', ({ traceId }) => traceId === trace);
    const names = collector.spans.map(({ name }) => name).filter((name) => /healthz|readyz|metrics/.test(name));
    assert.deepEqual(names, []);
  });

  it('have the code of what has failed, and no words of it', async () => {
    const llm_config = { max_retries: 1, base_delay: 0.01 };
    const patient = await service.newAgent([], { llm_config });
    const repeated = await start(patient, 'break say again');
    await ended(repeated);
    assert.deepEqual(
      only(repeated, /^chat/).events.map(({ name, attributes }) => [name, attributes['error.type']]),
      [['drover.model.retried', 'unavailable']],
    );
    const settings = { llm_config: { max_retries: 0 }, execution_config: { provider_outage_seconds: 0 } };
    const run = await start(await service.newAgent([], settings), 'break say c4nary-never');
    await ended(run);
    const [chat, turn] = [only(run, /^chat/), only(run, /^invoke_agent/)];
    assert.deepEqual([chat.status, turn.status], [ERROR, ERROR]);
    assert.equal(chat.attributes['error.type'], 'unavailable');
    assert.equal(turn.attributes['error.type'], 'provider_unavailable');
    assert.ok(!JSON.stringify(collector.spans).includes('c4nary'));
  });
});

describe('Spans for the console', () => {
  sendSpansSoon();
  it('are lines of the log', async () => {
    const service = await startScriptedService({ env: { OTEL_TRACES_EXPORTER: 'console' } });
    const agent = await service.newAgent([], { name: 'speaker' });
    const body = { input: { message: 'say hello' } };
    assert.equal((await service.call('POST', `/v1/agents/${agent}/runs`, { body })).status, 202);
    const spans = () => service.log.filter(({ msg }) => msg === 'span');
    await waitUntil('the turn is told', () => spans().some(({ name }) => name === 'invoke_agent speaker'));
    const chat = spans().find(({ name }) => name === 'chat claude-sonnet-5');
    assert.match(String(chat?.['start']), /^\d{4}-\d\d-\d\dT.*Z$/);
    assert.equal(chat?.['parent_span_id'], spans().find(({ name }) => name === 'invoke_agent speaker')?.['span_id']);
    await service.close();
  });
});
