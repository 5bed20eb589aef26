/** Draws runs as Mermaid flowcharts from the API's data. */

interface Picture {
  nodes: { id: string; label: string; shape?: 'step' | 'end' }[];
  edges: { from: string; to: string; label?: string | undefined }[];
}

/** The picture's lines. Nodes are named by their order, so that equal runs give equal pictures. */
export function draw({ nodes, edges }: Picture): string {
  const names = new Map(nodes.map(({ id }, index) => [id, `n${index}`]));
  const nameOf = (id: string) => names.get(id) ?? 'lost';
  const shown = nodes.map(({ id, label, shape = 'step' }) =>
    shape === 'end' ? `${nameOf(id)}(("${text(label)}"))` : `${nameOf(id)}["${text(label)}"]`,
  );
  const arrows = edges.map(({ from, to, label }) => {
    const said = label === undefined ? '' : `|"${text(label)}"|`;
    return `${nameOf(from)} -->${said} ${nameOf(to)}`;
  });
  return ['flowchart LR', ...[...shown, ...arrows].map((line) => `  ${line}`)].join('\n');
}

/** A task of a workflow, and the agent that did it. */
export interface DoneTask {
  id: string;
  subtask_id: string;
  status: string;
  dependencies: string[];
  assignment: { assigned_agent_id: string } | null;
}

/** Draws data flow: the query to tasks without dependencies, and tasks that no other needs to the answer. */
export function drawTasks(tasks: readonly DoneTask[], agentOf: (id: string) => string): string {
  const needed = new Set(tasks.flatMap(({ dependencies }) => dependencies));
  const nodes: Picture['nodes'] = tasks.map(({ id, status, assignment }) => ({
    id,
    label: `${assignment ? agentOf(assignment.assigned_agent_id) : 'nobody'}: ${status}`,
  }));
  const edges = tasks.flatMap(({ id, dependencies }) =>
    dependencies.length === 0 ? [{ from: 'query', to: id }] : dependencies.map((from) => ({ from, to: id })),
  );
  const last = tasks.filter(({ id }) => !needed.has(id)).map(({ id }) => ({ from: id, to: 'answer' }));
  return draw({
    nodes: [{ id: 'query', label: 'query', shape: 'end' }, ...nodes, { id: 'answer', label: 'answer', shape: 'end' }],
    edges: [...edges, ...last],
  });
}

/** A run and the runs below it. */
export interface RunNode {
  id: string;
  kind: string;
  agent_id: string;
  status: string;
  children: RunNode[];
}

/** Draws which runs delegated to which. */
export function drawTree(root: RunNode, agentOf: (id: string) => string): string {
  const all = flatten(root);
  const isWorkflow = ({ kind }: RunNode) => kind === 'workflow';
  return draw({
    nodes: all.map((run) => ({
      id: run.id,
      label: `${isWorkflow(run) ? 'workflow' : agentOf(run.agent_id)}: ${run.status}`,
    })),
    edges: all.flatMap(({ id: from, children }) => children.map(({ id: to }) => ({ from, to }))),
  });
}

function flatten(run: RunNode): RunNode[] {
  return [run, ...run.children.flatMap(flatten)];
}

/** A visit of a node, from the log. */
export interface Visit {
  node: string;
  visit: number;
  from: string[];
}

/** Draws a run's path through its graph; numbers show the order of its steps. */
export function drawWay(visits: readonly Visit[]): string {
  const nodes = [...new Set(visits.map(({ node }) => node))];
  const steps = visits.flatMap(({ node, from }, index) =>
    (from.length === 0 ? ['start'] : from).map((before) => ({ from: before, to: node, step: index + 1 })),
  );
  const ways = [...new Set(steps.map(({ from, to }) => JSON.stringify([from, to])))];
  const edges = ways.map((way) => {
    const [from = '', to = ''] = JSON.parse(way) as string[];
    const taken = steps.filter((step) => step.from === from && step.to === to).map(({ step }) => step);
    return { from, to, label: taken.join(', ') };
  });
  const last = visits.at(-1);
  return draw({
    nodes: [
      { id: 'start', label: 'input', shape: 'end' },
      ...nodes.map((node) => ({ id: node, label: node })),
      { id: 'stop', label: 'answer', shape: 'end' },
    ],
    edges: [...edges, ...(last ? [{ from: last.node, to: 'stop' }] : [])],
  });
}

/** Escapes characters in quoted labels as Mermaid entities. */
function text(label: string): string {
  return label.replaceAll(/[^\p{L}\p{N} _.,:=!?+*/()'-]/gu, (char) => `#${char.codePointAt(0) ?? 0};`);
}
