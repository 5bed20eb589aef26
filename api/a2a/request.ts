/** One request to an agent over A2A. */
import type { Caller } from '../../core/caller.ts';
import type { AgentRow } from '../../modules/agents/read-agents.ts';
import type { Context } from '../../modules/governance/context.ts';

/** A request's caller, agent and surroundings. */
export interface A2aRequest {
  context: Context;
  caller: Caller;
  agent: AgentRow;
  /** The agent's JSON-RPC endpoint. */
  url: string;
  traceparent: string | undefined;
  /** Number of its characters that had to be replaced. */
  replaced: number | undefined;
  /** Fires when the client has left or the process stops; the work goes on. */
  gone: AbortSignal;
}
