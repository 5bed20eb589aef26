/** Settings of models from the environment (docs/configuration.md). */
import {
  ConfigError,
  expectOnce,
  quote,
  read,
  readHttpUrl,
  readKey,
  readList,
  type Environment,
} from '../lib/environment.ts';
import { parseModelName } from './model-name.ts';
import type { Credential } from './provider.ts';
import { PROVIDERS, variableOf } from './providers.ts';

export interface ModelSettings {
  /** Keys and addresses of model providers that have a key, by provider. */
  readonly modelKeys: Readonly<Record<string, Credential>>;
  /** Variables with the address of a provider without a key, which are not used. */
  readonly unusedAddresses: readonly string[];
  readonly defaultModel: string | undefined;
  /** `offline`, `off`, or `openai/…`: the embedding model for memories, unless the agent names one. */
  readonly embeddingModel: string;
  /** Limits of credentials per minute, by `provider/model` or `provider`. */
  readonly modelLimits: Readonly<Record<string, ModelLimit>>;
  /** Context windows in tokens, by `provider/model` or `provider`; they override the tables of `llm/providers`. */
  readonly contextWindows: Readonly<Record<string, number>>;
}

interface ModelLimit {
  readonly requestsPerMinute: number | null;
  readonly tokensPerMinute: number | null;
}

/** @throws ConfigError for the first mistake. */
export function readModelSettings(env: Environment): ModelSettings {
  return {
    modelKeys: readModelKeys(env),
    unusedAddresses: readUnusedAddresses(env),
    defaultModel: readModel(env),
    embeddingModel: readEmbeddingModel(env),
    modelLimits: readModelLimits(env),
    contextWindows: readContextWindows(env),
  };
}

function readModelKeys(env: Environment): ModelSettings['modelKeys'] {
  const keys = PROVIDERS.flatMap((provider) => {
    const baseUrl = readHttpUrl(env, variableOf(provider, 'BASE_URL'));
    const apiKey = readKey(env, variableOf(provider, 'API_KEY'));
    return apiKey === undefined ? [] : [[provider.name, { apiKey, baseUrl }] as const];
  });
  return Object.freeze(Object.fromEntries(keys));
}

function readUnusedAddresses(env: Environment): string[] {
  const has = (variable: string) => read(env, variable) !== undefined;
  return PROVIDERS.flatMap((provider) => {
    const address = variableOf(provider, 'BASE_URL');
    return has(address) && !has(variableOf(provider, 'API_KEY')) ? [address] : [];
  });
}

function readModel(env: Environment): string | undefined {
  const value = read(env, 'DROVER_MODEL');
  try {
    if (value !== undefined) parseModelName(value);
    return value;
  } catch {
    const names = PROVIDERS.map(({ name }) => `${name}/…`).join(', ');
    const expected = `provider/model (${names}), a bare name such as claude-… or gpt-…, or offline`;
    throw new ConfigError('DROVER_MODEL', `is ${quote(value ?? '')}`, expected);
  }
}

function readEmbeddingModel(env: Environment): string {
  const value = read(env, 'DROVER_EMBEDDING_MODEL') ?? 'offline';
  if (value === 'offline' || value === 'off') return value;
  if (!/^openai\/[\w./:-]+$/.test(value)) {
    throw new ConfigError('DROVER_EMBEDDING_MODEL', `is ${quote(value)}`, 'offline, off, or openai/… with its key');
  }
  if (read(env, 'OPENAI_API_KEY') === undefined) {
    throw new ConfigError('DROVER_EMBEDDING_MODEL', `is ${quote(value)}`, 'OPENAI_API_KEY to be set with it');
  }
  return value;
}

/**
 * Parses `provider/model=requests:tokens` per minute; a provider alone stands for all its models. Either number may be
 * missing.
 */
function readModelLimits(env: Environment): ModelSettings['modelLimits'] {
  const limits = readList(env, 'DROVER_MODEL_LIMITS').map((entry): [string, ModelLimit] => {
    const [, name = '', requests, tokens] = /^([^\s=]+)=(\d{1,9})?(?::(\d{1,9}))?$/.exec(entry) ?? [];
    if (!isModelOrProvider(name) || (!Number(requests) && !Number(tokens))) {
      const expected = 'requests and tokens a minute, as in anthropic/claude-sonnet-5=50:40000,openai=500';
      throw new ConfigError('DROVER_MODEL_LIMITS', `has ${quote(entry)}`, expected);
    }
    return [name, { requestsPerMinute: Number(requests) || null, tokensPerMinute: Number(tokens) || null }];
  });
  return fromAssignments('DROVER_MODEL_LIMITS', limits);
}

/** Parses `provider/model=tokens`; a provider alone stands for all its models. */
function readContextWindows(env: Environment): ModelSettings['contextWindows'] {
  const windows = readList(env, 'DROVER_CONTEXT_WINDOWS').map((entry): [string, number] => {
    const [, name = '', tokens] = /^([^\s=]+)=(\d{4,8})$/.exec(entry) ?? [];
    if (!isModelOrProvider(name)) {
      const expected = 'tokens that a model takes (1000 at least), as in openai/llama-4=32768,anthropic=200000';
      throw new ConfigError('DROVER_CONTEXT_WINDOWS', `has ${quote(entry)}`, expected);
    }
    return [name, Number(tokens)];
  });
  return fromAssignments('DROVER_CONTEXT_WINDOWS', windows);
}

function fromAssignments<T>(variable: string, assignments: readonly [string, T][]): Readonly<Record<string, T>> {
  expectOnce(
    variable,
    assignments.map(([name]) => name),
  );
  return Object.freeze(Object.fromEntries(assignments));
}

function isModelOrProvider(name: string): boolean {
  return PROVIDERS.some((provider) => name === provider.name || name.startsWith(`${provider.name}/`));
}
