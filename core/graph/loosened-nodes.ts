/** Finds nodes that ask people, and guard less after a change of the graph. Pure. */
import { digestOf } from '../ids.ts';
import { NODE_CONFIGS, type GraphNode, type WorkflowGraph } from './definition.ts';
import { toolsNamed } from './tools.ts';

/** A node that asks a person, with what it guards. */
interface AskingNode {
  node: string;
  signal: string;
  /** Its outgoing edges, in order. */
  ways: { to: string | string[]; condition: string | null }[];
}

/** `around`: nodes and tools that could be reached only through the node, and now can be without it. */
type Loosened = (AskingNode & { around?: string[] }) | null;

/**
 * Nodes that ask a person and guard less after the change: removed, waiting for something else, with other outgoing edges (of
 * two versions, nobody can tell which is looser), or bypassed by a new path.
 */
export function loosenedNodes(
  after: WorkflowGraph | undefined,
  before: WorkflowGraph | undefined,
): { from: AskingNode[]; to: Loosened[] } {
  const from: AskingNode[] = [];
  const to: Loosened[] = [];
  for (const node of before?.nodes ?? []) {
    const was = before && askingNode(before, node);
    if (!was) continue;
    const same = after?.nodes.find(({ name, type }) => name === was.node && type === 'human');
    const is = after && same && askingNode(after, same);
    const around = after ? waysAround(was.node, { after, before }) : [];
    if (is && digestOf(is) === digestOf(was) && around.length === 0) continue;
    from.push(was);
    to.push(is ? { ...is, ...(around.length > 0 && { around }) } : null);
  }
  return { from, to };
}

/** Whether any node of the graph asks a person. */
export function asksPeople(graph: WorkflowGraph | undefined): boolean {
  return graph?.nodes.some((node) => askingNode(graph, node) !== undefined) ?? false;
}

/** Undefined if the node waits for time or a machine instead of a person. */
function askingNode({ edges }: WorkflowGraph, { name, type, config }: GraphNode): AskingNode | undefined {
  const parsed = type === 'human' ? NODE_CONFIGS.human.safeParse(config) : undefined;
  const signal = parsed?.data?.signal;
  if (signal !== 'user' && signal !== 'approval') return undefined;
  const ways = edges
    .filter((edge) => edge.from === name)
    .map((edge) => ({ to: edge.to, condition: edge.condition ?? null }));
  return { node: name, signal, ways };
}

/** Nodes and tools that could be reached only through the node, and now can be without it. */
function waysAround(name: string, { after, before }: { after: WorkflowGraph; before: WorkflowGraph }): string[] {
  const [wasFree, isFree] = [reachedWithout(name, before), reachedWithout(name, after)];
  const guarded = (of: (graph: WorkflowGraph) => string[]) =>
    of(before).filter((each) => !of(wasFree).includes(each) && of(isFree).includes(each));
  const nodes = guarded((graph) => graph.nodes.map((node) => node.name));
  const tools = guarded((graph) => toolsNamed(graph).map(({ tool }) => tool));
  return [...new Set([...nodes, ...tools])].filter((each) => each !== name);
}

/** The part of the graph reachable without a node. */
function reachedWithout(name: string, { entry_point: entry, nodes, edges }: WorkflowGraph): WorkflowGraph {
  const reached = new Set(entry === name ? [] : [entry]);
  for (const each of reached) {
    const next = edges.filter(({ from }) => from === each).flatMap(({ to }) => to);
    for (const to of next) if (to !== name) reached.add(to);
  }
  return { entry_point: entry, nodes: nodes.filter((node) => reached.has(node.name)), edges };
}
