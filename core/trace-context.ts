/** W3C Trace Context: the trace that work belongs to, and the span under which it is done. */
import { sha256 } from './ids.ts';

/** A `traceparent`, taken apart. */
export interface TraceParent {
  /** 32 hex digits. */
  traceId: string;
  /** 16 hex digits. */
  spanId: string;
  /** Two hex digits; the last bit says that the trace is sampled. */
  flags: string;
}

const ZEROS = /^0+$/;

/** Undefined for what is no valid `traceparent`. */
export function parseTraceparent(given: string): TraceParent | undefined {
  const [, version, traceId = '', spanId = '', flags = '', rest] =
    /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/.exec(given) ?? [];
  const isValid = version !== undefined && version !== 'ff' && !(version === '00' && rest !== undefined);
  return isValid && !ZEROS.test(traceId) && !ZEROS.test(spanId) ? { traceId, spanId, flags } : undefined;
}

export function formatTraceparent({ traceId, spanId, flags }: TraceParent): string {
  return `00-${traceId}-${spanId}-${flags}`;
}

/** The trace of a run without one: its tree has one, on every process. */
export function traceIdOf(rootRunId: string): string {
  return rootRunId.replaceAll('-', '');
}

/** The id of the span that shows a turn, a call or an event: the same on every process, and when it is told again. */
export function spanIdOf(shown: string): string {
  return sha256(`span ${shown}`).subarray(0, 8).toString('hex');
}

/** The `traceparent` of work that is done for a call: its parent is the call's span. */
export function underCall(traceparent: string | undefined, callId: string): string | undefined {
  const parent = traceparent === undefined ? undefined : parseTraceparent(traceparent);
  return parent ? formatTraceparent({ ...parent, spanId: spanIdOf(callId) }) : traceparent;
}
