import { LIMITS } from '../core/limits.ts';
import { undated } from './prices.ts';
import { PROVIDERS } from './providers.ts';

/** Windows in tokens, by `provider/model`, or by `provider` for all its models. */
export type ContextWindows = Readonly<Record<string, number>>;

/**
 * A model's context window in tokens, prompt and answer together: the installation's setting, else the provider's
 * value, else a default.
 */
export function contextWindowOf(asked: { provider: string; model: string }, own: ContextWindows = {}): number {
  const { provider, model } = asked;
  const windows = PROVIDERS.find(({ name }) => name === provider)?.contextWindows ?? {};
  const name = undated(model);
  const known = Object.hasOwn(windows, name) ? windows[name] : undefined;
  return own[`${provider}/${model}`] ?? own[provider] ?? known ?? LIMITS.contextTokens;
}
