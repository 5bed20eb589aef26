/** What is asked of a model for Drover itself. */
import type { z } from 'zod';
import type { RunBudget } from '../../core/budget.ts';
import type { Message } from '../../core/content.ts';
import type { OwnCallPlace } from '../../core/decision-events/model-calls.ts';
import type { WorkflowExample } from '../../core/definition.ts';
import type { NewEvent } from '../../core/events.ts';
import type { Tx } from '../../db/database.ts';
import type { OutageGuard } from './throttle.ts';

/** A tool that only Drover asks for: the model answers by its arguments. */
export interface OwnTool<T> {
  name: string;
  description: string;
  /** It may look things up: it is parsed asynchronously. */
  arguments: z.ZodType<T>;
}

export interface ToolAsk<T> {
  tenantId: string;
  workspaceId: string;
  /** Whose budget it falls under; absent where the call belongs to no agent. */
  agentId?: string | undefined;
  threadId?: string | undefined;
  /** The run that it is asked for, under whose budget it falls, too. */
  run?: { id: string; rootId: string; budget?: RunBudget | undefined } | undefined;
  /** In a few letters what it is for: `title`, `summary`, `plan`. */
  purpose: string;
  /** Names of models in the order in which they are asked; undefined is the default model. Those without a key are left out. */
  models: readonly (string | undefined)[];
  tool: OwnTool<T>;
  system: string;
  messages: readonly Message[];
  /** Most output tokens; 1024 where absent. */
  maxTokens?: number;
  signal: AbortSignal;
  /** For all of it, with what is waited for; each attempt has a limit of its own besides. */
  timeoutMs?: number;
  /** What the offline model follows. */
  examples?: readonly WorkflowExample[];
  /** Hears the arguments as they are written, all of one answer so far; a further answer begins anew. */
  onArguments?: ((json: string) => void) | undefined;
  /** The log of the run, where whoever holds it asks: `model.called` is committed before the call, `model.responded` is left to the next commit. */
  record?: OwnCallRecord | undefined;
  /** Written in the transaction that settles the call, so that no answer is paid for and lost. */
  keep?: ((tx: Tx, given: T) => Promise<void>) | undefined;
  /** Where more depends on the call than its answer: a run that waits for its provider. */
  guard?: OutageGuard | undefined;
}

/** The log of a run in the hands of whoever holds it. */
export interface OwnCallRecord {
  /** The step of the run that the call goes with. */
  step: number;
  state: () => OwnCallPlace;
  /** Adds to what the next commit writes. */
  append: (event: NewEvent) => void;
  commit: () => Promise<unknown>;
}

/** Why there is no answer. Only where it is `unavailable` may the same question have one later. */
export interface ToolFault {
  code: 'unusable' | 'budget' | 'rejected' | 'unavailable';
  message: string;
  /** Where a rate limiter keeps it waiting: for so long. */
  waitMs?: number;
}
