/** Costs of model calls, by the providers' list prices. */
import { NO_TOKENS, promptTokens, type DearerTier, type ModelResponse, type TokenUsage } from '../core/model.ts';
import type { Price, Rates } from './provider.ts';
import { PROVIDERS } from './providers.ts';

const BY_NAME = new Map(
  PROVIDERS.flatMap(({ name, prices }) =>
    Object.entries(prices).map(([model, price]) => [`${name}/${model}`, price] as const),
  ),
);

/** What a call has used, and in which dearer tiers. */
interface Used extends TokenUsage {
  tiers?: readonly DearerTier[] | undefined;
}

/**
 * A call's cost in USD, as a decimal with up to 10 places; null if the price is unknown (never a guess, never 0).
 * Exact: a dollar per million tokens is a million pico-dollars per token, and those are added as integers.
 */
export function costOf(provider: string, model: string, usage: Used): string | null {
  if (provider === 'offline') return '0';
  const rates = ratesFor(provider, model, usage);
  if (!rates) return null;
  const pico =
    part(usage.input, rates.input) +
    part(usage.output, rates.output) +
    part(usage.cache_read, rates.cacheRead) +
    part(usage.cache_write_5m, rates.write5m) +
    part(usage.cache_write_1h, rates.write1h);
  return decimalOf(pico);
}

/** The most that a call to be made may cost, as `costOf` gives it: a prompt that providers keep for later costs more than one that they do not. */
export function mostCostOf(
  provider: string,
  model: string,
  { input = 0, output = 0 }: { input?: number; output?: number },
): string | null {
  const rates = ratesFor(provider, model, { ...NO_TOKENS, input, output });
  const kind = rates && rates.write5m > rates.input ? 'cache_write_5m' : 'input';
  return costOf(provider, model, { ...NO_TOKENS, output, [kind]: input });
}

/** A call's cost in USD by kind of token, exact; undefined if the price is unknown, or for the offline planner. */
export function costsOf(
  provider: string,
  model: string,
  usage: Used,
): { input: string; output: string; cache_read: string; cache_write: string } | undefined {
  const rates = ratesFor(provider, model, usage);
  if (!rates || provider === 'offline') return undefined;
  return {
    input: decimalOf(part(usage.input, rates.input)),
    output: decimalOf(part(usage.output, rates.output)),
    cache_read: decimalOf(part(usage.cache_read, rates.cacheRead)),
    cache_write: decimalOf(part(usage.cache_write_5m, rates.write5m) + part(usage.cache_write_1h, rates.write1h)),
  };
}

/** What an answer costs, as its event has it. */
export interface AnswerPrice {
  cost: string | null;
  costs?: ReturnType<typeof costsOf>;
  longContext?: boolean;
}

/**
 * An answer's price: of the model that was asked, or of the one that the server says has answered if that is dearer. By the
 * server's word alone, a name without a price or with a lower one would void the limits of a budget.
 */
export function priceOfAnswer(
  asked: string,
  { provider, model: answered, tiers, ...answer }: Pick<ModelResponse, 'provider' | 'model' | 'usage' | 'tiers'>,
): AnswerPrice {
  const usage = { ...answer.usage, tiers };
  const [costAsked, costAnswered] = [costOf(provider, asked, usage), costOf(provider, answered, usage)];
  const isAskedDearer = costAsked !== null && Number(costAsked) > Number(costAnswered ?? -1);
  const model = isAskedDearer ? asked : answered;
  return {
    cost: isAskedDearer ? costAsked : costAnswered,
    costs: costsOf(provider, model, usage),
    longContext: isLongContext(provider, model, usage),
  };
}

/** Whether the prompt is long enough for the provider's rates for long ones. */
export function isLongContext(provider: string, model: string, usage: TokenUsage): boolean {
  const long = priceOf(provider, model)?.long;
  return long !== undefined && promptOf(usage) > long.overTokens;
}

/** `claude-haiku-4-5-20251001`, `gpt-4.1-2025-04-14` and `…-latest` have the price and limits of the undated name. */
export function undated(model: string): string {
  return model.replace(/-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$/, '');
}

/** Whether the providers' price lists have exactly this name. */
export function hasListPrice(provider: string, model: string): boolean {
  return BY_NAME.has(`${provider}/${model}`);
}

function priceOf(provider: string, model: string): Price | undefined {
  return BY_NAME.get(`${provider}/${undated(model)}`);
}

/** Without compaction by the provider, which is a separate request with its own prompt. */
const promptOf = (usage: TokenUsage): number => promptTokens(usage) - (usage.compaction ?? 0);

function ratesFor(provider: string, model: string, usage: Used): Rates | null {
  const price = priceOf(provider, model);
  const rates = price?.long && promptOf(usage) > price.long.overTokens ? price.long.rates : price;
  const multiples = (usage.tiers ?? []).map((tier) => tiersAt(provider)?.[tier]?.[undated(model)]);
  if (!rates || multiples.includes(undefined)) return null;
  return multiples.reduce<Rates>((dearer, multiple = 1) => timesOf(dearer, multiple), rates);
}

const tiersAt = (provider: string) => PROVIDERS.find(({ name }) => name === provider)?.tiers;

function timesOf({ input, output, cacheRead, write5m, write1h }: Rates, multiple: number): Rates {
  return {
    input: input * multiple,
    output: output * multiple,
    cacheRead: cacheRead * multiple,
    write5m: write5m * multiple,
    write1h: write1h * multiple,
  };
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
