/** Draws a graph as a Mermaid flowchart. Pure. */
import type { NodeType, WorkflowGraph } from './definition.ts';

/** The default loop of agents without a graph: think, act, observe. */
export const REACT_GRAPH: WorkflowGraph = {
  entry_point: 'agent',
  nodes: [
    { name: 'agent', type: 'llm', config: {} },
    { name: 'tools', type: 'tool', config: {} },
  ],
  edges: [
    { from: 'agent', to: 'tools', condition: 'size(output.tool_calls) > 0' },
    { from: 'tools', to: 'agent', condition: null },
  ],
};

const SHAPES: Record<NodeType, [before: string, after: string]> = {
  llm: ['(', ')'],
  tool: ['[', ']'],
  router: ['{', '}'],
  human: ['[/', '/]'],
};

/** The lines of the chart. Names become labels, and are always treated as text. */
export function toMermaid({ entry_point: entry, nodes, edges }: WorkflowGraph): string {
  const ids = new Map(nodes.map(({ name }, index) => [name, `n${index}`]));
  const idOf = (name: string) => ids.get(name) ?? 'start';
  const shown = nodes.map(({ name, type }) => {
    const [before, after] = SHAPES[type];
    return `${idOf(name)}${before}"${label(name)}"${after}`;
  });
  const arrows = edges.flatMap(({ from, to, condition = null }) =>
    [to].flat().map((next) => {
      const when = condition === null ? '' : `|"${label(condition)}"|`;
      return `${idOf(from)} -->${when} ${idOf(next)}`;
    }),
  );
  const ends = nodes.filter(({ name }) => mayEnd(name, edges)).map(({ name }) => `${idOf(name)} --> stop`);
  const lines = ['start((start))', ...shown, 'stop((end))', `start --> ${idOf(entry)}`, ...arrows, ...ends];
  return `${['flowchart TD', ...lines.map((line) => `  ${line}`)].join('\n')}\n`;
}

/** Nodes without a default edge may be the last ones. */
function mayEnd(name: string, edges: WorkflowGraph['edges']): boolean {
  return !edges.some(({ from, condition = null }) => from === name && condition === null);
}

/** Writes characters as Mermaid's own entities, for quoted labels. */
function label(text: string): string {
  return text.replaceAll(/[^\p{L}\p{N} _.,:=!?+*/()'-]/gu, (char) => `#${char.codePointAt(0) ?? 0};`);
}
