/** The next step in a graph, as a pure function of a run's state: enter a node, call its model, complete it. */
import { LIMITS } from '../limits.ts';
import type { RunState } from '../state.ts';
import type { NodeType, WorkflowGraph } from './definition.ts';
import { leadsOf, nextOf, type Leads } from './next-node.ts';
import { isEntered, visitsOf, type NextNode } from './position.ts';

/** The parts of an agent's graph that decisions depend on. */
export interface GraphPlan {
  entryPoint: string;
  types: Readonly<Record<string, NodeType>>;
  leads: Leads;
  /** Without a node that calls a model, none is asked for a summary at the limit either. */
  asksModels: boolean;
}

/** The plan of a graph, to be made once: it costs what following all ways from each node does. */
export function planOf({ entry_point: entryPoint, nodes, edges }: WorkflowGraph): GraphPlan {
  const types = Object.fromEntries(nodes.map(({ name, type }) => [name, type]));
  const waysFrom = (node: string) => edges.filter(({ from }) => from === node).flatMap(({ to }) => to);
  const ways = new Map(nodes.map(({ name }) => [name, waysFrom(name)]));
  const asksModels = nodes.some(({ type }) => type === 'llm');
  return { entryPoint, types, leads: leadsOf(ways, entryPoint), asksModels };
}

interface Limited {
  maxSteps: number;
  graph?: GraphPlan | undefined;
}

/** The limit that a turn has reached, of steps or node visits; undefined if none. */
export function limitReached({ turn, graph }: Pick<RunState, 'turn' | 'graph'>, limits: Limited): number | undefined {
  if ((turn?.steps ?? 0) >= limits.maxSteps) return limits.maxSteps;
  const maxVisits = limits.maxSteps * LIMITS.nodeVisitsPerStep;
  return limits.graph && visitsOf(graph) >= maxVisits ? maxVisits : undefined;
}

type GraphStep =
  | { kind: 'enter_node'; next: NextNode }
  | { kind: 'complete_node' }
  /** `last`: a limit is reached, and the model is asked to sum up. */
  | { kind: 'call_model'; last: boolean }
  /** The agent version that the run continues with has no such node. */
  | { kind: 'no_node'; node: string };

/** The next step of a turn that has no answer yet, and whose calls all have results. */
export function graphStep(
  state: Pick<RunState, 'turn' | 'graph' | 'modelCall'>,
  limits: Limited & { graph: GraphPlan },
): GraphStep {
  const { graph: at, turn, modelCall } = state;
  const plan = limits.graph;
  const next = at?.open ? { node: at.node, from: at.from } : nextOf(at?.queue ?? [], plan.leads);
  const node = next?.node ?? plan.entryPoint;
  const type = Object.hasOwn(plan.types, node) ? plan.types[node] : undefined;
  if (!type) return { kind: 'no_node', node };
  if (at && isEntered(at))
    return type === 'llm' && !turn?.answer ? { kind: 'call_model', last: false } : { kind: 'complete_node' };
  const isLast = at && plan.asksModels && limitReached(state, limits) !== undefined;
  if (isLast || modelCall) return { kind: 'call_model', last: true };
  return { kind: 'enter_node', next: next ?? { node, from: [] } };
}
