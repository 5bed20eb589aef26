/** Events of nodes: one is entered, and completed. */
import { z } from 'zod';
import { NODE_TYPES } from '../graph/definition.ts';
import { NODE_OUTCOMES } from '../graph/position.ts';
import { count, defineEvent, uuid } from './event.ts';

export const GRAPH_EVENTS = {
  'node.entered': defineEvent(1, {
    node: z.string(),
    type: z.enum(NODE_TYPES),
    /** Its number among the visits of the node in this turn. */
    visit: z.int().min(1),
    /** The nodes whose ends have led here; none at the entry point. */
    from: z.array(z.string()),
    /** An llm node's prompt, where it was filled in. */
    prompt: z.string().optional(),
    /** Of a node with a call: the message with its result. */
    ordinal: count.optional(),
    /** Messages of the conversation, with those that the node is given. */
    length: count,
  }),
  'node.completed': defineEvent(1, {
    node: z.string(),
    visit: z.int().min(1),
    status: z.enum(NODE_OUTCOMES),
    /** The message that has its output, and the call whose result that is. */
    ordinal: count.optional(),
    tool_call_id: uuid.optional(),
    /** The nodes that its edges lead to. */
    next: z.array(z.string()),
    /** The turn ends here, with this message as its answer. */
    ends: z.literal(true).optional(),
    answer: count.optional(),
    length: count,
    /** Channels that it has set. */
    custom: z.record(z.string(), z.unknown()).optional(),
  }),
} as const;
