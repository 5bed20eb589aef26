/** Runs each pattern of cooperation once, and draws it. */
import type { ApiClient } from '../demo/api-client.ts';
import { draw, drawTasks, drawTree, drawWay, type DoneTask, type RunNode, type Visit } from './draw.ts';

interface Pattern {
  name: string;
  /** Runs it, and draws the result. */
  play: (world: World) => Promise<string>;
}

export interface World {
  client: ApiClient;
  /** The id of an agent by its name. */
  idOf: (name: string) => string;
  nameOf: (id: string) => string;
  /** Waits until it has ended, and returns it. Throws if it did not complete. */
  ended: <T extends { status: string }>(path: string) => Promise<T>;
}

const QUESTION = 'What does the harbour need?';
const WORKERS = ['north', 'south', 'east'];

/** The agents of all patterns, with worked examples for the offline model. */
export const AGENTS: readonly (Record<string, unknown> & { name: string })[] = [
  ...WORKERS.map((name) => ({
    name,
    tools: [],
    system_prompt: examples({ question: '{all}', steps: [], answer: `${name} says: cranes` }),
  })),
  {
    name: 'lead',
    tools: ['delegate'],
    system_prompt: examples({
      question: QUESTION,
      steps: WORKERS.map((agent) => ({ tool: 'delegate', input: { agent, description: `Ask the ${agent} pier.` } })),
      answer: '{{steps.0.output.result}}',
    }),
  },
  {
    name: 'desk',
    tools: ['handoff'],
    system_prompt: examples({
      question: QUESTION,
      steps: [{ tool: 'handoff', input: { to_agent: 'north', reason: 'It knows the piers.' } }],
      answer: 'The north pier goes on.',
    }),
  },
  {
    name: 'clerk',
    tools: [],
    workflow_graph: {
      entry_point: 'count',
      nodes: [
        { name: 'count', type: 'tool', config: { tool: 'calculator', input: { expression: '2 * 21' } } },
        { name: 'enough', type: 'router', config: {} },
        { name: 'note', type: 'tool', config: { tool: 'calculator', input: { expression: '42 / 2' } } },
      ],
      edges: [
        { from: 'count', to: 'enough' },
        { from: 'enough', to: 'count', condition: 'iteration < 3' },
        { from: 'enough', to: 'note', condition: null },
      ],
    },
  },
];

function examples(...list: object[]) {
  return { role: 'You answer in one line.', examples: list };
}

export const PATTERNS: readonly Pattern[] = [
  { name: 'Parallel', play: (world) => playTeam(world, { orchestration_pattern: 'parallel' }) },
  { name: 'Sequential', play: (world) => playTeam(world, { orchestration_pattern: 'sequential' }) },
  { name: 'Hierarchical', play: playHierarchy },
  { name: 'Handoff', play: playHandoff },
  { name: 'Graph', play: playGraph },
];

async function startTeam({ client, idOf }: World, team: Record<string, unknown>): Promise<string> {
  const members = WORKERS.map((name, priority) => ({ agent_id: idOf(name), role: name, priority }));
  const { id: team_id } = await client.post<{ id: string }>('/v1/teams', { name: 'piers', members, ...team });
  const workflow = { name: 'harbour', team_id, input: { user_query: QUESTION } };
  return (await client.post<{ id: string }>('/v1/workflows', workflow)).id;
}

async function playTeam(world: World, team: Record<string, unknown>): Promise<string> {
  const id = await startTeam(world, team);
  const { tasks } = await world.ended<{ status: string; tasks: DoneTask[] }>(`/v1/workflows/${id}`);
  return drawTasks(tasks, world.nameOf);
}

async function playHierarchy(world: World): Promise<string> {
  const supervisor_agent_id = world.idOf('lead');
  const id = await startTeam(world, { orchestration_pattern: 'hierarchical', supervisor_agent_id });
  await world.ended(`/v1/workflows/${id}`);
  return drawTree(await world.client.get<RunNode>(`/v1/runs/${id}/tree`), world.nameOf);
}

async function start({ client, idOf }: World, agent: string): Promise<string> {
  const body = { input: { message: QUESTION } };
  return (await client.post<{ run_id: string }>(`/v1/agents/${idOf(agent)}/runs`, body)).run_id;
}

interface HandoffRow {
  id: string;
  status: string;
  source_agent_id: string;
  target_agent_id: string;
}

async function playHandoff(world: World): Promise<string> {
  await world.ended(`/v1/runs/${await start(world, 'desk')}`);
  const { handoffs } = await world.client.get<{ handoffs: HandoffRow[] }>('/v1/handoffs');
  const [handed] = handoffs;
  if (!handed) throw new Error('nothing was handed over');
  const { chain } = await world.ended<{ status: string; chain: HandoffRow[] }>(`/v1/handoffs/${handed.id}`);
  return drawChain(chain, world);
}

async function playGraph(world: World): Promise<string> {
  const run = await start(world, 'clerk');
  await world.ended(`/v1/runs/${run}`);
  const path = `/v1/runs/${run}/events?types=node.entered&limit=100`;
  const { events } = await world.client.get<{ events: { payload: Visit }[] }>(path);
  return drawWay(events.map(({ payload }) => payload));
}

/** Draws which agents handed over to which. */
function drawChain(chain: readonly HandoffRow[], { nameOf }: World): string {
  const agents = [
    ...new Set(chain.flatMap(({ source_agent_id, target_agent_id }) => [source_agent_id, target_agent_id])),
  ];
  const last = chain.at(-1)?.target_agent_id ?? '';
  const first = agents[0] ?? '';
  return draw({
    nodes: [
      { id: 'query', label: 'query', shape: 'end' },
      ...agents.map((id) => ({ id, label: nameOf(id) })),
      { id: 'answer', label: 'answer', shape: 'end' },
    ],
    edges: [
      { from: 'query', to: first },
      ...chain.map(({ source_agent_id: from, target_agent_id: to, status }) => ({
        from,
        to,
        label: `handoff: ${status}`,
      })),
      { from: last, to: 'answer' },
    ],
  });
}
