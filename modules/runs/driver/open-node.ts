/** The graph node that a run is in, as its model calls and waits see it. */
import type { AgentDefinition } from '../../../core/definition.ts';
import { compileGraph, type CompiledGraph, type CompiledNode } from '../../../core/graph/compile.ts';
import type { WorkflowGraph } from '../../../core/graph/definition.ts';
import { planOf, type GraphPlan } from '../../../core/graph/graph-step.ts';
import type { GraphState } from '../../../core/graph/position.ts';
import type { ToolDefinition } from '../../../core/tool.ts';
import { isForModels } from '../../tools-registry/pin-tools.ts';

type Tools = ReadonlyMap<string, ToolDefinition>;

/** The part of a run's position that names its node. */
export type NodePosition = Pick<GraphState, 'node' | 'open' | 'prompt'>;

/** What a run is driven by, and its position. */
interface InGraph {
  definition: AgentDefinition;
  tools: Tools;
  log: { state: { graph?: NodePosition | null | undefined } };
}

/** By definition: these never change, and last as long as runs need them. */
const compiled = new WeakMap<WorkflowGraph, CompiledGraph>();

/** The compiled graph of a published definition, cached. Throws if it is faulty, which publishing prevents. */
export function graphOf(graph: WorkflowGraph): CompiledGraph {
  const known = compiled.get(graph);
  if (known) return known;
  const compilation = compileGraph(graph);
  if (!compilation.ok) throw new Error(`a published graph is faulty: ${compilation.faults[0]?.message ?? ''}`);
  compiled.set(graph, compilation.graph);
  return compilation.graph;
}

/** By definition, as above. */
const plans = new WeakMap<WorkflowGraph, GraphPlan>();

/** The plan of a published definition's graph, cached. */
export function graphPlanOf(graph: WorkflowGraph): GraphPlan {
  const plan = plans.get(graph) ?? planOf(graph);
  plans.set(graph, plan);
  return plan;
}

/** The node that was entered and not completed. */
export function openNode({ definition, log: { state } }: Omit<InGraph, 'tools'>): CompiledNode | undefined {
  const { workflow_graph: graph } = definition;
  return graph && state.graph?.open ? graphOf(graph).nodes.get(state.graph.node) : undefined;
}

/** By the run's tools, then by node ('' for none). The same map at each call, since its token cost is cached by it. */
const offered = new WeakMap<Tools, Map<string, Tools>>();

/** The tools offered to the model now: the node's, otherwise the agent's tools for its models. */
export function offeredTools(run: InGraph): Tools {
  const { definition, tools } = run;
  if (!definition.workflow_graph) return tools;
  const node = openNode(run);
  const named = node?.type === 'llm' ? node.config.tools : undefined;
  const key = named ? (node?.name ?? '') : '';
  const known = offered.get(tools) ?? new Map<string, Tools>();
  offered.set(tools, known);
  const isOffered = (tool: ToolDefinition) =>
    named ? named.includes(tool.name) || named.includes(tool.id) : isForModels(definition, tool);
  const found = known.get(key) ?? new Map([...tools].filter(([, tool]) => isOffered(tool)));
  known.set(key, found);
  return found;
}

/** The node's addition to the system prompt. */
export function promptOf(run: Omit<InGraph, 'tools'>): string | undefined {
  const node = openNode(run);
  if (node?.type !== 'llm') return undefined;
  return run.log.state.graph?.prompt ?? node.config.prompt;
}

/** The first model that the node asks. */
export function modelOf(run: Omit<InGraph, 'tools'>): string | undefined {
  const node = openNode(run);
  return node?.type === 'llm' ? node.config.model : undefined;
}
