import { impossible } from '../core/errors.ts';
import { digestOf } from '../core/ids.ts';
import type { StreamModel } from '../core/model.ts';
import type { ModelRates } from '../db/model-gates.ts';
import { anthropicModel } from './anthropic.ts';
import { offlineModel } from './offline.ts';
import { openaiModel } from './openai.ts';

export interface ModelsConfig {
  anthropicApiKey?: string | undefined;
  anthropicBaseUrl?: string | undefined;
  openaiApiKey?: string | undefined;
  openaiBaseUrl?: string | undefined;
  /** `DROVER_MODEL`. */
  defaultModel?: string | undefined;
  /** `DROVER_MODEL_LIMITS`, by `provider/model` or `provider`. */
  modelLimits?: Readonly<Record<string, ModelRates>> | undefined;
}

export type ProviderName = 'anthropic' | 'openai' | 'offline';

export interface ResolvedModel {
  provider: ProviderName;
  /** Name at the provider, without `provider/`. */
  model: string;
  stream: StreamModel;
  /** Names credential and model, for what all who use them share; null where nobody has to be spared. */
  gate: string | null;
  /** What the credential permits, where the installation says so. */
  rates: ModelRates | null;
}

export interface Models {
  /** Throws `impossible` (422) for a name that no provider knows, and for a provider without a key. */
  resolve: (name: string | undefined) => ResolvedModel;
  /** What `resolve(undefined)` gives, as `provider/model`. */
  defaultName: () => string;
}

/** The newest Sonnet that goes on with a conversation after it was shortened (5.5 binds thinking to its context). */
export const DEFAULT_CLAUDE = 'claude-sonnet-5';
export const DEFAULT_GPT = 'gpt-5.6-terra';

const NAMES = 'Use `anthropic/<model>`, `openai/<model>`, a bare `claude-…`, `gpt-…` or `o3…` name, or `offline`.';

/** The models that this process can ask, by name (api.md, Environment). */
export function createModels(config: ModelsConfig): Models {
  const streams: Record<ProviderName, StreamModel | undefined> = {
    anthropic: config.anthropicApiKey
      ? anthropicModel({ apiKey: config.anthropicApiKey, baseUrl: config.anthropicBaseUrl })
      : undefined,
    openai: config.openaiApiKey
      ? openaiModel({ apiKey: config.openaiApiKey, baseUrl: config.openaiBaseUrl })
      : undefined,
    offline: offlineModel(),
  };
  const resolve = (name: string | undefined): ResolvedModel => {
    const { provider, model } = parseModelName(name ?? defaultNameOf(config));
    const stream = streams[provider];
    if (!stream)
      throw impossible(`The model "${name ?? model}" needs ${provider.toUpperCase()}_API_KEY, which is not set.`);
    const rates = config.modelLimits?.[`${provider}/${model}`] ?? config.modelLimits?.[provider] ?? null;
    return { provider, model, stream, gate: gateOf(config, provider, model), rates };
  };
  return {
    resolve,
    defaultName: () => {
      const { provider, model } = parseModelName(defaultNameOf(config));
      return provider === 'offline' ? 'offline' : `${provider}/${model}`;
    },
  };
}

/** The credential is told by a digest: its own value goes nowhere. */
function gateOf(config: ModelsConfig, provider: ProviderName, model: string): string | null {
  if (provider === 'offline') return null;
  const credential =
    provider === 'anthropic'
      ? [config.anthropicApiKey, config.anthropicBaseUrl]
      : [config.openaiApiKey, config.openaiBaseUrl];
  return `${provider}/${model}@${digestOf(credential).slice(0, 16)}`;
}

/** `provider/model`, a bare name, or `offline`. Throws `impossible` (422) with the names that work. */
export function parseModelName(name: string): { provider: ProviderName; model: string } {
  if (name === 'offline') return { provider: 'offline', model: 'offline' };
  const [, provider, model] = /^(anthropic|openai)\/(\S+)$/.exec(name) ?? [];
  if ((provider === 'anthropic' || provider === 'openai') && model) return { provider, model };
  if (/^claude-\S+$/.test(name)) return { provider: 'anthropic', model: name };
  if (/^(?:(?:chat)?gpt-|o\d)[^\s/]*$/.test(name)) return { provider: 'openai', model: name };
  throw impossible(`There is no model "${name}". ${NAMES}`);
}

function defaultNameOf(config: ModelsConfig): string {
  if (config.defaultModel) return config.defaultModel;
  if (config.anthropicApiKey) return `anthropic/${DEFAULT_CLAUDE}`;
  return config.openaiApiKey ? `openai/${DEFAULT_GPT}` : 'offline';
}
