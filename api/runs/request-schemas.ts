/** Bodies that clients send to runs and turns. */
import { z } from 'zod';
import { requestedConfig } from '../../core/run-config.ts';
import { userMetadata } from '../../core/user-metadata.ts';
import { newThreadParam } from '../kit/external-ids.ts';
import { attachment, MOST_ATTACHMENTS } from './attachment-schema.ts';

const outputSchema = z
  .record(z.string(), z.unknown())
  .describe("A JSON Schema that the final answer has to fit, in place of the agent's: `output.data` is its value.");

const turnInput = z
  .strictObject({
    message: z.string().min(1),
    attachments: z.array(attachment).max(MOST_ATTACHMENTS).nullish(),
    output_schema: outputSchema.nullish(),
  })
  .meta({ id: 'TurnInput' });

export const toolResults = z
  .array(
    z.strictObject({
      tool_use_id: z.string().min(1).max(200),
      content: z.unknown(),
      is_error: z.boolean().optional(),
    }),
  )
  .min(1)
  .max(200)
  .refine((all) => new Set(all.map(({ tool_use_id }) => tool_use_id)).size === all.length, 'has a tool_use_id twice');

export const createRunBody = z
  .strictObject({
    thread_id: newThreadParam.nullish(),
    input: turnInput.nullish(),
    output_schema: outputSchema.optional().describe('The same as in `input`.'),
    config: requestedConfig.optional(),
    metadata: userMetadata.optional(),
  })
  .superRefine(({ input, output_schema: schema }, context) => {
    const say = (message: string) => context.addIssue({ code: 'custom', path: ['output_schema'], message });
    if (schema && !input) say('goes with an input');
    if (schema && input?.output_schema) say('is there twice');
  });

/** Payload of a `tool_results` signal: the list, with or without its name around it. */
export const toolResultsPayload = z.union([
  toolResults,
  z.strictObject({ tool_results: toolResults }).transform(({ tool_results }) => tool_results),
]);

/** A message, or results of client tools for the open turn. */
export const postTurnBody = z
  .strictObject({
    input: turnInput
      .extend({
        message: z.string().nullish().describe('Of 1 character at least; empty, null or absent beside `tool_results`.'),
        tool_results: toolResults.nullish(),
      })
      .optional(),
    tool_results: toolResults.optional().describe('The same as in `input`.'),
    output_schema: outputSchema.optional().describe('The same as in `input`.'),
    metadata: userMetadata.optional(),
  })
  .superRefine(({ input, tool_results, output_schema: schema, metadata }, context) => {
    const results = tool_results ?? input?.tool_results;
    const say = (path: string[], message: string) => context.addIssue({ code: 'custom', path, message });
    if (!results && !input) say(['input'], 'is required, or tool_results');
    else if (!results && input?.message === '') say(['input', 'message'], 'must have at least 1 character');
    else if (!results && !input?.message) say(['input', 'message'], 'is required, or tool_results');
    if (results && input?.message) say(['input', 'message'], 'cannot go with tool_results: the turn has its message');
    if (results && input?.attachments) say(['input', 'attachments'], 'cannot go with tool_results');
    if (tool_results && input?.tool_results) say(['tool_results'], 'is there twice');
    if (schema && input?.output_schema) say(['output_schema'], 'is there twice');
    if (results && metadata) say(['metadata'], 'cannot go with tool_results: the turn has begun');
    if (results && schema) say(['output_schema'], 'cannot go with tool_results: the turn has begun');
    if (results && input?.output_schema)
      say(['input', 'output_schema'], 'cannot go with tool_results: the turn has begun');
  });
