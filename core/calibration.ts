/** What providers report of their prompts corrects the estimates that conversations are fitted by. Pure. */
import { z } from 'zod';
import { promptTokens, type TokenUsage } from './model.ts';

/**
 * By `provider/model`: tokens that it counts for 100 estimated ones, 110 or more; where estimates are high enough there is
 * no entry. It only rises, in tens: what was left out of a conversation stays out, and what is sent begins elsewhere as
 * seldom as can be.
 */
export const calibration = z.record(z.string(), z.int());
export type Calibration = z.output<typeof calibration>;

/** Prompts smaller than this say too little. */
const LEAST_TOKENS = 500;
/** A count beyond this is no count of the same text. */
const MOST_PERCENT = 300;

/** The calibration after an answer to a prompt that was estimated. */
export function calibrate(
  known: Calibration | undefined,
  { model, estimated, usage }: { model: string; estimated: number; usage: TokenUsage },
): Calibration | undefined {
  const actual = promptTokens(usage) - (usage.compaction ?? 0);
  if (usage.estimated || estimated < LEAST_TOKENS) return known;
  const percent = Math.ceil((actual * 10) / estimated) * 10;
  return percent <= percentOf(known, model) || percent > MOST_PERCENT ? known : { ...known, [model]: percent };
}

/** Tokens that a model counts for 100 estimated ones. */
export function percentOf(known: Calibration | undefined, model: string): number {
  return known?.[model] ?? 100;
}
