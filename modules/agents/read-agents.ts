/** Reads agents and their versions for the API, of the caller's workspace alone. */
import type { Caller } from '../../core/caller.ts';
import { notFound } from '../../core/errors.ts';
import type { WorkflowGraph } from '../../core/graph/definition.ts';
import { REACT_GRAPH } from '../../core/graph/mermaid.ts';
import { LIMITS } from '../../core/limits.ts';
import {
  findAgent,
  findAgentVersion,
  listAgentNames,
  listNamesakes,
  listAgents,
  listAgentVersions,
  type AgentName,
  type AgentRow,
  type AgentVersionRow,
} from '../../db/agents.ts';
import type { Tx } from '../../db/database.ts';

export type { AgentName, AgentRow, AgentVersionRow };

/** An agent with its current definition. Throws 404. */
export async function requireAgent(tx: Tx, caller: Caller, id: string): Promise<AgentRow> {
  const row = await findAgent(tx, id, caller.workspaceId);
  if (!row) throw notFound('This agent');
  return row;
}

/** A page of agents, newest first. */
export async function readAgents(
  tx: Tx,
  caller: Caller,
  page: Omit<Parameters<typeof listAgents>[1], 'workspaceId'>,
): ReturnType<typeof listAgents> {
  return listAgents(tx, { ...page, workspaceId: caller.workspaceId });
}

/** Names of the agents that accept runs, oldest first, up to `LIMITS.mcpAgents`. */
export async function readAgentNames(tx: Tx, caller: Caller): Promise<AgentName[]> {
  return listAgentNames(tx, caller.workspaceId, LIMITS.mcpAgents);
}

/** Like `readAgentNames`, for agents that affect what one tool name means. */
export async function readNamesakes(
  tx: Tx,
  caller: Caller,
  which: { prefix: string; isExact: boolean },
): Promise<AgentName[]> {
  return listNamesakes(tx, caller.workspaceId, which);
}

/** A page of an agent's versions, newest first. Throws 404 if there is no such agent. */
export async function readAgentVersions(
  tx: Tx,
  caller: Caller,
  page: Parameters<typeof listAgentVersions>[1],
): ReturnType<typeof listAgentVersions> {
  await requireAgent(tx, caller, page.agentId);
  return listAgentVersions(tx, page);
}

/** One version of an agent. Throws 404. */
export async function requireAgentVersion(
  tx: Tx,
  caller: Caller,
  wanted: { agentId: string; version: string },
): Promise<AgentVersionRow> {
  await requireAgent(tx, caller, wanted.agentId);
  const row = await findAgentVersion(tx, wanted.agentId, wanted.version);
  if (!row) throw notFound('This version');
  return row;
}

/** The graph of a version, by default the current one; ReAct if it has none. Throws 404. */
export async function readGraph(
  tx: Tx,
  caller: Caller,
  { agentId, version }: { agentId: string; version: string | undefined },
): Promise<WorkflowGraph & { agent_id: string; version: string }> {
  const agent = await requireAgent(tx, caller, agentId);
  const named = version ?? agent.current_version;
  const { definition } = await requireAgentVersion(tx, caller, { agentId: agent.id, version: named });
  return { agent_id: agent.id, version: named, ...(definition.workflow_graph ?? REACT_GRAPH) };
}
