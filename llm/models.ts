import { impossible } from '../core/errors.ts';
import { ModelError, type AnswerPiece, type ModelRequest, type StreamModel } from '../core/model.ts';
import { completeBrokenUsage, completeUsage } from './complete-usage.ts';
import { soundAnswer } from './sound-answer.ts';
import { contextWindowOf, type ContextWindows } from './context-windows.ts';
import { withoutRefusedCalls } from './messages.ts';
import { withoutKey, withUsage } from './model-errors.ts';
import { createPaces, type ModelPace, type PaceConfig } from './model-pace.ts';
import { findModelName, OFFLINE, parseModelName } from './model-name.ts';
import type { WhyOffline } from './offline-plan.ts';
import { offlineModel } from './offline.ts';
import type { Credential, OpenFile, Provider } from './provider.ts';
import { PROVIDERS, variableOf } from './providers.ts';

interface ModelsConfig extends PaceConfig {
  /** `DROVER_MODEL`. */
  defaultModel?: string | undefined;
  /** `DROVER_CONTEXT_WINDOWS`. */
  contextWindows?: ContextWindows | undefined;
}

export interface ResolvedModel extends ModelPace {
  provider: string;
  /** The provider's name for it, without `provider/`. */
  model: string;
  stream: StreamModel;
  /** Its context window in tokens, prompt and answer together. */
  contextWindow: number;
}

/** A model as a run pins it. */
export interface ModelWindow {
  /** `provider/model`. */
  name: string;
  /** Its context window in tokens, prompt and answer together. */
  tokens: number;
}

export interface Models {
  /** Throws `impossible` (422) for a name that no provider knows, and for a provider without a key. */
  resolve: (name: string | undefined) => ResolvedModel;
  /** The model of `resolve(undefined)`, as `provider/model`. */
  defaultName: () => string;
  /** A model's context window, even without a key; undefined for a name that no provider knows. */
  contextWindow: (name: string | undefined) => ModelWindow | undefined;
  /** Opens files made by this provider's tools; undefined if it makes none or has no key. */
  filesOf: (provider: string) => OpenFile | undefined;
}

/** The models that this process can ask, by name (docs/models.md). */
export function createModels(config: ModelsConfig): Models {
  const keys = config.modelKeys ?? {};
  const streams = new Map(
    PROVIDERS.flatMap((provider) => {
      const credential = keys[provider.name];
      return credential ? [[provider.name, streamOf(provider, credential)] as const] : [];
    }),
  );
  const paceOf = createPaces(config);
  const resolve = (name: string | undefined): ResolvedModel => {
    const { provider, model } = parseModelName(name ?? defaultNameOf(config));
    const stream = provider === OFFLINE ? offlineModel(whyOffline(name, config)) : streams.get(provider);
    if (!stream) {
      const variable = variableOf({ name: provider }, 'API_KEY');
      throw impossible(`The model "${name ?? model}" needs ${variable}, which is not set.`);
    }
    const contextWindow = contextWindowOf({ provider, model }, config.contextWindows);
    return { provider, model, stream, contextWindow, ...paceOf(provider, model) };
  };
  return {
    resolve,
    filesOf: (name) => {
      const provider = PROVIDERS.find((each) => each.name === name);
      const credential = keys[name];
      if (!provider?.openFiles || !credential) return undefined;
      const opened = provider.openFiles(credential);
      return async (id, signal) => (await opened)(id, signal);
    },
    defaultName: () => {
      const { provider, model } = parseModelName(defaultNameOf(config));
      return provider === OFFLINE ? OFFLINE : `${provider}/${model}`;
    },
    contextWindow: (name) => {
      const asked = findModelName(name ?? defaultNameOf(config));
      if (!asked) return undefined;
      return { name: `${asked.provider}/${asked.model}`, tokens: contextWindowOf(asked, config.contextWindows) };
    },
  };
}

function whyOffline(name: string | undefined, { defaultModel }: ModelsConfig): WhyOffline {
  if (name !== undefined) return 'named';
  return defaultModel === undefined ? 'no_key' : 'default';
}

function streamOf(provider: Provider, credential: Credential): StreamModel {
  const opened = provider.open(credential);
  // A failure is reported to each caller of the model.
  opened.catch(() => undefined);
  return async (request, io) => {
    let heard: string | undefined;
    const onDelta = (piece: AnswerPiece) => {
      heard = (heard ?? '') + piece.text;
      io.onDelta(piece);
    };
    const answer = await opened
      .then((ask) => ask(request, { ...io, onDelta }))
      .catch((error: unknown) => {
        throw withoutKey(countHeard(request, heard, error), credential.apiKey);
      });
    return withoutRefusedCalls(completeUsage(request, soundAnswer(request, answer)));
  };
}

/** The same error with the usage of the pieces that had come: only a call of which nothing had come may count as nothing. */
function countHeard(request: ModelRequest, heard: string | undefined, error: unknown): unknown {
  if (heard === undefined || !(error instanceof ModelError)) return error;
  return withUsage(error, completeBrokenUsage(request, heard, error.usage));
}

function defaultNameOf({ defaultModel, modelKeys = {} }: ModelsConfig): string {
  if (defaultModel) return defaultModel;
  const first = PROVIDERS.find((provider) => provider.defaultModel !== undefined && provider.name in modelKeys);
  return first ? `${first.name}/${first.defaultModel}` : OFFLINE;
}
