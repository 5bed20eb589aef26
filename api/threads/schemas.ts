/** Threads and conversations in the API's form. */
import { z } from 'zod';
import { RUN_STATUSES } from '../../core/events.ts';
import { cleanJson, textOf } from '../../core/content.ts';
import { externalId, userMetadata } from '../../core/user-metadata.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Conversation } from '../../modules/conversations/read-conversations.ts';
import type { ThreadView } from '../../modules/conversations/threads.ts';

/** A client's own data on a thread, conversation or session; a new value replaces the old. */
export const extras = z
  .record(z.string(), z.unknown())
  .transform(cleanJson)
  .refine((given) => Buffer.byteLength(JSON.stringify(given)) <= LIMITS.extrasBytes, {
    message: `is longer than ${LIMITS.extrasBytes} bytes as JSON`,
  })
  .describe('Whatever the client wants to keep with it; replaces what was there.');

export const thread = z
  .object({
    id: z.uuid(),
    thread_id: z.uuid(),
    agent_id: z.uuid(),
    title: z.string().nullable().describe('Made after the first turn, unless a client gives one.'),
    extras: z.record(z.string(), z.unknown()),
    metadata: userMetadata,
    external_id: externalId.optional(),
    total_runs: z.number(),
    last_run_id: z.uuid().nullable(),
    last_run_at: z.iso.datetime().nullable(),
    last_run_status: z.enum(RUN_STATUSES).nullable(),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
    erasing: z.literal(true).optional().describe('It is being erased: content of its runs may be there still.'),
    erased_at: z.iso.datetime().optional().describe('Since when nothing of its content is left.'),
  })
  .meta({ id: 'Thread' });

export function presentThread(row: ThreadView): z.input<typeof thread> {
  return {
    id: row.id,
    thread_id: row.id,
    agent_id: row.agent_id,
    title: row.title,
    extras: row.extras,
    metadata: row.metadata,
    ...(row.external_id === null ? {} : { external_id: row.external_id }),
    total_runs: row.total_runs,
    last_run_id: row.head_run_id,
    last_run_at: row.last_run_at?.toISOString() ?? null,
    last_run_status: row.last_run_status,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    ...(row.is_erasing && { erasing: true as const }),
    ...(row.erased_at && !row.is_erasing && { erased_at: row.erased_at.toISOString() }),
  };
}

const cost = z.number().nullable().describe('USD; null where the price of a call is not known.');

const generatedFile = z.object({
  file_id: z.uuid(),
  filename: z.string(),
  storage_path: z.string().describe('Where its content is read.'),
  size: z.number(),
  mime_type: z.string(),
  step: z.number().nullable(),
  timestamp: z.iso.datetime(),
});

export const conversation = z
  .object({
    id: z.uuid(),
    conversation_id: z.uuid(),
    thread_id: z.uuid(),
    agent_id: z.uuid(),
    run_id: z.uuid(),
    turn_id: z.uuid(),
    sequence_number: z.number().describe('Its place in the conversation of its thread, from 1.'),
    status: z.string(),
    started_at: z.iso.datetime(),
    completed_at: z.iso.datetime().nullable(),
    user_message: z.string(),
    final_response: z.string().nullable(),
    messages: z
      .array(z.unknown())
      .describe(
        'As they were said: nothing left out, nothing summarised. One of role `user` in which Drover speaks ' +
          'has `origin: "drover"`.',
      ),
    stop_reason: z.string().nullable(),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
    total_steps: z.number(),
    usage: z.object({
      input_tokens: z.number(),
      output_tokens: z.number(),
      cache_creation_input_tokens: z.number(),
      cache_read_input_tokens: z.number(),
    }),
    cost: z.object({
      input_cost: cost,
      output_cost: cost,
      cache_write_cost: cost,
      cache_read_cost: cost,
      total_cost: cost,
      total_input_tokens: z.number(),
      total_output_tokens: z.number(),
      total_cache_creation_tokens: z.number(),
      total_cache_read_tokens: z.number(),
      model_id: z.string().nullable(),
      long_context_applied: z.boolean(),
      currency: z.literal('USD'),
    }),
    generated_files: z.array(generatedFile).describe('What results of tools have left, as long as it is kept.'),
    extras: z.record(z.string(), z.unknown()).describe('What clients keep with it.'),
    created_at: z.iso.datetime(),
  })
  .meta({ id: 'Conversation' });

export function presentConversation(from: Conversation): z.input<typeof conversation> {
  const { row, messages, files, usage, cost: paid } = from;
  const startedAt = row.created_at.toISOString();
  return {
    id: row.id,
    conversation_id: row.id,
    thread_id: row.thread_id,
    agent_id: row.agent_id,
    run_id: row.run_id,
    turn_id: row.id,
    sequence_number: row.sequence_number,
    status: row.status,
    started_at: startedAt,
    completed_at: row.completed_at?.toISOString() ?? null,
    user_message: row.input.message,
    final_response: row.output ? textOf(row.output) : (row.partial ?? null),
    messages,
    stop_reason: row.stop_reason,
    error: row.error,
    total_steps: row.steps,
    usage,
    cost: paid,
    generated_files: files.map((file) => ({
      file_id: file.file_id,
      filename: file.filename,
      storage_path: `/v1/files/${file.file_id}/content`,
      size: file.size,
      mime_type: file.mime_type,
      step: file.step,
      timestamp: file.stored_at.toISOString(),
    })),
    extras: row.extras,
    created_at: startedAt,
  };
}
