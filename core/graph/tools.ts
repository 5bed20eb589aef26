/** Tools and models that a graph refers to. Pure. */
import { HUMAN_TOOLS, NODE_CONFIGS, type WorkflowGraph } from './definition.ts';

/** Tools named by a graph, by id or name, each with its path. */
export function toolsNamed({ nodes }: WorkflowGraph): { path: string; tool: string }[] {
  return nodes.flatMap(({ type, config }, index) => {
    const path = `nodes.${index}.config`;
    const { tool, tools } = config as { tool?: unknown; tools?: unknown };
    if (type === 'tool' && typeof tool === 'string') return [{ path: `${path}.tool`, tool }];
    if (type !== 'llm' || !Array.isArray(tools)) return [];
    return tools.flatMap((each: unknown, place) =>
      typeof each === 'string' ? [{ path: `${path}.tools.${place}`, tool: each }] : [],
    );
  });
}

/** Models named by a graph, each with its path. */
export function modelsNamed({ nodes }: WorkflowGraph): [path: string, model: string][] {
  return nodes.flatMap(({ type, config: { model } }, index): [string, string][] =>
    type === 'llm' && typeof model === 'string' ? [[`nodes.${index}.config.model`, model]] : [],
  );
}

/** All tools needed by an agent's graph, by id or name, including those that human nodes wait with. */
export function toolsCalled({ workflow_graph: graph }: { workflow_graph?: WorkflowGraph | undefined }): string[] {
  if (!graph) return [];
  const waits = graph.nodes.flatMap(({ type, config }) => {
    if (type !== 'human') return [];
    const parsed = NODE_CONFIGS.human.safeParse(config);
    return parsed.success ? [HUMAN_TOOLS[parsed.data.signal]] : [];
  });
  return [...new Set([...toolsNamed(graph).map(({ tool }) => tool), ...waits])];
}
