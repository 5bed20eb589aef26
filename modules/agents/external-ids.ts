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
import { loosenByExternalId } from './loosened-names.ts';
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
  if (externalId !== undefined) await checkFree(tx, caller, { externalId });
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
  if (externalId !== null) await checkFree(tx, caller, { externalId, id });
  const agent = await lockAgent(tx, id, caller.workspaceId);
  if (!agent) throw notFound('This agent');
  const previous = agent.external_id;
  if (previous === externalId) return;
  const loosened = loosenByExternalId(caller, agent.definition, { from: previous, to: externalId });
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
  await lockExternalId(tx, caller.workspaceId, externalId);
  const id = await findByExternalId(tx, 'agents', { workspaceId: caller.workspaceId, externalId });
  if (id === undefined) return { agent: await createNamedAgent(tx, caller, { definition, externalId }), isNew: true };
  const current = await lockAgent(tx, id, caller.workspaceId);
  if (!current) throw notFound('This agent');
  const isCurrentVersion = (definition.version ?? current.current_version) === current.current_version;
  const isSame = isCurrentVersion && hashAgent(definition) === current.content_hash;
  if (isSame && current.status !== 'deprecated') return { agent: current, isNew: false };
  const { version: _version, ...before } = current.definition;
  const absent = Object.fromEntries(Object.keys(before).map((field) => [field, null])) as AgentPatch;
  return { agent: await updateAgent(tx, caller, { id, patch: { ...absent, ...definition } }), isNew: false };
}

async function checkFree(tx: Tx, { workspaceId }: Caller, wanted: { externalId: string; id?: string }): Promise<void> {
  const { externalId } = wanted;
  await lockExternalId(tx, workspaceId, externalId);
  const holder = await findByExternalId(tx, 'agents', { workspaceId, externalId });
  if (holder === undefined || holder === wanted.id) return;
  throw conflict(`There is already an agent with the external_id "${externalId}".`, { agent_id: holder });
}
