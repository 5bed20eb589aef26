/** A position in a graph, as a part of a run's state and of `run.forked`. Plain JSON; pure. */
import { z } from 'zod';
import { count, uuid } from '../events/event.ts';

export const NODE_OUTCOMES = ['succeeded', 'failed', 'denied', 'unknown'] as const;

const nodeOutcome = z.object({
  status: z.enum(NODE_OUTCOMES),
  /** The message that has its output; absent where it is the turn's input. */
  ordinal: count.optional(),
  /** The call whose result that is. */
  tool_call_id: uuid.optional(),
});
/** What became of a node when it was visited last. Its output is in the conversation or the ledger. */
export type NodeOutcome = z.output<typeof nodeOutcome>;

const waiting = z.object({ node: z.string(), from: z.array(z.string()) });

/** The position in the graph, as state and as part of `run.forked`. */
export const graphState = z.object({
  /** The node that was entered last, with its number among the visits of it. */
  node: z.string(),
  visit: count,
  /** The nodes whose ends have led to it; `output` is what the last of them has given. */
  from: z.array(z.string()),
  /** It has not been completed yet. */
  open: z.boolean(),
  /** Its prompt, where that was filled in. */
  prompt: z.string().optional(),
  /** The message with the result of its call. */
  ordinal: count.optional(),
  /** Nodes that come next, in this order. */
  queue: z.array(waiting),
  /** How often each node has been entered in this turn. */
  visits: z.record(z.string(), count),
  outcomes: z.record(z.string(), nodeOutcome),
});
export type GraphState = z.output<typeof graphState>;

/** A node that is to be entered, and whose ends have led to it. */
export type NextNode = GraphState['queue'][number];

/** Before a node was entered whose call was open: it is to be entered again. */
export function beforeNode(graph: GraphState): GraphState {
  const { node, visit, from, prompt: _prompt, ordinal: _ordinal, ...rest } = graph;
  return goTo({ ...rest, node, visit, from, visits: { ...graph.visits, [node]: visit - 1 } }, { node, from }, true);
}

/** An open node whose prompt is to be filled in anew: the visit does not count until it is entered once more. */
export function toFillAgain(graph: GraphState): GraphState {
  if (!graph.open || graph.prompt === undefined) return graph;
  return { ...graph, visits: { ...graph.visits, [graph.node]: graph.visit - 1 } };
}

/** Whether a node is open, and not to be entered once more. */
export function isEntered(graph: GraphState): boolean {
  return graph.open && graph.visits[graph.node] === graph.visit;
}

/** With what became of the node that was entered last. */
export function withOutcome(graph: GraphState, outcome: NodeOutcome): GraphState {
  return { ...graph, outcomes: { ...graph.outcomes, [graph.node]: outcome } };
}

/** On the way to a node; what waits stays behind it where `keep` says so. */
export function goTo(graph: GraphState, next: NextNode, keep: boolean): GraphState {
  return { ...graph, open: false, queue: [next, ...(keep ? graph.queue : [])] };
}

/** Nodes that a turn has entered so far. */
export function visitsOf(graph: GraphState | null | undefined): number {
  return Object.values(graph?.visits ?? {}).reduce((sum, visits) => sum + visits, 0);
}
