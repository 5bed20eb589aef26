import { LIMITS } from '../core/limits.ts';
import { undated } from './prices.ts';
import { PROVIDERS } from './providers.ts';

/** Tokens by `provider/model`, or by `provider` for each of its models. */
export type ContextWindows = Readonly<Record<string, number>>;

/** Tokens that a model takes, prompt and answer together: as the installation says, else as its provider does, else a usual number. */
export function contextWindowOf(asked: { provider: string; model: string }, own: ContextWindows = {}): number {
  const { provider, model } = asked;
  const windows = PROVIDERS.find(({ name }) => name === provider)?.contextWindows ?? {};
  const name = undated(model);
  const known = Object.hasOwn(windows, name) ? windows[name] : undefined;
  return own[`${provider}/${model}`] ?? own[provider] ?? known ?? LIMITS.contextTokens;
}
