import type { EmbeddingPurpose } from '../db/own-model-calls.ts';
import type { ModelPace } from './model-pace.ts';

/** Whose budgets pay a provider: the tenant's, and those of its workspace, agent and run if given. */
export interface EmbeddingOwner {
  tenantId: string;
  /** Default: that of the run, the agent or the space. */
  workspaceId?: string | undefined;
  agentId?: string | undefined;
  runId?: string | undefined;
  spaceId?: string | undefined;
}

export interface EmbeddingPayer extends EmbeddingOwner {
  purpose: EmbeddingPurpose;
}

export interface EmbedOptions {
  signal: AbortSignal;
  /** The model that comes with Drover costs nothing. */
  payer: EmbeddingPayer;
  /** Whether a caller waits: if texts are embedded one by one, these go before those of an import. */
  isWaitedFor?: boolean;
  /** The length of vectors that are stored of the model: those of another one are an error. */
  dimensions?: number | undefined;
}

/** Embeds texts, in their order. One attempt; rejects on failure, or when `signal` fires. */
export type EmbedTexts = (texts: readonly string[], options: EmbedOptions) => Promise<number[][]>;

/** A request that is to be sent to a provider. */
export interface EmbeddingRequest extends ModelPace {
  provider: string;
  model: string;
  /** As estimated. */
  tokens: number;
  /** Once it fires, nobody knows what the request has used. */
  signal: AbortSignal;
  /** Whether it fired since the provider has not answered in time. */
  isOverdue: () => boolean;
}

/** What an answer says of its request. */
export interface EmbeddingAnswer {
  /** The model that has answered, by its own word. */
  model: string | undefined;
  /** As the provider has counted them, if it does. */
  tokens: number | undefined;
}

/**
 * Sends a request that is accounted for. Rejects as `send` does, with a ModelError where that may say something of the provider; or
 * without it where no budget is left, the rate limiter has no room, or the provider is away.
 */
export type PayForEmbeddings = <A extends EmbeddingAnswer>(
  payer: EmbeddingPayer,
  request: EmbeddingRequest,
  send: () => Promise<A>,
) => Promise<A>;
