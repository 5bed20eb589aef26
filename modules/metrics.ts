/** What `/metrics` shows, in Prometheus's terms. One registry per process. */
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';

export interface Metrics {
  registry: Registry;
  /** Seconds a job took, by queue and outcome (`ok`, `failed`). */
  jobSeconds: Histogram<'queue' | 'outcome'>;
  /** Seconds of a model call or of a tool call that ran in the driver. */
  stepSeconds: Histogram<'kind'>;
  /** Tokens, by model and kind (`input`, `output`, `cache_read`, `cache_write`). */
  tokens: Counter<'model' | 'kind'>;
  /** USD spent on models whose price is known. */
  costUsd: Counter<'model'>;
  /** How often the conversation that a model is sent began elsewhere, and estimated tokens left out then, by reason. */
  contextCuts: Counter<'reason'>;
  droppedTokens: Counter<'reason'>;
  /** Jobs in a queue, by state; refreshed when scraped. */
  queueJobs: Gauge<'queue' | 'state'>;
  /** Seconds an HTTP request took, by method, route and status. */
  httpSeconds: Histogram<'method' | 'route' | 'status'>;
}

const SECONDS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/** A fresh registry with Node's own metrics, event-loop lag among them. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: 'drover_' });
  const registers = [registry];
  return {
    registry,
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
