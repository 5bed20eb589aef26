/** Spans for OpenTelemetry, as the rest of Drover sees them. A process that exports none has no `Traces` at all. */
import type { NewEvent } from '../core/events.ts';

export interface Traces {
  /** Begins the span of a request, in the trace that its `traceparent` names, or in a new one. */
  beginRequest: (given: { traceparent: string; method: string }) => RequestSpan;
  /** After a commit: exports what it has finished, by and by. Returns at once, and never throws. */
  committed: (commit: TracedCommit) => void;
  /** Sends what was committed so far, for a moment at most. */
  close: () => Promise<void>;
}

export interface RequestSpan {
  /** For the answer, and for the work that the request causes. */
  traceparent: string;
  end: (how: RequestEnd) => void;
}

export interface RequestEnd {
  /** The route's pattern; undefined if none matched. */
  route: string | undefined;
  status: number;
  attributes: Record<string, string | undefined>;
}

export interface TracedCommit {
  tenantId: string;
  runId: string;
  /** Of its last event. */
  seq: number;
  /** All of its events. */
  events: readonly NewEvent[];
}
