/** The metrics of `/metrics`, in Prometheus's terms. One registry per process. */
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';

/** Work whose outcome is counted. */
export type Work = 'run' | 'turn' | 'tool_call' | 'model_call';

export interface Metrics {
  registry: Registry;
  /** Ended work of a kind, by outcome and error code (none: empty). */
  outcomes: Record<Work, Counter<'outcome' | 'code'>>;
  /** Its duration in seconds: for runs and turns from their start, waiting included. */
  outcomeSeconds: Record<Work, Histogram<'outcome'>>;
  /** Deliveries to webhooks, by outcome. */
  deliveries: Counter<'outcome'>;
  /** Deliveries that are overdue, and for how many seconds the oldest has been; refreshed when scraped. */
  deliveriesDue: Gauge;
  deliveryAge: Gauge;
  /** Dormant runs, by the reason they wait; refreshed when scraped. */
  waitingRuns: Gauge<'reason'>;
  /** How many seconds a queue's next job has waited; refreshed when scraped. */
  queueAge: Gauge<'queue'>;
  maintenanceOverdue: Gauge;
  /** Jobs in the database that should be in the queue, and the oldest one's age in seconds; refreshed when scraped. */
  outboxJobs: Gauge;
  outboxAge: Gauge;
  /** Seconds a job took, by queue and outcome (`ok`, `failed`). */
  jobSeconds: Histogram<'queue' | 'outcome'>;
  /** Seconds of a model call or of a tool call that ran in the driver. */
  stepSeconds: Histogram<'kind'>;
  /** Tokens, by model and kind (`input`, `output`, `cache_read`, `cache_write`). */
  tokens: Counter<'model' | 'kind'>;
  /** USD spent on models whose price is known. */
  costUsd: Counter<'model'>;
  /** Models without a list price that have series of their own there. */
  namedModels: Set<string>;
  /** How often a conversation was cut before it went to a model, and the estimated tokens left out, by reason. */
  contextCuts: Counter<'reason'>;
  droppedTokens: Counter<'reason'>;
  /** Texts that an agent wanted to remember and a rule refused. */
  memoriesRefused: Counter<'rule'>;
  /** Jobs in a queue, by state; refreshed when scraped. */
  queueJobs: Gauge<'queue' | 'state'>;
  /** Seconds an HTTP request took, by method, route and status. */
  httpSeconds: Histogram<'method' | 'route' | 'status'>;
}

