/** The turns of a run. */
import type { NewEvent } from '../events.ts';
import type { Columns, Place, Projection, RowChange } from './projection.ts';
import { spentBy, spentInVain, stepsOf, stopReasonOf } from './runs.ts';

export const turns: Projection<'turns'> = {
  table: 'turns',
  key: 'id',
  columns: [
    'id',
    'tenant_id',
    'run_id',
    'number',
    'status',
    'input',
    'output_ordinal',
    'structured',
    'stop_reason',
    'error',
    'checkpoint_id',
    'steps',
    'tokens_in',
    'tokens_out',
    'cost_usd',
    'created_at',
    'completed_at',
  ],
  // `started_seq` is missing in rows of older builds, and not needed; the database fills in the agents.
  unlogged: ['started_seq', 'failed_agent_id', 'agent_id'],
  apply(place, event) {
    const change = event.turn_id === undefined ? undefined : changeOf(place, event, event.turn_id);
    return change && { key: event.turn_id ?? '', ...change };
  },
};

function changeOf(place: Place, event: NewEvent, id: string): Omit<RowChange, 'key'> | undefined {
  const completed_at = place.at;
  switch (event.type) {
    case 'turn.started':
      return { insert: newTurn(place, event, id) };
    case 'turn.completed': {
      const { ordinal: output_ordinal, stop_reason, checkpoint_id, structured } = event.payload;
      return { set: { status: 'complete', output_ordinal, stop_reason, checkpoint_id, structured, completed_at } };
    }
    case 'turn.failed': {
      const { error, ordinal: output_ordinal, checkpoint_id } = event.payload;
      const stop_reason = stopReasonOf(error);
      return { set: { status: 'failed', error, stop_reason, output_ordinal, checkpoint_id, completed_at } };
    }
    case 'turn.interrupted':
      return { set: { status: 'cancelled', stop_reason: STOPPED[event.payload.reason], completed_at } };
    case 'run.status_changed':
      return statusChanged(event.payload);
    case 'model.responded':
      return { add: spentBy(event) };
    case 'model.retried':
    case 'model.failed':
      return spentInVain(event);
    case 'node.entered':
      return { add: { steps: stepsOf(event) } };
    case 'client_tools.requested':
      return { set: { status: 'awaiting_tool' } };
    case 'signal.received':
    case 'timer.fired':
      // The client has answered, or its time is up: the turn is running again, unless other calls still wait for the client.
      return event.payload.type === 'tool_results' ? { set: { status: 'running' } } : undefined;
    default:
      return undefined;
  }
}

/** Stop reasons of turns that a person ended. */
export const STOPPED = { cancel: 'cancelled', interrupt: 'interrupted', reject: 'rejected' };

const WHY_STOPPED: Record<string, string> = {
  interrupted: 'The user interrupted the turn.',
  rejected: 'The plan of the turn was rejected.',
};

/** The error shown for a cancelled turn, by its `stop_reason`. It is in no row, since nothing failed. */
export function cancelledError(stopReason: string | null | undefined): { code: string; message: string } {
  const code = stopReason ?? STOPPED.cancel;
  return { code, message: WHY_STOPPED[code] ?? 'The turn was cancelled.' };
}

/** A turn waits when its run does, unless it only waits for time. */
function statusChanged(
  change: Extract<NewEvent, { type: 'run.status_changed' }>['payload'],
): Omit<RowChange, 'key'> | undefined {
  const { from, to, waiting_for } = change;
  if (waiting_for && waiting_for.type !== 'timer') return { set: { status: 'awaiting_human' } };
  return from === 'awaiting_human' && to === 'executing' ? { set: { status: 'running' } } : undefined;
}

function newTurn(place: Place, { payload }: Extract<NewEvent, { type: 'turn.started' }>, id: string): Columns {
  return {
    id,
    tenant_id: place.tenantId,
    run_id: place.runId,
    number: payload.number,
    status: 'running',
    input: payload.input,
    steps: 0,
    tokens_in: 0,
    tokens_out: 0,
    cost_usd: '0',
    started_seq: place.seq,
    created_at: place.at,
  };
}
