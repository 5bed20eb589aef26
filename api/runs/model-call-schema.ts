/** A model call in a turn's view. */
import { z } from 'zod';
import { shownMoney } from '../../core/money.ts';
import type { ModelCallRow } from '../../modules/runs/read-runs.ts';

const when = z.iso.datetime();

export const modelCall = z
  .object({
    step: z.int(),
    provider: z.string(),
    model: z.string(),
    stop_reason: z.string(),
    usage: z.record(z.string(), z.number()),
    usage_estimated: z.boolean().describe('The provider has not reported all of it.'),
    recorded: z.boolean(),
    tokens_in: z.int(),
    tokens_out: z.int(),
    cost_usd: z.number().nullable(),
    latency_ms: z.int(),
    content: z.array(z.unknown()),
    created_at: when,
  })
  .meta({ id: 'ModelCall' });

export function presentModelCall(row: ModelCallRow): z.input<typeof modelCall> {
  const { estimated = false, compaction, ...tokens } = row.usage;
  return {
    step: row.step,
    provider: row.provider,
    model: row.model,
    stop_reason: row.stop_reason,
    usage: { ...tokens, ...(compaction !== undefined && { compaction }) },
    usage_estimated: estimated,
    recorded: row.recorded,
    tokens_in: row.tokens_in,
    tokens_out: row.tokens_out,
    cost_usd: shownMoney(row.cost_usd),
    latency_ms: row.latency_ms,
    content: row.content ?? [],
    created_at: row.created_at.toISOString(),
  };
}
