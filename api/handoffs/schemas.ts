/** Handoffs in the API's form. */
import { z } from 'zod';
import type { Caller } from '../../core/caller.ts';
import { HANDOFF_STATUSES, handoffContext, URGENCIES } from '../../core/handoff.ts';
import { hasScope } from '../../core/scopes.ts';
import type { HandoffRow, ShownHandoff } from '../../modules/workflows/read-handoffs.ts';
import { agentIdParam } from '../kit/external-ids.ts';
import { idParam } from '../kit/validate.ts';

const text = z.string().min(1).max(20_000);

export const createHandoffBody = z.strictObject({
  task_id: idParam,
  source_agent_id: agentIdParam,
  target_agent_id: agentIdParam,
  context: handoffContext,
  reason: text.optional().describe('Else that of `context.handoff_metadata`.'),
  urgency: z.enum(URGENCIES).optional().describe('Else that of `context.handoff_metadata`, else `medium`.'),
  expected_action: text.optional(),
  schema_version: z.string().max(20).optional().describe('1.0'),
  checksum: z.string().max(100).optional().describe('SHA-256 over the canonical JSON (RFC 8785) of `context`, in hex.'),
  target_tokens: z
    .int()
    .min(1)
    .max(10_000_000)
    .optional()
    .describe("Else the target's `constraints.max_context_tokens`."),
});

const when = z.iso.datetime();
const link = z.object({
  handoff_id: z.uuid(),
  source_agent_id: z.uuid(),
  target_agent_id: z.uuid(),
  status: z.enum(HANDOFF_STATUSES),
  initiated_at: when,
});

const listed = z
  .object({
    id: z.uuid(),
    handoff_id: z.uuid(),
    task_id: z.uuid().nullable(),
    source_agent_id: z.uuid(),
    target_agent_id: z.uuid(),
    source_run_id: z.uuid().nullable(),
    target_run_id: z.uuid().nullable().describe('The run in which the target goes on.'),
    returned_run_id: z.uuid().nullable().describe('The run in which a rejected one has come back to the source.'),
    previous_handoff_id: z.uuid().nullable(),
    status: z.enum(HANDOFF_STATUSES),
    reason: z.string(),
    urgency: z.enum(URGENCIES),
    expected_action: z.string().nullable(),
    rejection: z.object({ code: z.string(), message: z.string() }).nullable(),
    schema_version: z.string(),
    checksum: z.string(),
    target_tokens: z.int(),
    context_tokens: z.int().describe('Of all that could be handed over, estimated.'),
    summary_tokens: z.int().describe('Of what the target is given.'),
    estimated_pickup: when.nullable(),
    initiated_at: when,
    accepted_at: when.nullable(),
    completed_at: when.nullable(),
  })
  .meta({ id: 'ListedHandoff' });
export { listed as listedHandoff };

export const handoff = listed
  .extend({
    context: z.record(z.string(), z.unknown()).describe('As it was sent.'),
    summary: z.record(z.string(), z.unknown()).describe('What the target is given of it.'),
    chain: z.array(link).describe('The handoffs that have led here, this one last.'),
  })
  .meta({ id: 'Handoff' });

/** A handoff without its content. */
export function presentListed(row: HandoffRow): z.input<typeof listed> {
  return {
    id: row.id,
    handoff_id: row.id,
    task_id: row.task_id,
    source_agent_id: row.source_agent_id,
    target_agent_id: row.target_agent_id,
    source_run_id: row.source_run_id,
    target_run_id: row.target_run_id,
    returned_run_id: row.returned_run_id,
    previous_handoff_id: row.previous_id,
    status: row.status,
    reason: row.reason,
    urgency: row.urgency,
    expected_action: row.expected_action,
    rejection: row.rejection,
    schema_version: row.schema_version,
    checksum: row.checksum,
    target_tokens: row.target_tokens,
    context_tokens: row.full_tokens,
    summary_tokens: row.summary_tokens,
    estimated_pickup: row.estimated_pickup?.toISOString() ?? null,
    initiated_at: row.created_at.toISOString(),
    accepted_at: row.accepted_at?.toISOString() ?? null,
    completed_at: row.completed_at?.toISOString() ?? null,
  };
}

/** For its creator: without the conversation's summary, if the caller may not read that. */
export function presentHandoffTo({ scopes }: Caller, shown: z.input<typeof handoff>): z.input<typeof handoff> {
  return hasScope(scopes, 'runs:read') ? shown : { ...shown, summary: {} };
}

/** A handoff with its content. */
export function presentHandoff({ row, chain }: ShownHandoff): z.input<typeof handoff> {
  return {
    ...presentListed(row),
    context: { ...row.context },
    summary: row.summary,
    chain: chain.map(({ id, source_agent_id, target_agent_id, status, created_at }) => ({
      handoff_id: id,
      source_agent_id,
      target_agent_id,
      status,
      initiated_at: created_at.toISOString(),
    })),
  };
}
