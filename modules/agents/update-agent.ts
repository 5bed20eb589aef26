import type { AgentDefinition } from '../../core/definition.ts';
import { conflict, impossible, notFound } from '../../core/errors.ts';
import { checkMayLoosen, looseningDetails, looseningOfAgent } from '../../core/loosening.ts';
import { compareVersions, nextMinor } from '../../core/semver.ts';
import { deprecateAgent, findAgent, lockAgent, publishAgentVersion } from '../../db/agents.ts';
import type { AgentRow } from '../../db/agents.ts';
import type { Tx } from '../../db/database.ts';
import { advancePolicyEpoch } from '../../db/governance.ts';
import type { Caller } from '../../core/caller.ts';
import { checkAgent } from './check-agent.ts';
import { hashAgent } from './create-agent.ts';
import { checkNameFree } from './check-name-free.ts';
import { loosenByRename } from './loosened-names.ts';
import { recordAudit } from '../audit/record-audit.ts';

/** New field values; null removes a field, absent ones stay. */
export type AgentPatch = { [Field in keyof AgentDefinition]?: AgentDefinition[Field] | null | undefined };

/**
 * Publishes a new version with the changes of `patch`, unless nothing changes. Throws 403, 404, 409 for a deprecated
 * agent or a taken name, 422 for a version that is not above the current one.
 */
export async function updateAgent(
  tx: Tx,
  caller: Caller,
  { id, patch }: { id: string; patch: AgentPatch },
): Promise<AgentRow> {
  await advancePolicyEpoch(tx);
  const current = await lockAgent(tx, id, caller.workspaceId);
  if (!current) throw notFound('This agent');
  if (current.status === 'deprecated') throw conflict('A deprecated agent takes no new versions.');
  const definition = applyPatch(current.definition, patch);
  const contentHash = hashAgent(definition);
  if (patch.version === undefined && contentHash === current.content_hash) return current;
  const version = patch.version ?? nextMinor(current.current_version);
  if (compareVersions(version, current.current_version) <= 0) {
    const message = `must be above the current version ${current.current_version}`;
    throw impossible(`The version ${message}.`, [{ path: 'body.version', message }]);
  }
  let loosened = looseningOfAgent(definition, current.definition);
  checkMayLoosen(caller, Object.keys(loosened));
  await checkAgent(tx, definition);
  if (definition.name !== current.name) {
    await checkNameFree(tx, caller, { name: definition.name, id });
    const renamed = { before: current.definition, after: definition };
    loosened = { ...(await loosenByRename(tx, caller, renamed)), ...loosened };
  }
  const { tenantId } = caller;
  await publishAgentVersion(tx, {
    tenantId,
    agentId: id,
    version,
    definition: { ...definition, version },
    contentHash,
  });
  const details = { version, previous_version: current.current_version, ...looseningDetails(loosened) };
  await recordAudit(tx, caller, { action: 'agent.updated', target: ['agent', id], digest: contentHash, details });
  const updated = await findAgent(tx, id);
  if (!updated) throw new Error('An updated agent did not come back.');
  return updated;
}

/** Deprecates an agent: no new runs, no new versions. Repeating changes nothing. Throws 404. */
export async function retireAgent(tx: Tx, caller: Caller, id: string): Promise<void> {
  await advancePolicyEpoch(tx);
  const agent = await lockAgent(tx, id, caller.workspaceId);
  if (!agent) throw notFound('This agent');
  if (agent.status === 'deprecated') return;
  await deprecateAgent(tx, id);
  await recordAudit(tx, caller, { action: 'agent.deprecated', target: ['agent', id] });
}

function applyPatch(current: AgentDefinition, patch: AgentPatch): AgentDefinition {
  const merged = Object.entries({ ...current, ...patch }).filter(([, value]) => value !== null && value !== undefined);
  return Object.fromEntries(merged) as AgentDefinition;
}
