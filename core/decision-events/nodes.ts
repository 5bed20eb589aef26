/** Events of graph nodes. */
import type { NewEvent } from '../events.ts';
import type { RunState } from '../state.ts';
import { changeStatus } from './turns.ts';

type Payload<T extends NewEvent['type']> = Extract<NewEvent, { type: T }>['payload'];

/** The decision `enter_node`. After an earlier node of the turn, the run first reflects and plans again. */
export function enterNode(state: RunState, payload: Omit<Payload<'node.entered'>, 'visit'>): NewEvent[] {
  const { turn, steps, graph } = state;
  const changed = graph ? changeStatus(state, 'reflecting', 'planning', 'executing') : [];
  const visit = (graph?.visits[payload.node] ?? 0) + 1;
  const entered = { ...payload, visit };
  return [...changed, { type: 'node.entered', actor: 'worker', turn_id: turn?.id, step: steps + 1, payload: entered }];
}

/** The decision `complete_node`. */
export function completeNode(
  { turn, steps, graph }: RunState,
  payload: Omit<Payload<'node.completed'>, 'node' | 'visit'>,
): NewEvent[] {
  if (!graph) return [];
  const completed = { node: graph.node, visit: graph.visit, ...payload };
  return [{ type: 'node.completed', actor: 'worker', turn_id: turn?.id, step: steps, payload: completed }];
}
