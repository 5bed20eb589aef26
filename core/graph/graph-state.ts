/** How node events change a run's position in its agent's graph. Pure. */
import type { RunEvent } from '../events.ts';
import type { GraphState, NextNode } from './position.ts';

type Entered = Extract<RunEvent, { type: 'node.entered' }>;
type Completed = Extract<RunEvent, { type: 'node.completed' }>;

/** The position after a node was entered. */
export function enteredNode(before: GraphState | null | undefined, { payload }: Entered): GraphState {
  const { node, visit, from, prompt, ordinal } = payload;
  return {
    node,
    visit,
    from,
    open: true,
    ...(prompt !== undefined && { prompt }),
    ...(ordinal !== undefined && { ordinal }),
    queue: (before?.queue ?? []).filter((each) => each.node !== node),
    visits: { ...before?.visits, [node]: visit },
    outcomes: before?.outcomes ?? {},
  };
}

/** The position after a node was completed. */
export function completedNode(before: GraphState, { payload }: Completed): GraphState {
  const { node, status, ordinal, tool_call_id, next, ends = false } = payload;
  const outcome = {
    status,
    ...(ordinal !== undefined && { ordinal }),
    ...(tool_call_id !== undefined && { tool_call_id }),
  };
  return {
    ...before,
    open: false,
    queue: ends ? [] : next.reduce<NextNode[]>((queue, name) => withNext(queue, name, node), before.queue),
    outcomes: { ...before.outcomes, [node]: outcome },
  };
}

/** Queues a node. One already queued is entered only once, after all nodes that led to it: branches join again. */
function withNext(queue: readonly NextNode[], name: string, from: string): NextNode[] {
  if (!queue.some(({ node }) => node === name)) return [...queue, { node: name, from: [from] }];
  const withFrom = (all: readonly string[]) => [...all.filter((node) => node !== from), from];
  return queue.map((each) => (each.node === name ? { ...each, from: withFrom(each.from) } : each));
}
