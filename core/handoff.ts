/** What one agent hands to another: its form, its checksum, and who may be handed what (002, "Handoff Context Schema"). */
import { z } from 'zod';
import { digestOf } from './ids.ts';

const text = z.string().max(200_000);
const texts = z.array(text).max(1000);
const object = z.record(z.string(), z.unknown());
/** Documents have objects here; a sentence says as much. */
const facts = z.array(z.union([object, text])).max(1000);

export const URGENCIES = ['low', 'medium', 'high', 'critical'] as const;
export type Urgency = (typeof URGENCIES)[number];

/** As it is sent, stored and shown. Every part may be missing. */
export const handoffContext = z
  .strictObject({
    task_context: z
      .strictObject({
        original_query: text.optional(),
        task_description: text.optional(),
        constraints: object.optional(),
      })
      .optional(),
    execution_context: z
      .strictObject({
        steps_completed: facts.optional(),
        current_progress: text.optional(),
        partial_results: object.optional(),
        decisions_made: facts.optional(),
      })
      .optional(),
    reasoning_context: z
      .strictObject({
        key_findings: texts.optional(),
        assumptions: texts.optional(),
        uncertainties: texts.optional(),
        recommendations: texts.optional(),
      })
      .optional(),
    memory_references: z
      .strictObject({
        shared_fragments: z.array(z.uuid()).max(200).optional(),
        relevant_embeddings: z.array(z.array(z.number()).max(4000)).max(100).optional(),
      })
      .optional(),
    handoff_metadata: z
      .strictObject({
        reason: text.optional(),
        urgency: z.enum(URGENCIES).optional(),
        expected_action: text.optional(),
      })
      .optional(),
    schema_version: z.string().max(20).optional(),
  })
  .meta({ id: 'HandoffContext' });
export type HandoffContext = z.output<typeof handoffContext>;

export const HANDOFF_STATUSES = ['initiated', 'accepted', 'completed', 'rejected', 'failed', 'cancelled'] as const;
export type HandoffStatus = (typeof HANDOFF_STATUSES)[number];

/** The version of the form above. */
export const HANDOFF_SCHEMA = '1.0';

/** Whether a context of this version is of the form above. */
export function isKnownSchema(version: string): boolean {
  return /^v?1(\.0){0,2}$/.test(version);
}

/** SHA-256 over the canonical JSON (RFC 8785) of a context, in hex. */
export function checksumOf(context: HandoffContext): string {
  return digestOf(context);
}

/** One link of the chain that a handoff would become part of. */
export interface HandoffLink {
  source_agent_id: string;
  target_agent_id: string;
  checksum: string;
}

/** Why a chain may not go on like this; undefined if it may. */
export function loopFault(chain: readonly HandoffLink[], next: HandoffLink, mostLinks: number): string | undefined {
  if (next.source_agent_id === next.target_agent_id) return 'An agent hands over to another one, not to itself.';
  if (chain.length >= mostLinks)
    return `The work was handed over ${chain.length} times already; somebody has to do it.`;
  const isSame = (link: HandoffLink) =>
    link.target_agent_id === next.target_agent_id && link.checksum === next.checksum;
  return chain.some(isSame) ? 'This agent was handed the same context before.' : undefined;
}
