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

/** A prompt that was refused for its length, in tokens. */
interface Refused {
  model: string;
  estimated: number;
  counted: number | undefined;
  atLeast: number;
}

/**
 * What follows from a prompt that was refused for its length: it has more tokens than were estimated, as many as the provider has
 * `counted`. If it does not say, `atLeast` so many, and more each time. Undefined for prompts of so few tokens that something else
 * was too long, such as the bytes of files, and for one that was not estimated too low: its answer was to be too long.
 */
export function correctionAfterRefusal(
  known: Calibration | undefined,
  { model, estimated, counted, atLeast }: Refused,
): Calibration | undefined {
  if (estimated < LEAST_TOKENS) return undefined;
  const before = percentOf(known, model);
  const percent = Math.ceil(((counted ?? atLeast) * 10) / estimated) * 10;
  const next = counted === undefined ? Math.max(before + 10, percent) : percent;
  return next <= before || next > MOST_PERCENT ? undefined : { [model]: next };
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
