/** Where spans go: to a collector over OTLP, or into the log. */
import { ExportResultCode, type ExportResult } from '@opentelemetry/core';
import type { SpanExporter } from '@opentelemetry/sdk-trace-base';
import type { Logger } from 'pino';
import type { TraceSettings } from '../../lib/trace-settings.ts';

/** Opens the exporters that the settings name. Those of OTLP read their headers, time limit and compression themselves. */
export async function openExporters(
  { exporters, protocol, url }: TraceSettings,
  log: Logger,
): Promise<readonly SpanExporter[]> {
  const opened = exporters.map(async (name) => {
    if (name === 'console') return intoLog(log);
    const { OTLPTraceExporter } = await (protocol === 'http/json'
      ? import('@opentelemetry/exporter-trace-otlp-http')
      : import('@opentelemetry/exporter-trace-otlp-proto'));
    return tellingOutages(new OTLPTraceExporter({ ...(url !== undefined && { url }) }), log);
  });
  return Promise.all(opened);
}

/** OpenTelemetry's `console`: lines of the log, since stdout has nothing else. */
function intoLog(log: Logger): SpanExporter {
  return {
    export(spans, done) {
      for (const span of spans) {
        const { name, kind, attributes, status, startTime, endTime, parentSpanContext: parent } = span;
        const { traceId: trace_id, spanId: span_id } = span.spanContext();
        const times = { start: isoOf(startTime), end: isoOf(endTime) };
        const about = { trace_id, span_id, parent_span_id: parent?.spanId, kind, status: status.code, ...times };
        log.info({ name, ...about, attributes }, 'span');
      }
      done({ code: ExportResultCode.SUCCESS });
    },
    shutdown: () => Promise.resolve(),
  };
}

const isoOf = ([seconds, nanos]: [number, number]) => new Date(seconds * 1000 + nanos / 1e6).toISOString();

/** Warns once of a collector that takes no spans, and says when it takes some again: it may be away for days. */
function tellingOutages(exporter: SpanExporter, log: Logger): SpanExporter {
  let lost = 0;
  const tell = ({ code, error }: ExportResult, count: number) => {
    if (code === ExportResultCode.SUCCESS) {
      if (lost > 0) log.info({ lost }, 'the collector takes spans again');
      lost = 0;
      return;
    }
    if (lost === 0) log.warn({ cause: causeOf(error) }, 'the collector takes no spans; they are dropped until it does');
    lost += count;
  };
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        tell(result, spans.length);
        done({ code: ExportResultCode.SUCCESS });
      }),
    forceFlush: async () => exporter.forceFlush?.(),
    shutdown: () => exporter.shutdown(),
  };
}

/** The status of the answer, or the code of the connection's error. What a collector says may quote what it was sent. */
function causeOf(error: Error | undefined): string | number {
  const code: unknown = error && 'code' in error ? error.code : undefined;
  return typeof code === 'string' || typeof code === 'number' ? code : (error?.name ?? 'unknown');
}
