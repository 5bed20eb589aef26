/** The spans of a turn, read off its log: so each process tells the same ones, also after a crash. */
import type { EventType, NewEvent, RunEvent } from '../events.ts';
import { LIMITS } from '../limits.ts';
import { parseTraceparent, spanIdOf, traceIdOf, type TraceParent } from '../trace-context.ts';
import { attributesOfRun, attributesOfTurn, operationOf, type TracedRun } from './attributes.ts';
import { nameOf, read, type Reading, type Span, type Started } from './fold-turn.ts';

/** What a commit has finished of a turn. */
export interface TurnSpans {
  /** The span that the turn's is under; without `spanId` the turn begins the trace. */
  parent: Pick<TraceParent, 'traceId' | 'flags'> & { spanId?: string };
  /** Of the turn itself, which ends with this commit or, if it is open, later. */
  turn: Span & { isOpen: boolean };
  /** Its children that are told now. */
  finished: readonly Span[];
}

/** Types of the events that spans are made of. */
export const TRACED_TYPES: readonly EventType[] = [
  'turn.started',
  'turn.completed',
  'turn.failed',
  'turn.interrupted',
  'run.status_changed',
  'model.called',
  'model.responded',
  'model.retried',
  'model.failed',
  'model.fell_back',
  'model.resumed',
  'tool.requested',
  'tool.started',
  'tool.succeeded',
  'tool.failed',
  'tool.denied',
  'tool.unknown',
  'tool.resolved',
  'input.requested',
  'client_tools.requested',
  'approval.requested',
  'approval.granted',
  'approval.denied',
  'approval.expired',
  'approval.settled',
];

/**
 * Whether the spans that are finished by this event are told with it: where the turn ends or waits, and now and then in a long
 * one. Events alone decide it, so that what one process has told is not told again by the next.
 */
export function isTold(event: NewEvent): boolean {
  switch (event.type) {
    case 'turn.completed':
    case 'turn.failed':
    case 'turn.interrupted':
    case 'input.requested':
    case 'client_tools.requested':
      return true;
    case 'run.status_changed':
      return event.payload.to === 'awaiting_human';
    case 'model.called':
      return event.step !== undefined && event.step > 0 && event.step % LIMITS.tracedSteps === 0;
    default:
      return false;
  }
}

/** What a commit adds to a turn. */
interface ReadCommit {
  /** The turn's events of `TRACED_TYPES` that are not read yet, up to the commit. */
  events: readonly RunEvent[];
  /** The position before the commit; nothing after it is read yet. */
  after: number;
  /** Its own. */
  seq: number;
}

/**
 * Takes the events in, and returns the spans that their last commit tells: those finished since the place before it that told
 * some, whoever told them. Undefined if it tells none. What is told, and what others have told, the reading forgets.
 */
export function tell(reading: Reading, run: TracedRun, { events, after, seq }: ReadCommit): TurnSpans | undefined {
  let from = reading.told;
  for (const event of events) {
    read(reading, event);
    if (!isTold(event)) continue;
    reading.told = event.seq;
    if (event.seq <= after) from = event.seq;
  }
  const { started, ended, spent, spans, told: upTo } = reading;
  reading.seq = seq;
  reading.spans = spans.filter((each) => each.seq > upTo);
  if (!started || upTo <= after) return undefined;
  const { turnId, number, atMs: startMs } = started;
  const common = attributesOfRun(run, turnId);
  const turn = {
    id: spanIdOf(turnId),
    name: nameOf(operationOf(run), run.agent_name),
    kind: 'internal' as const,
    startMs,
    endMs: ended?.atMs ?? startMs,
    attributes: { ...common, ...attributesOfTurn(run, { number, spent }) },
    error: ended?.error,
    isOpen: !ended,
  };
  const finished = spans
    .filter((each) => each.seq > from && each.seq <= upTo)
    .map(({ span }) => ({ ...span, attributes: { ...common, ...span.attributes } }));
  return { parent: parentOf(run, started), turn, finished };
}

/** Whoever has sent the request; for the first turn of a child the call that delegates, or the turn of its workflow. */
function parentOf(run: TracedRun, { number, traceparent }: Started): TurnSpans['parent'] {
  const given = parseTraceparent(traceparent ?? run.traceparent ?? '');
  const parent = given ?? { traceId: traceIdOf(run.root_run_id), flags: '01' };
  const shown = run.parent_kind === 'workflow' ? run.parent_turn_id : run.parent_task_id;
  const isBegunByParent = number === 1 && run.parent_run_id !== null && shown !== null;
  return isBegunByParent ? { ...parent, spanId: spanIdOf(shown) } : parent;
}
