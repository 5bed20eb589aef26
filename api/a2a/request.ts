/** One request to an agent over A2A. */
import type { Caller } from '../../core/caller.ts';
import type { AgentRow } from '../../modules/agents/read-agents.ts';
import type { Context } from '../../modules/governance/context.ts';

/** Whose it is, and what it is about. */
export interface A2aRequest {
  context: Context;
  caller: Caller;
  agent: AgentRow;
  /** Where its JSON-RPC is. */
  url: string;
  traceparent: string | undefined;
  /** Characters of it that could not be kept. */
  replaced: number | undefined;
  /** Fires when the client has left or the process stops: the work goes on. */
  gone: AbortSignal;
}
