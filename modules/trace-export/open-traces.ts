/** Exports spans with OpenTelemetry's SDK. Loaded by no process but one that does: see `modules/platform/open-platform.ts`. */
import {
  diag,
  DiagLogLevel,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  type Context,
  type SpanOptions,
} from '@opentelemetry/api';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { readEvent, UnknownEventError } from '../../core/events.ts';
import { LIMITS } from '../../core/limits.ts';
import { formatTraceparent, parseTraceparent, type TraceParent } from '../../core/trace-context.ts';
import { beginReading, type Reading, type Span } from '../../core/spans/fold-turn.ts';
import { isTold, tell, TRACED_TYPES, type TurnSpans } from '../../core/spans/turn-spans.ts';
import { VERSION } from '../../core/version.ts';
import type { Database } from '../../db/database.ts';
import { readTracedTurn } from '../../db/traced-turns.ts';
import { withDeadline } from '../../lib/deadline.ts';
import { newId, newRandomId } from '../../lib/new-id.ts';
import type { TraceSettings } from '../../lib/trace-settings.ts';
import type { TracedCommit, Traces } from '../traces.ts';
import { openExporters } from './exporters.ts';

/** How long a stop waits for a collector. */
const CLOSE_MS = 2000;

/** Opens the exporters. What they cannot take is dropped: nothing here makes a run wait. */
export async function openTraces(settings: TraceSettings, { db, log }: { db: Database; log: Logger }): Promise<Traces> {
  const { begin, provider } = await tellingMistakes(log, async () => createTracer(await openExporters(settings, log)));
  const turns = tellTurns({ db, log }, (spans) => exportTurn(begin, spans));
  return {
    beginRequest: (given) => beginRequest(begin, given),
    committed: turns.committed,
    async close() {
      const closing = turns.told().then(() => provider.shutdown());
      await withDeadline(closing, CLOSE_MS, `not sent within ${CLOSE_MS} ms`).catch((error: unknown) =>
        log.warn({ err: error }, 'the last spans are lost'),
      );
    },
  };
}

/** Logs what the packages find wrong with their variables, and nothing of what they say later: each lost batch, for one. */
async function tellingMistakes<T>(log: Logger, open: () => Promise<T>): Promise<T> {
  const warn = (problem: string) => log.warn({ problem }, 'a variable of OpenTelemetry is not as expected');
  const ignore = () => undefined;
  diag.setLogger({ error: warn, warn, info: ignore, debug: ignore, verbose: ignore }, DiagLogLevel.WARN);
  try {
    return await open();
  } finally {
    diag.disable();
  }
}

/** Begins a span under ids that are known beforehand. */
type Begin = (
  ids: Ids,
  name: string,
  under: SpanOptions & { context: Context },
) => ReturnType<typeof trace.wrapSpanContext>;

interface Ids {
  /** Used where the context has no span yet. */
  traceId: string;
  spanId: string;
}

function createTracer(exporters: Awaited<ReturnType<typeof openExporters>>) {
  let next: Ids = { traceId: '', spanId: '' };
  const own = resourceFromAttributes({
    'service.name': 'drover',
    'service.version': VERSION,
    'service.instance.id': newId(),
  });
  const provider = new BasicTracerProvider({
    resource: defaultResource()
      .merge(own)
      .merge(detectResources({ detectors: [envDetector] })),
    idGenerator: { generateTraceId: () => next.traceId, generateSpanId: () => next.spanId },
    spanProcessors: exporters.map((exporter) => new BatchSpanProcessor(exporter)),
  });
  const tracer = provider.getTracer('drover', VERSION);
  const begin: Begin = (ids, name, { context, ...options }) => {
    next = ids;
    return tracer.startSpan(name, options, context);
  };
  return { provider, begin };
}

