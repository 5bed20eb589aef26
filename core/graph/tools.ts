/** What a graph names of the world around it: tools and models. Pure. */
import { HUMAN_TOOLS, NODE_CONFIGS, type WorkflowGraph } from './definition.ts';

/** Tools that a graph names, by id or by name, each with its place. */
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

/** Models that a graph names, each with its place. */
export function modelsNamed({ nodes }: WorkflowGraph): [path: string, model: string][] {
  return nodes.flatMap(({ type, config: { model } }, index): [string, string][] =>
    type === 'llm' && typeof model === 'string' ? [[`nodes.${index}.config.model`, model]] : [],
  );
}

/** All tools that the nodes of an agent's graph need, by id or by name: those that human nodes wait with, too. */
export function toolsCalled({ workflow_graph: graph }: { workflow_graph?: WorkflowGraph | undefined }): string[] {
  if (!graph) return [];
  const waits = graph.nodes.flatMap(({ type, config }) => {
    if (type !== 'human') return [];
    const parsed = NODE_CONFIGS.human.safeParse(config);
    return parsed.success ? [HUMAN_TOOLS[parsed.data.signal]] : [];
  });
  return [...new Set([...toolsNamed(graph).map(({ tool }) => tool), ...waits])];
}
