/** The input of Drover's own model calls. */
import type { z } from 'zod';
import type { Message } from '../../core/content.ts';
import type { OwnCallPlace } from '../../core/decision-events/model-calls.ts';
import type { WorkflowExample } from '../../core/definition.ts';
import type { NewEvent } from '../../core/events.ts';
import type { Ancestors } from '../../core/run-config.ts';
import type { Tx } from '../../db/database.ts';
import type { AwayProvider, OutageGuard } from './throttle.ts';

/** A tool for Drover's own use: its arguments are the model's answer. */
export interface OwnTool<T> {
  name: string;
  description: string;
  /** Parsed asynchronously, since it may look things up. */
  arguments: z.ZodType<T>;
}

export interface ToolAsk<T> {
  tenantId: string;
  workspaceId: string;
  /** The agent whose budget pays; absent if the call belongs to none. */
  agentId?: string | undefined;
  threadId?: string | undefined;
  /** The run that the call is for. Its budget pays, too, and those of the runs above it: `ancestors` are the call's own. */
  run?: { id: string; rootId: string; ancestors: Ancestors } | undefined;
  /** A short name of its purpose: `title`, `summary`, `plan`. */
  purpose: string;
  /** Names of models in the order of asking; undefined is the default model. Those without a key are skipped. */
  models: readonly (string | undefined)[];
  tool: OwnTool<T>;
  system: string;
  messages: readonly Message[];
  /** Limit of output tokens; default 1024. */
  maxTokens?: number;
  signal: AbortSignal;
  /** Time limit including waits; each attempt also has its own. */
  timeoutMs?: number;
  /** Examples for the offline model. */
  examples?: readonly WorkflowExample[];
  /** Called with the answer's arguments so far, as they are written; starts again with another answer. */
  onArguments?: ((json: string) => void) | undefined;
  /** The run's log, if its holder asks: `model.called` is committed before the call, `model.responded` goes with the next commit. */
  record?: OwnCallRecord | undefined;
  /** Runs in the transaction that settles the call, so that no answer is paid for and lost. */
  keep?: ((tx: Tx, given: T) => Promise<void>) | undefined;
  /** For calls on which more depends than their answer: runs that wait for their provider. */
  guard?: OutageGuard | undefined;
}

/** A run's log in the hands of its holder. */
export interface OwnCallRecord {
  /** The run's step that the call belongs to. */
  step: number;
  state: () => OwnCallPlace;
  /** Adds an event to the next commit. */
  append: (event: NewEvent) => void;
  commit: () => Promise<unknown>;
}

/** Why there is no answer. Only `unavailable` may change if asked again later. */
export interface ToolFault {
  /** `lost`: processes have died of asking. */
  code: 'lost' | 'unusable' | 'budget' | 'rejected' | 'unavailable';
  message: string;
  /** How long a rate limiter keeps it waiting. */
  waitMs?: number;
  /** Set if the provider of the last model asked is away. */
  away?: AwayProvider;
}
