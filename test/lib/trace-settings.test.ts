import assert from 'node:assert/strict';
import { ConfigError } from '../../lib/environment.ts';
import { readTraceSettings } from '../../lib/trace-settings.ts';

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:4318' };
const tracesOf = (env: Record<string, string>) => readTraceSettings(env).traces;

describe('The settings of traces', () => {
  it('export nothing unless an exporter or a collector is named', () => {
    assert.equal(tracesOf({}), undefined);
    assert.equal(tracesOf({ OTEL_SERVICE_NAME: 'd', OTEL_EXPORTER_OTLP_ENDPOINT: ' ' }), undefined);
    assert.equal(tracesOf({ ...ENDPOINT, OTEL_SDK_DISABLED: 'True' }), undefined);
    assert.equal(tracesOf({ ...ENDPOINT, OTEL_TRACES_EXPORTER: 'none' }), undefined);
  });

  it('send protobuf to the collector, at its path for traces', () => {
    const sent = { exporters: ['otlp'], protocol: 'http/protobuf' };
    assert.deepEqual(tracesOf(ENDPOINT), { ...sent, url: 'http://c:4318/v1/traces' });
    assert.deepEqual(tracesOf({ OTEL_EXPORTER_OTLP_ENDPOINT: 'https://c/in/' })?.url, 'https://c/in/v1/traces');
    const own = { ...ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://t/mine' };
    assert.deepEqual(tracesOf(own)?.url, 'http://t/mine');
    assert.deepEqual(tracesOf({ OTEL_TRACES_EXPORTER: 'otlp' }), { ...sent, url: undefined });
    assert.equal(tracesOf({ ...ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json' })?.protocol, 'http/json');
    assert.deepEqual(tracesOf({ ...ENDPOINT, OTEL_TRACES_EXPORTER: 'console, otlp' })?.exporters, ['otlp', 'console']);
    assert.deepEqual(tracesOf({ ...ENDPOINT, OTEL_TRACES_EXPORTER: 'console' })?.exporters, ['console']);
  });

  it('name what asks for what there is not: another protocol, exporter or signal', () => {
    const grpc = readTraceSettings({ ...ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' });
    assert.equal(grpc.traces, undefined);
    assert.match(grpc.unheeded['OTEL_EXPORTER_OTLP_PROTOCOL'] ?? '', /no spans are sent: expected http/);
    const zipkin = readTraceSettings({ ...ENDPOINT, OTEL_TRACES_EXPORTER: 'zipkin' });
    assert.deepEqual([zipkin.traces, Object.keys(zipkin.unheeded)], [undefined, ['OTEL_TRACES_EXPORTER']]);
    const other = {
      OTEL_METRICS_EXPORTER: 'otlp',
      OTEL_LOGS_EXPORTER: 'none',
      OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: 'http://l',
    };
    assert.deepEqual(Object.keys(readTraceSettings({ ...ENDPOINT, ...other }).unheeded), [
      'OTEL_METRICS_EXPORTER',
      'OTEL_EXPORTER_OTLP_LOGS_ENDPOINT',
    ]);
  });

  it('refuse an address that is none, and do not repeat it', () => {
    const wrong = { OTEL_EXPORTER_OTLP_ENDPOINT: 'user:c4nary@c:4318' };
    for (const env of [wrong, { ...wrong, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://t' }]) {
      assert.throws(
        () => tracesOf(env),
        (error: unknown) => error instanceof ConfigError && !error.message.includes('c4nary'),
      );
    }
  });
});
