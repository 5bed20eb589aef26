/** What the calls of a credential share for each model: a rate limiter, and the limits that the installation sets. */
import { digestOf } from '../core/ids.ts';
import type { ModelRates } from '../db/model-rates.ts';
import type { Credential } from './provider.ts';

export interface ModelPace {
  /** A name shared by all users of this credential and model; null if there is no limit to share. */
  rateLimiter: string | null;
  /** The credential's limits, if the installation sets them. */
  rates: ModelRates | null;
}

export interface PaceConfig {
  /** By provider. */
  modelKeys?: Readonly<Record<string, Credential>> | undefined;
  /** `DROVER_MODEL_LIMITS`, by `provider/model` or `provider`. */
  modelLimits?: Readonly<Record<string, ModelRates>> | undefined;
}

/** Finds the pace of a provider's model. */
export type FindPace = (provider: string, model: string) => ModelPace;

/** The paces of this process's credentials. */
export function createPaces({ modelKeys = {}, modelLimits }: PaceConfig): FindPace {
  const digests = new Map(
    Object.entries(modelKeys).map(([provider, credential]) => [provider, credentialDigest(credential)]),
  );
  return (provider, model) => {
    const digest = digests.get(provider);
    return {
      rateLimiter: digest === undefined ? null : `${provider}/${model}@${digest}`,
      rates: modelLimits?.[`${provider}/${model}`] ?? modelLimits?.[provider] ?? null,
    };
  };
}

/** A digest of a credential: the key itself goes nowhere. */
function credentialDigest({ apiKey, baseUrl }: Credential): string {
  return digestOf([apiKey, baseUrl]).slice(0, 16);
}
