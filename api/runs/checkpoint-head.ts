/** A checkpoint without its state, for lists. */
import { z } from 'zod';
import type { CheckpointHead, Marked } from '../../modules/runs/read-runs.ts';

export const checkpointHead = z.object({
  id: z.uuid(),
  checkpoint_id: z.uuid(),
  sequence_num: z.int(),
  node: z.string(),
  trigger: z.string(),
  parent_id: z.uuid().nullable(),
  created_at: z.iso.datetime(),
  corrupt: z.literal(true).optional().describe('It does not fit its hash, and nothing goes on from it.'),
});

export function presentHead(row: Marked<CheckpointHead>): z.input<typeof checkpointHead> {
  return {
    id: row.id,
    checkpoint_id: row.id,
    sequence_num: row.seq,
    node: row.node,
    trigger: row.trigger,
    parent_id: row.parent_id,
    created_at: row.created_at.toISOString(),
    ...(row.isCorrupt && { corrupt: true as const }),
  };
}
