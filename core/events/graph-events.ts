/** Events of graph nodes: entered and completed. */
import { z } from 'zod';
import { NODE_TYPES } from '../graph/definition.ts';
import { NODE_OUTCOMES } from '../graph/position.ts';
import { count, defineEvent, uuid } from './event.ts';

export const GRAPH_EVENTS = {
  'node.entered': defineEvent(1, {
    node: z.string(),
    type: z.enum(NODE_TYPES),
    /** Which visit of this node it is in the turn, from 1. */
    visit: z.int().min(1),
    /** The nodes whose completion led here; empty at the entry point. */
    from: z.array(z.string()),
    /** An llm node's prompt, if it has expressions: filled in. */
    prompt: z.string().optional(),
    /** For nodes that make a call: the message with its result. */
    ordinal: count.optional(),
    /** Length of the conversation, including the messages added for the node. */
    length: count,
  }),
  'node.completed': defineEvent(1, {
    node: z.string(),
    visit: z.int().min(1),
    status: z.enum(NODE_OUTCOMES),
    /** The message with the node's output, and the call whose result it is. */
    ordinal: count.optional(),
    tool_call_id: uuid.optional(),
    /** The nodes its edges lead to. */
    next: z.array(z.string()),
    /** The turn ends here, and this message is its answer. */
    ends: z.literal(true).optional(),
    answer: count.optional(),
    length: count,
    /** Channels set by the node. */
    custom: z.record(z.string(), z.unknown()).optional(),
  }),
} as const;
