/**
 * List prices in USD per million tokens, standard tier, as of 12 November 2026. Sources: the providers' price lists,
 * platform.claude.com/docs/en/about-claude/pricing and developers.openai.com/api/docs/pricing.
 */
import type { TokenUsage } from '../core/model.ts';

interface Rates {
  input: number;
  output: number;
  cacheRead: number;
  write5m: number;
  write1h: number;
}

interface Price extends Rates {
  /** Requests whose whole prompt is longer cost `rates`; null where those are not known. */
  long?: { overTokens: number; rates: Rates | null };
}

/** Cache writes cost 1.25 times the input for 5 minutes, twice the input for an hour. */
const claude = (input: number, output: number, cacheRead: number): Price => ({
  input,
  output,
  cacheRead,
  write5m: input * 1.25,
  write1h: input * 2,
});

/** Writing to the cache costs like any input, reading has its own price. */
const gpt = (input: number, output: number, cacheRead: number): Price => ({
  input,
  output,
  cacheRead,
  write5m: input,
  write1h: input,
});

const GPT_LONG_TOKENS = 272_000;

/** Above 272,000 tokens a prompt costs twice, its answer one and a half times as much. */
const gptLong = (input: number, output: number, cacheRead: number): Price => ({
  ...gpt(input, output, cacheRead),
  long: { overTokens: GPT_LONG_TOKENS, rates: gpt(input * 2, output * 1.5, cacheRead * 2) },
});

/** From GPT-6 on cache writes cost 1.25 times the input; what a long prompt costs is not in the table. */
const gpt6 = (input: number, output: number, cacheRead: number): Price => ({
  ...claude(input, output, cacheRead),
  long: { overTokens: GPT_LONG_TOKENS, rates: null },
});

const PRICES: Record<string, Record<string, Price>> = {
  anthropic: {
    'claude-fable-5-1': claude(10, 50, 0.25),
    'claude-fable-5': claude(10, 50, 1),
    'claude-mythos-5-1': claude(10, 50, 0.25),
    'claude-mythos-5': claude(10, 50, 1),
    'claude-opus-5-5': claude(4, 20, 0.2),
    'claude-opus-5': claude(5, 25, 0.5),
    'claude-opus-4-8': claude(5, 25, 0.5),
    'claude-opus-4-7': claude(5, 25, 0.5),
    'claude-opus-4-6': claude(5, 25, 0.5),
    'claude-opus-4-5': claude(5, 25, 0.5),
    'claude-opus-4-1': claude(15, 75, 1.5),
    'claude-opus-4-0': claude(15, 75, 1.5),
    'claude-opus-4': claude(15, 75, 1.5),
    'claude-sonnet-5-5': claude(2, 10, 0.1),
    'claude-sonnet-5': claude(2, 10, 0.2),
    'claude-sonnet-4-6': claude(3, 15, 0.3),
    'claude-sonnet-4-5': claude(3, 15, 0.3),
    'claude-sonnet-4-0': claude(3, 15, 0.3),
    'claude-sonnet-4': claude(3, 15, 0.3),
    'claude-haiku-5-5': {
      ...claude(0.1, 0.5, 0.01),
      long: { overTokens: 100_000, rates: claude(0.5, 2.5, 0.05) },
    },
    'claude-haiku-4-5': claude(1, 5, 0.1),
    'claude-3-5-haiku': claude(0.8, 4, 0.08),
  },
  openai: {
    'gpt-6.1-terra': gpt6(1, 5, 0.05),
    'gpt-6-astra': gpt6(10, 50, 1),
    'gpt-6-sol': gpt6(2, 10, 0.2),
    'gpt-6-luna': gpt6(0.1, 0.5, 0.01),
    'gpt-5.6-sol': gptLong(5, 30, 0.5),
    'gpt-5.6-terra': gptLong(2, 12, 0.2),
    'gpt-5.6-luna': gptLong(0.2, 1.2, 0.02),
    'gpt-5.4': gptLong(2.5, 15, 0.25),
    'gpt-5.4-mini': gpt(0.75, 4.5, 0.075),
    'gpt-5.4-nano': gpt(0.2, 1.25, 0.02),
    'gpt-5.2': gpt(1.75, 14, 0.175),
    'gpt-5.1': gpt(1.25, 10, 0.125),
    'gpt-5': gpt(1.25, 10, 0.125),
    'gpt-5-mini': gpt(0.25, 2, 0.025),
    'gpt-5-nano': gpt(0.05, 0.4, 0.005),
    'gpt-4.1': gpt(2, 8, 0.5),
    'gpt-4.1-mini': gpt(0.4, 1.6, 0.1),
    'gpt-4.1-nano': gpt(0.1, 0.4, 0.025),
    'gpt-4o': gpt(2.5, 10, 1.25),
    'gpt-4o-mini': gpt(0.15, 0.6, 0.075),
    o3: gpt(2, 8, 0.5),
    'o4-mini': gpt(1.1, 4.4, 0.275),
    'o3-mini': gpt(1.1, 4.4, 0.55),
    o1: gpt(15, 60, 7.5),
  },
};

const BY_NAME = new Map(
  Object.entries(PRICES).flatMap(([provider, models]) =>
    Object.entries(models).map(([model, price]) => [`${provider}/${model}`, price] as const),
  ),
);

/**
 * What a call cost in USD, as a decimal with up to 10 places; null where the price is unknown (never a guess, never 0).
 * Exact: one dollar per million tokens is a million pico-dollars per token, and those are added as integers.
 */
export function costOf(provider: string, model: string, usage: TokenUsage): string | null {
  if (provider === 'offline') return '0';
  const rates = ratesFor(BY_NAME.get(`${provider}/${undated(model)}`), usage);
  if (!rates) return null;
  const pico =
    part(usage.input, rates.input) +
    part(usage.output, rates.output) +
    part(usage.cache_read, rates.cacheRead) +
    part(usage.cache_write_5m, rates.write5m) +
    part(usage.cache_write_1h, rates.write1h);
  return decimalOf(pico);
}

/** `claude-haiku-4-5-20251001`, `gpt-4.1-2025-04-14` and `…-latest` cost what the undated name costs. */
function undated(model: string): string {
  return model.replace(/-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$/, '');
}

function ratesFor(price: Price | undefined, usage: TokenUsage): Rates | null {
  if (!price) return null;
  const prompt = usage.input + usage.cache_read + usage.cache_write_5m + usage.cache_write_1h;
  return price.long && prompt > price.long.overTokens ? price.long.rates : price;
}

function part(tokens: number, dollarsPerMillion: number): bigint {
  return BigInt(Math.max(0, Math.round(tokens))) * BigInt(Math.round(dollarsPerMillion * 1_000_000));
}

function decimalOf(pico: bigint): string {
  const units = (pico + 50n) / 100n;
  const whole = units / 10_000_000_000n;
  const rest = (units % 10_000_000_000n).toString().padStart(10, '0').replace(/0+$/, '');
  return rest === '' ? whole.toString() : `${whole}.${rest}`;
}
