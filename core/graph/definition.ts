/** The graph of an agent's work: nodes, and the edges that lead from one to the next (docs/graphs.md). */
import { z } from 'zod';
import { LIMITS } from '../limits.ts';

export const NODE_TYPES = ['llm', 'tool', 'router', 'human'] as const;
export type NodeType = (typeof NODE_TYPES)[number];

/** Names are keys in the log, so names that objects inherit are not allowed. */
const nodeName = z
  .string()
  .min(1)
  .max(64)
  .refine((name) => !(name in Object.prototype), { message: 'is no name that a node or a channel can have' });

const node = z
  .strictObject({
    name: nodeName,
    type: z.enum(NODE_TYPES),
    config: z
      .record(z.string(), z.unknown())
      .default({})
      .describe(
        'llm `{prompt?, tools?, model?}`, tool `{tool, input}`, router `{}`, human `{prompt, signal?, name?, timeout_seconds?}`. `{{…}}` holds a CEL expression.',
      ),
    writes: z
      .record(nodeName, z.unknown())
      .optional()
      .describe('Channels of `custom` that the end of the node sets, to values with `{{…}}`.'),
  })
  .superRefine(({ type, config }, refinement) => {
    const fields: readonly string[] = Object.keys(NODE_CONFIGS[type].shape);
    for (const field of Object.keys(config)) {
      const message = `a node of type ${type} has no such field`;
      if (!fields.includes(field)) refinement.addIssue({ code: 'custom', path: ['config', field], message });
    }
  })
  .meta({ id: 'GraphNode' });

const edge = z
  .strictObject({
    from: nodeName,
    to: z.union([nodeName, z.array(nodeName).min(1).max(LIMITS.graphNodes)]),
    condition: z
      .string()
      .max(LIMITS.celSourceChars)
      .nullable()
      .optional()
      .describe('CEL over `input`, `output`, `state`, `iteration`; null: the default edge.'),
  })
  .meta({ id: 'GraphEdge' });

/** A graph as clients send it. Faults of the graph as a whole are found by `compile.ts`. */
export const workflowGraph = z
  .strictObject({
    entry_point: nodeName,
    nodes: z.array(node).max(LIMITS.graphNodes),
    edges: z.array(edge).max(LIMITS.graphEdges).default([]),
  })
  .meta({ id: 'WorkflowGraph' });
export type WorkflowGraph = z.output<typeof workflowGraph>;
export type GraphNode = WorkflowGraph['nodes'][number];

/** What a human node waits for. */
const HUMAN_SIGNALS = ['user', 'timer', 'webhook', 'approval'] as const;

/** The built-in tool whose call waits for each signal. */
export const HUMAN_TOOLS = {
  user: 'ask_user',
  timer: 'sleep',
  webhook: 'wait_for_webhook',
  approval: 'ask_user',
} as const satisfies Record<(typeof HUMAN_SIGNALS)[number], string>;

const llmConfig = z.strictObject({
  prompt: z.string().max(200_000).optional(),
  tools: z.array(z.string().min(1).max(200)).max(200).optional(),
  model: z.string().min(1).max(200).optional(),
});

const toolConfig = z.strictObject({
  tool: z.string().min(1).max(200),
  input: z.record(z.string(), z.unknown()).default({}),
});

const seconds = z.number().positive().max(LIMITS.waitSeconds);

const humanConfig = z
  .strictObject({
    prompt: z.string().min(1).max(5000).optional(),
    signal: z.enum(HUMAN_SIGNALS).default('user'),
    name: z.string().min(1).max(200).optional(),
    timeout_seconds: seconds.optional(),
  })
  .refine(({ prompt, signal }) => prompt !== undefined || signal === 'timer' || signal === 'webhook', {
    path: ['prompt'],
    message: 'is needed: a person reads it',
  })
  .refine(({ signal, timeout_seconds: time }) => signal !== 'timer' || time !== undefined, {
    path: ['timeout_seconds'],
    message: 'is needed: it is what the timer waits for',
  });

/** Schemas of `config` by node type. */
export const NODE_CONFIGS = {
  llm: llmConfig,
  tool: toolConfig,
  router: z.strictObject({}),
  human: humanConfig,
} as const;

export type LlmConfig = z.output<typeof llmConfig>;
export type ToolConfig = z.output<typeof toolConfig>;
export type HumanConfig = z.output<typeof humanConfig>;
