import assert from 'node:assert/strict';
import type { TestApi } from '../support/api.ts';
import { startServer } from '../support/echo-server.ts';
import { startTestService } from '../support/service.ts';
import { startFakeAnthropic, type AnthropicReply } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { text, use } from '../support/engine.ts';
import { waitUntil } from '../support/wait-until.ts';

const REJECTED: AnthropicReply = { error: { status: 401, type: 'authentication_error', message: 'invalid x-api-key' } };

describe('What fails', () => {
  let api: TestApi;
  let model: FakeServer;
  let script: (n: number) => AnthropicReply;
  before(async () => {
    model = await startFakeAnthropic((_request, n) => script(n - first));
    api = await startTestService({ model });
  });
  after(() => api.close());

  let first = 0;
  const say = (next: (n: number) => AnthropicReply) => {
    first = model.requests.length;
    script = next;
  };
  const post = async (path: string, body: unknown) => (await api.call('POST', path, { body })).json;
  const agentWith = async (fields: object): Promise<string> =>
    (
      await post('/v1/agents', {
        name: `a ${Math.random()}`,
        llm_config: { default_model: 'claude-sonnet-5' },
        ...fields,
      })
    ).id;
  const begin = async (agent: string): Promise<string> => (await post(`/v1/agents/${agent}/runs`, {})).run_id;
  const take = (run: string) => post(`/v1/runs/${run}/turns`, { input: { message: 'hello' } });
  const linesOf = (run: string) => api.log.filter((line) => line['run'] === run);
  const WARN = 40;
  const untilShown = async (...lines: RegExp[]) => {
    for (const line of lines) {
      await waitUntil(`the numbers have ${line}`, async () => {
        const { text: numbers } = await api.call('GET', '/metrics', { key: null });
        return line.test(numbers);
      });
    }
  };

  it('is in the answer of a synchronous turn, as its error and as that of its output', async () => {
    say(() => REJECTED);
    const { output, error } = await take(await begin(await agentWith({})));
    assert.deepEqual([output.status, output.error.code], ['failed', 'provider_rejected']);
    assert.deepEqual(output.error, error);
    assert.match(error.message, /ANTHROPIC_API_KEY/);
  });

  it('is a line of the log that warns, with code, run, agent and cause, while the line of the job has the outcome', async () => {
    say(() => REJECTED);
    const agent = await agentWith({});
    const run = await begin(agent);
    await take(run);
    await waitUntil('the job is logged', () => linesOf(run).some(({ msg }) => msg === 'job'));
    const failed = linesOf(run).find(({ msg }) => msg === 'turn failed');
    assert.deepEqual(
      [failed?.['level'], failed?.['code'], failed?.['agent'], failed?.['outcome']],
      [WARN, 'provider_rejected', agent, 'failed'],
    );
    assert.match(String(failed?.['cause']), /invalid x-api-key/);
    const job = linesOf(run).find(({ msg }) => msg === 'job');
    assert.deepEqual([job?.['outcome'], job?.['result']], ['failed', 'dormant']);
  });

  it('is such a line for a tool call, with its tool and without what the tool said', async () => {
    say((n) => (n === 0 ? use({ name: 'calculator', input: { expression: '1 +' } }) : text('sorry')));
    const run = await begin(await agentWith({ tools: ['calculator'] }));
    assert.equal((await take(run)).output.message, 'sorry');
    await waitUntil('the job is logged', () => linesOf(run).some(({ msg }) => msg === 'job'));
    const failed = linesOf(run).find(({ msg }) => msg === 'tool call failed');
    assert.deepEqual([failed?.['level'], failed?.['tool'], failed?.['cause']], [WARN, 'calculator', undefined]);
    assert.equal(linesOf(run).find(({ msg }) => msg === 'job')?.['outcome'], 'completed');
  });

  it('is counted, with how long it took, by outcome and code', async () => {
    await untilShown(
      /^drover_turns_total\{outcome="failed",code="provider_rejected"\} 2$/m,
      /^drover_turns_total\{outcome="completed",code=""\} 1$/m,
      /^drover_turn_duration_seconds_count\{outcome="failed"\} 2$/m,
      /^drover_tool_calls_total\{outcome="failed",code="[a-z-]+"\} 1$/m,
      /^drover_tool_call_duration_seconds_count\{outcome="failed"\} 1$/m,
      /^drover_model_calls_total\{outcome="failed",code="authentication"\} 2$/m,
      // The third gives the thread its title, some time after its turn.
      /^drover_model_call_duration_seconds_count\{outcome="succeeded"\} [23]$/m,
      /^drover_queue_age_seconds\{queue="turns"\} \d/m,
    );
  });

  it('is counted as "other" where a server has answered a code of its own', async () => {
    const server = await startServer(({ method, body }, response) => {
      if (method !== 'POST') return response.writeHead(405).end();
      const { id, method: asked, params } = JSON.parse(body);
      if (id === undefined) return response.writeHead(202).end();
      const serverInfo = { name: 'fake', version: '1' };
      const result = { protocolVersion: params?.protocolVersion, capabilities: { tools: {} }, serverInfo };
      const error = { code: params?.name === 'known' ? -32602 : 901_324_848, message: 'no' };
      response.writeHead(200, { 'content-type': 'application/json' });
      return response.end(JSON.stringify({ jsonrpc: '2.0', id, ...(asked === 'initialize' ? { result } : { error }) }));
    });
    try {
      for (const name of ['known', 'own']) {
        const transport = { type: 'mcp_http', endpoint: `${server.url}/mcp`, tool: name };
        await post('/v1/tools', { name, description: 'Fails.', transport, risk_level: 'READ_ONLY' });
        say((n) => (n === 0 ? use({ name }) : text('sorry')));
        assert.equal((await take(await begin(await agentWith({ tools: [name] })))).output.message, 'sorry');
      }
      await untilShown(
        /^drover_tool_calls_total\{outcome="failed",code="mcp-32602"\} 1$/m,
        /^drover_tool_calls_total\{outcome="failed",code="other"\} 1$/m,
      );
    } finally {
      await server.close();
    }
  });

  it('is such a line, too, for a call of which nobody knows whether it has failed', async () => {
    const broken = await startServer((_request, response) => {
      response.writeHead(502);
      response.end();
    });
    try {
      const transport = { type: 'http', endpoint: broken.url };
      await post('/v1/tools', { name: 'charge', description: 'Charges.', transport });
      say((n) => (n === 0 ? use({ name: 'charge' }) : text('I will look into it')));
      const agent = await agentWith({ tools: ['charge'], execution_config: { on_unknown: 'tell_model' } });
      const run = await begin(agent);
      assert.equal((await take(run)).output.message, 'I will look into it');
      const line = () => linesOf(run).find(({ msg }) => msg === 'tool call unknown');
      await waitUntil('the call is logged', () => line() !== undefined);
      assert.deepEqual([line()?.['level'], line()?.['tool'], line()?.['agent']], [WARN, 'charge', agent]);
    } finally {
      await broken.close();
    }
  });

  it('is not what only waits: that is a number by its reason', async () => {
    say(() => ({ error: { status: 500, type: 'api_error', headers: { 'retry-after-ms': '0' } } }));
    const { run_id } = await post(`/v1/agents/${await agentWith({})}/runs`, { input: { message: 'hello' } });
    await untilShown(/^drover_waiting_runs\{reason="provider"\} 1$/m);
    await waitUntil('the job is logged', () => linesOf(run_id).some(({ msg }) => msg === 'job'));
    assert.equal(linesOf(run_id).find(({ msg }) => msg === 'job')?.['outcome'], 'waiting');
  });

  it('is such a line for a run that ends with it, and for a webhook that was not told', async () => {
    const deaf = await startServer((_request, response) => {
      response.writeHead(500);
      response.end();
    });
    try {
      const hook = await post('/v1/webhooks', { url: deaf.url, events: ['run.failed'] });
      say(() => REJECTED);
      const agent = await agentWith({});
      const { run_id } = await post(`/v1/agents/${agent}/runs`, { input: { message: 'hello' } });
      const lineOf = (msg: string) => linesOf(run_id).find((line) => line.msg === msg);
      await waitUntil('nobody was told', () => lineOf('delivery failed') !== undefined);
      const [run, delivery] = [lineOf('run failed'), lineOf('delivery failed')];
      assert.deepEqual([run?.['level'], run?.['code'], run?.['agent']], [WARN, 'provider_rejected', agent]);
      assert.match(String(run?.['cause']), /invalid x-api-key/);
      assert.deepEqual(
        [delivery?.['level'], delivery?.['code'], delivery?.['webhook'], delivery?.['type'], delivery?.['outcome']],
        [WARN, 'status_500', hook.id, 'run.failed', 'retried'],
      );
      await untilShown(
        /^drover_runs_total\{outcome="failed",code="provider_rejected"\} [1-9]/m,
        /^drover_webhook_deliveries_total\{outcome="retried"\} [1-9]/m,
      );
    } finally {
      await deaf.close();
    }
  });

  it('is read again as it was answered, of the turn, among the turns of its run and of the run', async () => {
    say((n) => (n === 0 ? text('fine') : REJECTED));
    const agent = await agentWith({});
    const run = await begin(agent);
    const read = async (path: string) => (await api.call('GET', path)).json;
    const { tool_calls: _none, ...fine } = (await take(run)).output;
    assert.deepEqual([(await read(`/v1/runs/${run}`)).output, fine.status], [fine, 'complete']);
    const { turn_id: id, output, error } = await take(run);
    const { tool_calls: _calls, ...ended } = output;
    assert.deepEqual(ended, { message: '', status: 'failed', error });
    assert.deepEqual((await read(`/v1/runs/${run}/turns/${id}`)).output, ended);
    const { turns } = await read(`/v1/runs/${run}/turns`);
    assert.deepEqual(
      turns.map((turn: { output: unknown }) => turn.output),
      [fine, ended],
    );
    assert.deepEqual((await read(`/v1/runs/${run}`)).output, ended);
    const { runs } = await read(`/v1/agents/${agent}/runs`);
    assert.deepEqual(runs[0].output, ended);
  });
});