const LONG_SECONDS = [0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 86_400];
const SECONDS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/** A fresh registry with Node's own metrics, event-loop lag among them. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: 'drover_' });
  const registers = [registry];
  return {
    registry,
    ...outcomeMetrics(registers),
    ...deliveryMetrics(registers),
    ...outboxMetrics(registers),
    ...contextMetrics(registers),
    namedModels: new Set(),
    jobSeconds: new Histogram({
      name: 'drover_job_duration_seconds',
      help: 'Time a job took',
      labelNames: ['queue', 'outcome'],
      buckets: SECONDS,
      registers,
    }),
    stepSeconds: new Histogram({
      name: 'drover_step_duration_seconds',
      help: 'Time of a model call or of a tool call made by the driver',
      labelNames: ['kind'],
      buckets: SECONDS,
      registers,
    }),
    tokens: new Counter({
      name: 'drover_model_tokens_total',
      help: 'Tokens reported by providers',
      labelNames: ['model', 'kind'],
      registers,
    }),
    costUsd: new Counter({
      name: 'drover_model_cost_usd_total',
      help: 'Cost of model calls whose price is known',
      labelNames: ['model'],
      registers,
    }),
    queueJobs: new Gauge({
      name: 'drover_queue_jobs',
      help: 'Jobs in a queue',
      labelNames: ['queue', 'state'],
      registers,
    }),
    httpSeconds: new Histogram({
      name: 'drover_http_request_duration_seconds',
      help: 'Time an HTTP request took until its answer began',
      labelNames: ['method', 'route', 'status'],
      buckets: SECONDS,
      registers,
    }),
  };
}

/** Metrics of ended work, and of waiting work. */
function outcomeMetrics(
  registers: Registry[],
): Pick<Metrics, 'outcomes' | 'outcomeSeconds' | 'waitingRuns' | 'queueAge' | 'maintenanceOverdue'> {
  const counterOf = (work: Work, help: string) =>
    new Counter({ name: `drover_${work}s_total`, help, labelNames: ['outcome', 'code'], registers });
  const histogramOf = (work: Work, help: string, buckets: number[]) =>
    new Histogram({ name: `drover_${work}_duration_seconds`, help, labelNames: ['outcome'], buckets, registers });
  return {
    outcomes: {
      run: counterOf('run', 'Runs that have ended'),
      turn: counterOf('turn', 'Turns that have ended'),
      tool_call: counterOf('tool_call', 'Tool calls that have ended'),
      model_call: counterOf('model_call', 'Attempts of model calls'),
    },
    outcomeSeconds: {
      run: histogramOf('run', 'Time of a run from its start to its end, waiting included', LONG_SECONDS),
      turn: histogramOf('turn', 'Time of a turn from its start to its end, waiting included', LONG_SECONDS),
      tool_call: histogramOf('tool_call', 'Time of the last attempt of a tool call', SECONDS),
      model_call: histogramOf('model_call', 'Time of a model call that was answered, with its attempts', SECONDS),
    },
    waitingRuns: new Gauge({
      name: 'drover_waiting_runs',
      help: 'Runs that wait in the middle of a turn',
      labelNames: ['reason'],
      registers,
    }),
    queueAge: new Gauge({
      name: 'drover_queue_age_seconds',
      help: 'Time that the job which is to run next has waited',
      labelNames: ['queue'],
      registers,
    }),
    maintenanceOverdue: new Gauge({
      name: 'drover_maintenance_overdue_seconds',
      help: 'Time for which nobody has seen to an act of maintenance that is due',
      registers,
    }),
  };
}

function deliveryMetrics(registers: Registry[]): Pick<Metrics, 'deliveries' | 'deliveriesDue' | 'deliveryAge'> {
  return {
    deliveries: new Counter({
      name: 'drover_webhook_deliveries_total',
      help: 'Attempts of deliveries to webhooks',
      labelNames: ['outcome'],
      registers,
    }),
    deliveriesDue: new Gauge({
      name: 'drover_webhook_deliveries_due',
      help: 'Deliveries to webhooks that are due and not sent yet',
      registers,
    }),
    deliveryAge: new Gauge({
      name: 'drover_webhook_delivery_age_seconds',
      help: 'How long the one of them that was due first has waited',
      registers,
    }),
  };
}

function outboxMetrics(registers: Registry[]): Pick<Metrics, 'outboxJobs' | 'outboxAge'> {
  return {
    outboxJobs: new Gauge({
      name: 'drover_outbox_jobs',
      help: 'Jobs that are due and not in the queue yet, as while that is away',
      registers,
    }),
    outboxAge: new Gauge({
      name: 'drover_outbox_age_seconds',
      help: 'How long the oldest of them has waited',
      registers,
    }),
  };
}

function contextMetrics(registers: Registry[]): Pick<Metrics, 'memoriesRefused' | 'contextCuts' | 'droppedTokens'> {
  return {
    contextCuts: new Counter({
      name: 'drover_context_cuts_total',
      help: 'Times that other messages than before were left out of what a model is sent',
      labelNames: ['reason'],
      registers,
    }),
    droppedTokens: new Counter({
      name: 'drover_context_dropped_tokens_total',
      help: 'Estimated tokens that were left out at these times',
      labelNames: ['reason'],
      registers,
    }),
    memoriesRefused: new Counter({
      name: 'drover_memories_refused_total',
      help: 'Texts that an agent wanted to remember and a rule refused',
      labelNames: ['rule'],
      registers,
    }),
  };
}
