/** Spans of runs whose processes die, and of processes whose collector is away. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { startCollector, type Collector } from '../support/collector.ts';
import { startInstallation, type Installation } from '../support/installation.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { createAgent, startRun, toolOf, untilRun } from '../support/runs.ts';
import { waitUntil } from '../support/wait-until.ts';

const AWAY = 'the collector takes no spans; they are dropped until it does';

/** Sends soon, and gives up soon. */
const SOON = { OTEL_BSP_SCHEDULE_DELAY: '100', OTEL_EXPORTER_OTLP_TIMEOUT: '500' };

describe('The export of spans', () => {
  let collector: Collector;
  let drover: Installation;
  const start = async (env: Record<string, string>) => {
    drover = await startInstallation(DOMAIN_MODE, {
      env: { DROVER_LEASE_MS: '5000', OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...env },
    });
    return createAgent(drover);
  };
  const ofRun = (run: string) =>
    collector.spans.filter(({ kind, attributes }) => kind !== 2 && attributes['drover.run.id'] === run);
  const lines = (message: string) =>
    drover.names.map(
      (name) =>
        drover
          .process(name)
          .log()
          .filter((line) => line['msg'] === message).length,
    );
  beforeEach(async () => {
    collector = await startCollector();
  });
  afterEach(async () => {
    await drover.close();
    await collector.close();
  });

  it('tells each span of a turn once whose process was killed and which another has ended', async () => {
    const agent = await start({ OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json', ...SOON });
    const label = randomUUID();
    const call = `call ${toolOf(agent, 'record')} {"label": "${label}"}`;
    const { run } = await startRun(drover, agent, `${call} | hang say ${label}`);
    await waitUntil('the model is asked', () => drover.model.asked(label).length === 2);
    const name = drover.model.asked(label)[1]?.by ?? '';
    await drover.end(name, 'SIGKILL');
    await drover.start(name);
    await untilRun(drover, run);
    await waitUntil('the turn is told', () => ofRun(run).some((span) => span.name.startsWith('invoke_agent')));
    await waitUntil('all is told', () => ofRun(run).length >= 4);
    assert.deepEqual(
      ofRun(run)
        .map((span) => span.name.replace(/ .*/, ''))
        .toSorted(),
      ['chat', 'chat', 'execute_tool', 'invoke_agent'],
    );
    assert.equal(new Set(ofRun(run).map(({ spanId }) => spanId)).size, 4);
  });

  it('sends what is left when the process stops, compressed and with headers where that is said', async () => {
    const agent = await start({
      OTEL_BSP_SCHEDULE_DELAY: '3600000',
      OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
      OTEL_EXPORTER_OTLP_HEADERS: 'x-key=c4nary%20key',
      OTEL_SERVICE_NAME: 'mine',
      OTEL_BSP_MAX_QUEUE_SIZE: 'many',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
    });
    const { run } = await startRun(drover, agent, 'say hello');
    await untilRun(drover, run);
    const outputs = drover.names.map((name) => drover.process(name).output);
    await drover.endAll('SIGTERM');
    assert.deepEqual(
      ofRun(run)
        .map(({ name }) => name.replace(/ .*/, ''))
        .toSorted(),
      ['chat', 'invoke_agent'],
    );
    const resource = ofRun(run)[0]?.resource ?? {};
    assert.deepEqual([resource['service.name'], resource['deployment.environment.name']], ['mine', 'test']);
    const { path, headers = {} } = collector.requests[0] ?? {};
    assert.deepEqual([path, headers['content-type']], ['/v1/traces', 'application/x-protobuf']);
    assert.deepEqual([headers['content-encoding'], headers['x-key']], ['gzip', 'c4nary key']);
    for (const output of outputs) {
      assert.ok(!output().includes('c4nary'));
      assert.match(output(), /"problem":"Unknown value 'many' for OTEL_BSP_MAX_QUEUE_SIZE/);
    }
  });

  it('warns once of a collector that is away, delays no run, and goes on when it is back', async () => {
    const { url } = collector;
    await collector.close();
    const agent = await start(SOON);
    for (let each = 0; each < 3; each++) {
      const { run } = await startRun(drover, agent, `say ${each}`);
      assert.equal((await untilRun(drover, run)).status, 'completed');
    }
    await waitUntil('it is said', () => lines(AWAY).some((count) => count > 0));
    collector = await startCollector(Number(new URL(url).port));
    await waitUntil('spans arrive', async () => {
      const { run } = await startRun(drover, agent, 'say it is back');
      await untilRun(drover, run);
      return collector.spans.length > 0;
    });
    await waitUntil('that is said', () => lines('the collector takes spans again').some((count) => count > 0));
    assert.ok(Math.max(...lines(AWAY)) <= 1, String(lines(AWAY)));
  });

  it('lets a process stop whose collector answers nothing', async () => {
    const agent = await start({ DROVER_SHUTDOWN_MS: '1000' });
    collector.answers('nothing');
    const { run } = await startRun(drover, agent, 'say hello');
    await untilRun(drover, run);
    const processes = drover.names.map((name) => drover.process(name));
    const stopped = performance.now();
    for (const name of drover.names) assert.deepEqual(await drover.end(name, 'SIGTERM'), [0, null]);
    assert.ok(performance.now() - stopped < 10_000 * processes.length);
    const logged = processes.flatMap((process) => process.log());
    assert.ok(logged.some((line) => line['msg'] === 'the last spans are lost'));
    assert.deepEqual(
      logged.filter((line) => line['msg'] === 'closing failed'),
      [],
    );
  });
});
