import { readFileSync } from 'node:fs';
import { ROOT } from './repository.ts';

/** What reads the environment: configuration, and the part of it that is about models. */
const READERS = ['config.ts', 'llm/model-settings.ts'];

/** The variables that are read by their names; those of model providers come from the names of these. */
export function variablesRead(): string[] {
  const sources = READERS.map((file) => readFileSync(new URL(file, ROOT), 'utf8')).join('\n');
  return [...sources.matchAll(/\(env, '([A-Z_]+)'/g)].map((match) => match[1] ?? '');
}

/** OpenTelemetry's own, as far as they have an effect. Its packages read most of them. */
export const OTEL_VARIABLES = [
  'OTEL_SDK_DISABLED',
  'OTEL_SERVICE_NAME',
  'OTEL_RESOURCE_ATTRIBUTES',
  'OTEL_TRACES_EXPORTER',
  'OTEL_TRACES_SAMPLER',
  'OTEL_TRACES_SAMPLER_ARG',
  ...['ENDPOINT', 'PROTOCOL', 'HEADERS', 'TIMEOUT', 'COMPRESSION'].flatMap((name) => [
    `OTEL_EXPORTER_OTLP_${name}`,
    `OTEL_EXPORTER_OTLP_TRACES_${name}`,
  ]),
  ...['SCHEDULE_DELAY', 'MAX_QUEUE_SIZE', 'MAX_EXPORT_BATCH_SIZE', 'EXPORT_TIMEOUT'].map((name) => `OTEL_BSP_${name}`),
];
