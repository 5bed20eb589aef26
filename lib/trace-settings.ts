/** Whether spans are exported, and where to: the part of OpenTelemetry's variables that no package of it reads in time. */
import { read, readHttpUrl, type Environment } from './environment.ts';

/** The exporter, its batches and the sampler read the rest of `OTEL_*` themselves. */
export interface TraceSettings {
  readonly exporters: readonly Exporter[];
  readonly protocol: Protocol;
  /** Where spans are sent; undefined: where the exporter sends them by itself, to this machine. */
  readonly url: string | undefined;
}

const EXPORTERS = ['otlp', 'console'] as const;
type Exporter = (typeof EXPORTERS)[number];
const PROTOCOLS = ['http/protobuf', 'http/json'] as const;
type Protocol = (typeof PROTOCOLS)[number];

interface ReadTraceSettings {
  /** Undefined if no spans are exported. */
  traces: TraceSettings | undefined;
  /** Variables that ask for what there is not, with what there is. */
  unheeded: Readonly<Record<string, string>>;
}

/** Reads the variables. @throws ConfigError for an address that is none. */
export function readTraceSettings(env: Environment): ReadTraceSettings {
  if (read(env, 'OTEL_SDK_DISABLED')?.toLowerCase() === 'true') return { traces: undefined, unheeded: {} };
  const unheeded = readOtherSignals(env);
  const names = exporterNames(env);
  if (names.includes('none')) return { traces: undefined, unheeded };
  if (names.some((name) => !isOneOf(EXPORTERS, name)))
    unheeded['OTEL_TRACES_EXPORTER'] = `expected ${EXPORTERS.join(', ')} or none`;
  const { variable, protocol } = readProtocol(env);
  if (!protocol && names.includes('otlp')) unheeded[variable] = `no spans are sent: expected ${PROTOCOLS.join(' or ')}`;
  const exporters = EXPORTERS.filter((name) => names.includes(name) && (protocol !== undefined || name !== 'otlp'));
  if (exporters.length === 0) return { traces: undefined, unheeded };
  const traces = { exporters, protocol: protocol ?? PROTOCOLS[0], url: protocol && readUrl(env) };
  return { traces, unheeded };
}

const ELSEWHERE = 'only traces are exported: numbers are at /metrics, log lines on stdout';

function readOtherSignals(env: Environment): Record<string, string> {
  const asks = (name: string) =>
    /^OTEL_(METRICS|LOGS)_EXPORTER$/.test(name)
      ? read(env, name) !== 'none'
      : /^OTEL_EXPORTER_OTLP_(METRICS|LOGS)_/.test(name);
  const names = Object.keys(env).filter((name) => read(env, name) !== undefined && asks(name));
  return Object.fromEntries(names.map((name) => [name, ELSEWHERE]));
}

/** Other than by OpenTelemetry's own default, nothing is exported where nobody has said so. */
function exporterNames(env: Environment): string[] {
  const isSaid = ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'OTEL_EXPORTER_OTLP_ENDPOINT'].some((name) => read(env, name));
  const names = read(env, 'OTEL_TRACES_EXPORTER') ?? (isSaid ? 'otlp' : 'none');
  return names.split(',').map((name) => name.trim());
}

function readProtocol(env: Environment): { variable: string; protocol: Protocol | undefined } {
  const own = 'OTEL_EXPORTER_OTLP_TRACES_PROTOCOL';
  const variable = read(env, own) === undefined ? 'OTEL_EXPORTER_OTLP_PROTOCOL' : own;
  const asked = read(env, variable) ?? PROTOCOLS[0];
  return { variable, protocol: isOneOf(PROTOCOLS, asked) ? asked : undefined };
}

function readUrl(env: Environment): string | undefined {
  const own = readHttpUrl(env, 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT');
  // Looked at in any case: the exporter would log one that is no address.
  const common = readHttpUrl(env, 'OTEL_EXPORTER_OTLP_ENDPOINT');
  return own ?? common?.replace(/\/*$/, '/v1/traces');
}

const isOneOf = <T extends string>(known: readonly T[], name: string): name is T =>
  (known as readonly string[]).includes(name);
