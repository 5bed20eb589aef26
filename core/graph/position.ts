/** The position in a graph, in a run's state and in `run.forked`. Plain JSON; pure. */
import { z } from 'zod';
import { count, uuid } from '../events/event.ts';

export const NODE_OUTCOMES = ['succeeded', 'failed', 'denied', 'unknown'] as const;

const nodeOutcome = z.object({
  status: z.enum(NODE_OUTCOMES),
  /** The message with the output; absent if the output is the turn's input. */
  ordinal: count.optional(),
  /** The call whose result is the output. */
  tool_call_id: uuid.optional(),
});
/** Outcome of a node's last visit. The output itself is in the conversation or the ledger. */
export type NodeOutcome = z.output<typeof nodeOutcome>;

const waiting = z.object({ node: z.string(), from: z.array(z.string()) });

/** The position in the graph, as state and as part of `run.forked`. */
export const graphState = z.object({
  /** The last node entered, and which visit of it that was. */
  node: z.string(),
  visit: count,
  /** The nodes whose completion led to it; `output` is that of the last one. */
  from: z.array(z.string()),
  /** The node is not completed yet. */
  open: z.boolean(),
  /** The filled-in prompt, if it has expressions. */
  prompt: z.string().optional(),
  /** The message with the result of the node's call. */
  ordinal: count.optional(),
  /** The nodes to enter next, in order. */
  queue: z.array(waiting),
  /** Visits of each node in this turn. */
  visits: z.record(z.string(), count),
  outcomes: z.record(z.string(), nodeOutcome),
});
export type GraphState = z.output<typeof graphState>;

/** A node to enter, and the nodes whose completion led to it. */
export type NextNode = GraphState['queue'][number];

/** The position before a node with an open call was entered: it is entered again. */
export function beforeNode(graph: GraphState): GraphState {
  const { node, visit, from, prompt: _prompt, ordinal: _ordinal, ...rest } = graph;
  return goTo({ ...rest, node, visit, from, visits: { ...graph.visits, [node]: visit - 1 } }, { node, from }, true);
}

/** Marks an open node whose prompt must be filled in again: the visit does not count until it is entered again. */
export function toFillAgain(graph: GraphState): GraphState {
  if (!graph.open || graph.prompt === undefined) return graph;
  return { ...graph, visits: { ...graph.visits, [graph.node]: graph.visit - 1 } };
}

/** Whether the node is open, and need not be entered again. */
export function isEntered(graph: GraphState): boolean {
  return graph.open && graph.visits[graph.node] === graph.visit;
}

/** Sets the outcome of the last node entered. */
export function withOutcome(graph: GraphState, outcome: NodeOutcome): GraphState {
  return { ...graph, outcomes: { ...graph.outcomes, [graph.node]: outcome } };
}

/** Sets the next node; with `keep`, queued nodes stay behind it. */
export function goTo(graph: GraphState, next: NextNode, keep: boolean): GraphState {
  return { ...graph, open: false, queue: [next, ...(keep ? graph.queue : [])] };
}

/** Number of node visits in the turn so far. */
export function visitsOf(graph: GraphState | null | undefined): number {
  return Object.values(graph?.visits ?? {}).reduce((sum, visits) => sum + visits, 0);
}
