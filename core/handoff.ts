/** Handoffs between agents: format, checksum, and which are allowed (002, "Handoff Context Schema"). */
import { z } from 'zod';
import { digestOf } from './ids.ts';

const text = z.string().max(200_000);
const texts = z.array(text).max(1000);
const object = z.record(z.string(), z.unknown());
/** The documents specify objects; plain sentences are accepted, too. */
const facts = z.array(z.union([object, text])).max(1000);

export const URGENCIES = ['low', 'medium', 'high', 'critical'] as const;
export type Urgency = (typeof URGENCIES)[number];

/** As sent, stored and shown. Every part is optional. */
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

/** The version of this format. */
export const HANDOFF_SCHEMA = '1.0';

/** Whether this version of the format is known. */
export function isKnownSchema(version: string): boolean {
  return /^v?1(\.0){0,2}$/.test(version);
}

/** SHA-256 of a context's canonical JSON (RFC 8785), in hex. */
export function checksumOf(context: HandoffContext): string {
  return digestOf(context);
}

/** A handoff in a chain of them. */
export interface HandoffLink {
  source_agent_id: string;
  target_agent_id: string;
  checksum: string;
}

/** Why `next` may not extend the chain; undefined if it may. */
export function loopFault(chain: readonly HandoffLink[], next: HandoffLink, mostLinks: number): string | undefined {
  if (next.source_agent_id === next.target_agent_id) return 'An agent hands over to another one, not to itself.';
  if (chain.length >= mostLinks)
    return `The work was handed over ${chain.length} times already; somebody has to do it.`;
  const isSame = (link: HandoffLink) =>
    link.target_agent_id === next.target_agent_id && link.checksum === next.checksum;
  return chain.some(isSame) ? 'This agent was handed the same context before.' : undefined;
}
