/** A graph as a picture: Mermaid's flowchart. Pure. */
import type { NodeType, WorkflowGraph } from './definition.ts';

/** What an agent without a graph follows: think, act, observe. */
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

/** The lines of the picture. Names are labels: whatever they hold, they are text. */
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

/** A node without a default edge may be the last. */
function mayEnd(name: string, edges: WorkflowGraph['edges']): boolean {
  return !edges.some(({ from, condition = null }) => from === name && condition === null);
}

/** As Mermaid's own entities, which stand for characters in quoted labels. */
function label(text: string): string {
  return text.replaceAll(/[^\p{L}\p{N} _.,:=!?+*/()'-]/gu, (char) => `#${char.codePointAt(0) ?? 0};`);
}
