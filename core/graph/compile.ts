/** Compiles an agent's graph, or returns all its faults. Pure. */
import type { Condition } from '../cel.ts';
import type { FieldError } from '../errors.ts';
import {
  NODE_CONFIGS,
  type GraphNode,
  type HumanConfig,
  type LlmConfig,
  type ToolConfig,
  type WorkflowGraph,
} from './definition.ts';
import { compileCondition, compileTemplate, type Template } from './template.ts';

interface OfAnyType {
  name: string;
  writes: [channel: string, value: Template][];
  edges: CompiledEdge[];
}

export type CompiledNode = OfAnyType &
  (
    | { type: 'llm'; config: LlmConfig; prompt: Template }
    | { type: 'tool'; config: ToolConfig; input: Template }
    | { type: 'router' }
    | { type: 'human'; config: HumanConfig; prompt: Template }
  );

/** `condition` is null for the default edge. `index` is the edge's place in the definition. */
export interface CompiledEdge {
  index: number;
  to: string[];
  condition: Condition | null;
}

export interface CompiledGraph {
  entryPoint: string;
  nodes: ReadonlyMap<string, CompiledNode>;
}

type Compilation = { ok: true; graph: CompiledGraph } | { ok: false; faults: FieldError[] };

/** Compiles a graph. Paths of faults start within it, such as `edges.1.to`. */
export function compileGraph(graph: WorkflowGraph): Compilation {
  const faults = [...faultsOfNames(graph), ...faultsOfEdges(graph)];
  const edges = graph.edges.map((_edge, index) => compileEdge(graph, index, faults));
  const nodes = graph.nodes.flatMap((node, index) => {
    const own = edges.filter((edge) => graph.edges[edge.index]?.from === node.name);
    return compileNode(node, { path: `nodes.${index}`, edges: own, faults }) ?? [];
  });
  if (faults.length === 0) faults.push(...faultsOfReach(graph));
  if (faults.length > 0) return { ok: false, faults: faults.map((each) => withMeant(each, graph)) };
  return { ok: true, graph: { entryPoint: graph.entry_point, nodes: new Map(nodes.map((node) => [node.name, node])) } };
}

/** The same fault; where the unknown variable is the name of a channel, it says how that is read. */
function withMeant({ path, message }: FieldError, { nodes }: WorkflowGraph): FieldError {
  const [, name = ''] = /\bUnknown variable: (\w+)$/.exec(message) ?? [];
  const isChannel = nodes.some(({ writes }) => Object.hasOwn(writes ?? {}, name));
  return { path, message: isChannel ? `${message}; did you mean state.${name}?` : message };
}

function faultsOfNames({ nodes, entry_point: entry }: WorkflowGraph): FieldError[] {
  const names = nodes.map(({ name }) => name);
  const doubles = names.flatMap((name, index) => {
    const first = names.indexOf(name);
    return first === index ? [] : [{ path: `nodes.${index}.name`, message: `is the name of nodes.${first}, too` }];
  });
  const isThere = names.includes(entry);
  return isThere ? doubles : [...doubles, { path: 'entry_point', message: `there is no node "${entry}"` }];
}

function faultsOfEdges({ nodes, edges }: WorkflowGraph): FieldError[] {
  const names = new Set(nodes.map(({ name }) => name));
  const missing = (path: string, name: string): FieldError[] =>
    names.has(name) ? [] : [{ path, message: `there is no node "${name}"` }];
  return edges.flatMap(({ from, to, condition = null }, index) => {
    const path = `edges.${index}`;
    const faults = missing(`${path}.from`, from);
    if (typeof to === 'string') faults.push(...missing(`${path}.to`, to));
    else {
      faults.push(...to.flatMap((name, place) => missing(`${path}.to.${place}`, name)));
      if (new Set(to).size < to.length) faults.push({ path: `${path}.to`, message: 'names a node twice' });
    }
    const isDefault = (edge: WorkflowGraph['edges'][number]) => edge.from === from && (edge.condition ?? null) === null;
    const first = edges.findIndex(isDefault);
    if (condition === null && first < index) {
      const message = `the node "${from}" has its default edge in edges.${first}: list several nodes in its "to"`;
      faults.push({ path, message });
    }
    return faults;
  });
}

function compileEdge({ edges }: WorkflowGraph, index: number, faults: FieldError[]): CompiledEdge {
  const { to = [], condition: source = null } = edges[index] ?? {};
  const targets = typeof to === 'string' ? [to] : to;
  if (source === null) return { index, to: targets, condition: null };
  const compiled = compileCondition(source);
  if (!compiled.ok) faults.push({ path: `edges.${index}.condition`, message: compiled.error });
  return { index, to: targets, condition: compiled.ok ? compiled.value : null };
}

interface Compiling {
  path: string;
  edges: CompiledEdge[];
  faults: FieldError[];
}

function compileNode(node: GraphNode, { path, edges, faults }: Compiling): CompiledNode | undefined {
  const parsed = NODE_CONFIGS[node.type].safeParse(node.config);
  if (!parsed.success) {
    for (const { path: at, message } of parsed.error.issues) {
      faults.push({ path: [path, 'config', ...at].join('.'), message });
    }
    return undefined;
  }
  const template = (value: unknown, at: string): Template => {
    const compiled = compileTemplate(value);
    if (compiled.ok) return compiled.value;
    faults.push(...compiled.faults.map((fault) => ({ path: `${path}.${at}${fault.path}`, message: fault.message })));
    return { isPlain: true, render: () => ({ ok: true, value: null }) };
  };
  const writes = Object.entries(node.writes ?? {}).map(([channel, value]): [string, Template] => [
    channel,
    template(value, `writes.${channel}`),
  ]);
  const own = { name: node.name, writes, edges };
  switch (node.type) {
    case 'llm': {
      const config = parsed.data as LlmConfig;
      return { ...own, type: node.type, config, prompt: template(config.prompt ?? '', 'config.prompt') };
    }
    case 'tool': {
      const config = parsed.data as ToolConfig;
      return { ...own, type: node.type, config, input: template(config.input, 'config.input') };
    }
    case 'router':
      return { ...own, type: node.type };
    case 'human': {
      const config = parsed.data as HumanConfig;
      return { ...own, type: node.type, config, prompt: template(config.prompt ?? '', 'config.prompt') };
    }
  }
}

/** Nodes that cannot be reached. */
function faultsOfReach({ entry_point: entry, nodes, edges }: WorkflowGraph): FieldError[] {
  const reached = new Set([entry]);
  for (const name of reached) {
    const ways = edges.filter(({ from }) => from === name).flatMap(({ to }) => to);
    for (const next of ways) reached.add(next);
  }
  return nodes.flatMap(({ name }, index) =>
    reached.has(name)
      ? []
      : [{ path: `nodes.${index}`, message: `the node "${name}" cannot be reached from "${entry}"` }],
  );
}
