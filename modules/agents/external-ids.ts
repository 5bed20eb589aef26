/** Agents under names given by clients. */
import type { AgentDefinition } from '../../core/definition.ts';
import { conflict, notFound } from '../../core/errors.ts';
import type { Caller } from '../../core/caller.ts';
import { looseningDetails } from '../../core/loosening.ts';
import { lockAgent, type AgentRow } from '../../db/agents.ts';
import type { Tx } from '../../db/database.ts';
import { findByExternalId, lockExternalId, setExternalId } from '../../db/external-ids.ts';
import { recordAudit } from '../audit/record-audit.ts';
import { createAgent, hashAgent } from './create-agent.ts';
import { loosenByExternalId, loosenByHeir } from './loosened-names.ts';
import { updateAgent, type AgentPatch } from './update-agent.ts';

/** The id of the workspace's agent with this external id. Throws 404. */
export async function requireAgentId(tx: Tx, { workspaceId }: Caller, externalId: string): Promise<string> {
  const id = await findByExternalId(tx, 'agents', { workspaceId, externalId });
  if (id === undefined) throw notFound(`The agent "ext:${externalId}"`);
  return id;
}

/** Registers an agent, under an external id if given. Throws 403, 409 for a taken name, 422. */
export async function createNamedAgent(
  tx: Tx,
  caller: Caller,
  { definition, externalId }: { definition: AgentDefinition; externalId: string | undefined },
): Promise<AgentRow> {
  if (externalId !== undefined) await makeFree(tx, caller, { externalId, definition });
  const agent = await createAgent(tx, caller, definition);
  if (externalId === undefined) return agent;
  await setExternalId(tx, 'agents', { id: agent.id, externalId });
  return { ...agent, external_id: externalId };
}

/** Changes or removes an agent's external id. Throws 403, 404, 409 for a taken one. */
export async function renameAgent(
  tx: Tx,
  caller: Caller,
  { id, externalId }: { id: string; externalId: string | null },
): Promise<void> {
  if (externalId !== null) await lockExternalId(tx, caller.workspaceId, externalId);
  const agent = await lockAgent(tx, id, caller.workspaceId);
  if (!agent) throw notFound('This agent');
  const { external_id: previous, definition } = agent;
  if (previous === externalId) return;
  if (externalId !== null) await makeFree(tx, caller, { externalId, definition });
  const loosened = loosenByExternalId(caller, definition, { from: previous, to: externalId });
  await setExternalId(tx, 'agents', { id, externalId });
  await recordAudit(tx, caller, {
    action: 'agent.updated',
    target: ['agent', id],
    details: { external_id: externalId, previous_external_id: previous, ...looseningDetails(loosened) },
  });
}

/**
 * Makes the agent of this external id match `definition`: registers it, publishes a new version, or changes nothing.
 * Throws as those do.
 */
export async function putAgent(
  tx: Tx,
  caller: Caller,
  { definition, externalId }: { definition: AgentDefinition; externalId: string },
): Promise<{ agent: AgentRow; isNew: boolean }> {
  const current = await findHolder(tx, caller, externalId);
  if (!current || current.status === 'deprecated') {
    return { agent: await createNamedAgent(tx, caller, { definition, externalId }), isNew: true };
  }
  const isCurrentVersion = (definition.version ?? current.current_version) === current.current_version;
  const isSame = isCurrentVersion && hashAgent(definition) === current.content_hash;
  if (isSame) return { agent: current, isNew: false };
  const { version: _version, ...before } = current.definition;
  const absent = Object.fromEntries(Object.keys(before).map((field) => [field, null])) as AgentPatch;
  return {
    agent: await updateAgent(tx, caller, { id: current.id, patch: { ...absent, ...definition } }),
    isNew: false,
  };
}

/** Takes the id from a deprecated agent, which begins nothing any more under it. Throws 409 if another one has it, 403. */
async function makeFree(
  tx: Tx,
  caller: Caller,
  { externalId, definition }: { externalId: string; definition: AgentDefinition },
): Promise<void> {
  const holder = await findHolder(tx, caller, externalId);
  if (!holder) return;
  const { id } = holder;
  if (holder.status !== 'deprecated') {
    throw conflict(`There is already an agent with the external_id "${externalId}".`, { agent_id: id });
  }
  const loosened = loosenByHeir(caller, definition, holder.definition);
  await setExternalId(tx, 'agents', { id, externalId: null });
  await recordAudit(tx, caller, {
    action: 'agent.updated',
    target: ['agent', id],
    details: { external_id: null, previous_external_id: externalId, ...looseningDetails(loosened) },
  });
}

/** The agent of this external id, which stays so, or free, until the transaction ends. */
async function findHolder(tx: Tx, { workspaceId }: Caller, externalId: string): Promise<AgentRow | undefined> {
  await lockExternalId(tx, workspaceId, externalId);
  const id = await findByExternalId(tx, 'agents', { workspaceId, externalId });
  return id === undefined ? undefined : lockAgent(tx, id, workspaceId);
}