function beginRequest(
  begin: Begin,
  { traceparent: given, method }: Parameters<Traces['beginRequest']>[0],
): ReturnType<Traces['beginRequest']> {
  const parent = parseTraceparent(given);
  const ids = { traceId: parent?.traceId ?? newRandomId(16), spanId: newRandomId(8) };
  const context = parent ? contextOf(parent) : ROOT_CONTEXT;
  const span = begin(ids, method, { kind: SpanKind.SERVER, context, attributes: { 'http.request.method': method } });
  const { traceId, spanId, traceFlags } = span.spanContext();
  return {
    traceparent: formatTraceparent({ traceId, spanId, flags: traceFlags.toString(16).padStart(2, '0') }),
    end({ route, status, attributes }) {
      if (route !== undefined) span.updateName(`${method} ${route}`);
      span.setAttributes({ ...attributes, 'http.route': route, 'http.response.status_code': status });
      if (status >= 500) fail(span, String(status));
      span.end();
    },
  };
}

const contextOf = ({ traceId, spanId, flags }: TraceParent): Context =>
  trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true });

/** No message: it may be what a tool or a model has said. */
function fail(span: ReturnType<Begin>, error: string): void {
  span.setAttribute('error.type', error);
  span.setStatus({ code: SpanStatusCode.ERROR });
}

const KINDS = { client: SpanKind.CLIENT, internal: SpanKind.INTERNAL };

/** The turn's own span is begun each time, since its children are sampled as it is, and ended with the turn. */
function exportTurn(begin: Begin, { parent, turn, finished }: TurnSpans): void {
  const { traceId, spanId, flags } = parent;
  const start = ({ id, name, kind, startMs: startTime, attributes }: Span, context: Context) =>
    begin({ traceId, spanId: id }, name, { kind: KINDS[kind], startTime, attributes, context });
  const root = start(turn, spanId === undefined ? ROOT_CONTEXT : contextOf({ traceId, spanId, flags }));
  const context = trace.setSpan(ROOT_CONTEXT, root);
  for (const each of finished) {
    const span = start(each, context);
    for (const { name, atMs, attributes } of each.notes ?? []) span.addEvent(name, attributes, atMs);
    if (each.error !== undefined) fail(span, each.error);
    span.end(each.endMs);
  }
  if (turn.isOpen) return;
  if (turn.error !== undefined) fail(root, turn.error);
  root.end(turn.endMs);
}

interface CommittedTurn extends Omit<TracedCommit, 'events'> {
  turnId: string;
  /** The position before the commit. */
  after: number;
}

/**
 * Reads what commits have finished, one turn after the other: of no more of them at once than the process has to spare. What it
 * has read of open turns it keeps, so that it reads a long one once, not again from its start for each part.
 */
function tellTurns(
  { db, log }: { db: Database; log: Logger },
  exportSpans: (spans: TurnSpans) => void,
): { committed: Traces['committed']; told: () => Promise<unknown> } {
  const readings = new LRUCache<string, Reading>({ max: LIMITS.tracedTurns });
  let last: Promise<unknown> = Promise.resolve();
  let waiting = 0;
  let isFailing = false;
  const complain = (about: Record<string, unknown>) => {
    if (!isFailing) log.warn(about, 'spans are not read');
    isFailing = true;
  };
  const look = async ({ tenantId, runId, seq, turnId, after }: CommittedTurn) => {
    try {
      const kept = readings.get(turnId);
      // Commits of one moment may be told in another order: then the one that is late is read on its own.
      const reading = kept && kept.seq <= after ? kept : beginReading(runId);
      const wanted = { runId, turnId, after: reading.seq, seq, types: TRACED_TYPES };
      const { run, events } = await db.withTenant(tenantId, (tx) => readTracedTurn(tx, wanted));
      const spans = run && tell(reading, run, { events: events.map(readEvent), after, seq });
      if (spans) exportSpans(spans);
      if (spans?.turn.isOpen) readings.set(turnId, reading);
      else readings.delete(turnId);
      isFailing = false;
    } catch (error) {
      readings.delete(turnId);
      // A newer build tells its own turns.
      if (!(error instanceof UnknownEventError)) complain({ err: error, run: runId });
    }
  };
  return {
    committed({ events, ...commit }) {
      const after = commit.seq - events.length;
      for (const turnId of new Set(events.filter(isTold).map((event) => event.turn_id))) {
        if (turnId === undefined) continue;
        if (waiting >= LIMITS.tracedTurns) {
          complain({ waiting });
          continue;
        }
        waiting += 1;
        last = last.then(() => look({ ...commit, turnId, after })).finally(() => (waiting -= 1));
      }
    },
    told: () => last,
  };
}
