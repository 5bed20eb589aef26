/** A run's log as a list of actions, derived from events alone. */
import type { Caller } from '../../core/caller.ts';
import type { Message } from '../../core/content.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Tx } from '../../db/database.ts';
import { listEvents, type LoggedEvent } from '../../db/events.ts';
import { findLastAsked, listSteppedTurns, type SteppedTurn } from '../../db/turn-contents.ts';
import { renderMemories } from '../../core/memory/prompt.ts';
import { findContextAt, findGivenMemories, findLengthSent } from '../../db/replay.ts';
import { requireRunRef, type RunPath } from '../runs/read-runs.ts';
import { withMemory, withoutEmptyAnswers } from '../run-log/conversation.ts';
import { ACTION_TYPES, actionsOf, type Action, type ActionType } from './actions.ts';
import { readSent } from './sent-messages.ts';

export { ACTION_TYPES };

export interface LoggedAction extends Omit<Action, 'step'> {
  event: LoggedEvent;
  /** Its index among the actions of one event. */
  place: number;
  /** 0 before the first model call of its turn. */
  step: number;
  /** What the model was sent; only with `snapshots`. */
  messages?: Message[];
}

export interface ActionPage {
  agentId: string;
  actions: LoggedAction[];
  /** The last event examined, if there are more. */
  next: number | undefined;
}

/** A page of a run's actions, in order: those of at most `limit` events after a given one. Throws 404. */
export async function readActions(
  tx: Tx,
  caller: Caller,
  page: {
    path: RunPath;
    after: number;
    limit: number;
    types?: readonly ActionType[] | undefined;
    snapshots: boolean;
  },
): Promise<ActionPage> {
  const { path, after, limit, types, snapshots } = page;
  const { id, agent_id: agentId } = await requireRunRef(tx, caller, path);
  const { events, hasMore } = await listEvents(tx, { runId: id, after, limit, maxBytes: LIMITS.eventsPageBytes });
  const turns = await readTurns(tx, id, events);
  const actions: LoggedAction[] = [];
  let bytes = 0;
  let last: number | undefined;
  for (const event of events) {
    const turn = turnOf(turns, event);
    const step = event.step ?? lastStep(turn, event);
    const found = actionsOf(event, turn)
      .map((action, place): LoggedAction => ({ ...action, event, place, step: action.step ?? step }))
      .filter(({ type }) => !types || types.includes(type));
    const called = snapshots ? found.find(({ type }) => type === 'api_call_started') : undefined;
    if (called) {
      called.messages = await readSnapshot(tx, id, event);
      bytes += JSON.stringify(called.messages).length;
    }
    if (last !== undefined && bytes > LIMITS.eventsPageBytes) return { agentId, actions, next: last };
    actions.push(...found);
    last = event.seq;
  }
  return { agentId, actions, next: hasMore ? last : undefined };
}

const ENDS: readonly string[] = ['turn.completed', 'turn.failed', 'turn.interrupted'];

/** The turns of a page's events: whole where the page tells of their end, otherwise as far as the page refers to them. */
async function readTurns(tx: Tx, runId: string, events: readonly LoggedEvent[]): Promise<Map<string, SteppedTurn>> {
  const [first, last] = [events[0], events.at(-1)];
  if (!first || !last) return new Map();
  const idsOf = (of: readonly LoggedEvent[]) => new Set(of.flatMap(({ turn_id: turn }) => turn ?? []));
  const ended = idsOf(events.filter(({ type }) => ENDS.includes(type)));
  const others = [...idsOf(events)].filter((turn) => !ended.has(turn));
  const turns = ended.size > 0 ? await listSteppedTurns(tx, [...ended]) : [];
  if (others.length > 0) {
    const from = (await findLastAsked(tx, runId, first.seq)) ?? 0;
    turns.push(...(await listSteppedTurns(tx, others, { from, to: last.seq })));
  }
  return new Map(turns.map((turn) => [turn.turn_id, turn]));
}

function turnOf(turns: ReadonlyMap<string, SteppedTurn>, { turn_id }: LoggedEvent): SteppedTurn | undefined {
  return turn_id === null ? undefined : turns.get(turn_id);
}

/**
 * The step of the last answer before an event without a step of its own: the end of a turn, or acts of others. For a turn
 * without an answer, the step of the last model call.
 */
function lastStep(turn: SteppedTurn | undefined, { type, seq }: LoggedEvent): number {
  const before = Object.entries(turn?.answers ?? {}).filter(([, at]) => at < seq);
  const asked = type === 'turn.failed' || type === 'turn.interrupted' ? Object.keys(turn?.asked ?? {}) : [];
  return Math.max(0, ...[...before.map(([step]) => step), ...asked].map(Number));
}

/** The conversation that the model was sent, according to the log. */
async function readSnapshot(tx: Tx, runId: string, event: LoggedEvent): Promise<Message[]> {
  const { seq } = event;
  const payload = event.payload as { length: number; tool_choice: unknown };
  const length = await findLengthSent(tx, runId, { seq, payload });
  const context = await findContextAt(tx, runId, seq);
  const { summary, ...kept } = await readSent(tx, runId, { ...context, length });
  // Drover's own calls get none.
  const isOwn = typeof payload.tool_choice === 'object';
  const given = isOwn ? undefined : await findGivenMemories(tx, runId, event);
  const memory = given && { ordinal: given.ordinal, text: renderMemories(given.entries) };
  return [...summary, ...withoutEmptyAnswers(withMemory(kept, memory))];
}
