/** Corrects token estimates by the prompt sizes that providers report. Conversations are fitted by them. Pure. */
import { z } from 'zod';
import { promptTokens, type TokenUsage } from './model.ts';

/**
 * By `provider/model`: its tokens per 100 estimated ones, 110 or more; no entry where estimates are high enough. Values only
 * rise, in tens: what was left out of a conversation stays out, and the start of the conversation that is sent moves as seldom
 * as possible.
 */
export const calibration = z.record(z.string(), z.int());
export type Calibration = z.output<typeof calibration>;

/** Smaller prompts are no basis. */
const LEAST_TOKENS = 500;
/** A higher count cannot be one of the same text. */
const MOST_PERCENT = 300;

/** Updates the calibration by the token usage that was reported for an estimated prompt. */
export function calibrate(
  known: Calibration | undefined,
  { model, estimated, usage }: { model: string; estimated: number; usage: TokenUsage },
): Calibration | undefined {
  const actual = promptTokens(usage) - (usage.compaction ?? 0);
  if (usage.estimated || estimated < LEAST_TOKENS) return known;
  const percent = Math.ceil((actual * 10) / estimated) * 10;
  return percent <= percentOf(known, model) || percent > MOST_PERCENT ? known : { ...known, [model]: percent };
}

/**
 * What follows from a prompt that was refused for its length: it has more tokens than were estimated, `counted` at least. It
 * counts for more each time, as the provider may not say how many it has. Undefined for prompts of so few tokens that something
 * else was too long, such as the bytes of files.
 */
export function correctionAfterRefusal(
  known: Calibration | undefined,
  { model, estimated, counted }: { model: string; estimated: number; counted: number },
): Calibration | undefined {
  if (estimated < LEAST_TOKENS) return undefined;
  const percent = Math.max(percentOf(known, model) + 10, Math.ceil((counted * 10) / estimated) * 10);
  return percent > MOST_PERCENT ? undefined : { [model]: percent };
}

/** The calibration with corrections; the higher value of each model. */
export function corrected(known: Calibration | undefined, more: Calibration | undefined): Calibration | undefined {
  const higher = Object.entries(more ?? {}).filter(([model, percent]) => percent > percentOf(known, model));
  return higher.length > 0 ? { ...known, ...Object.fromEntries(higher) } : known;
}

/** A model's tokens per 100 estimated ones. */
export function percentOf(known: Calibration | undefined, model: string): number {
  return known?.[model] ?? 100;
}
