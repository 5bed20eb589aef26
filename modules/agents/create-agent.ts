import type { AgentDefinition } from '../../core/definition.ts';
import { digestOf } from '../../core/ids.ts';
import { checkMayLoosen, looseningDetails, looseningOfAgent } from '../../core/loosening.ts';
import { newId } from '../../lib/new-id.ts';
import { findAgent, insertAgent } from '../../db/agents.ts';
import type { AgentRow } from '../../db/agents.ts';
import type { Tx } from '../../db/database.ts';
import type { Caller } from '../../core/caller.ts';
import { checkAgent } from './check-agent.ts';
import { checkNameFree } from './check-name-free.ts';
import { loosenByName } from './loosened-names.ts';
import { recordAudit } from '../audit/record-audit.ts';

/** Registers an agent with its first version, by default 1.0.0. Throws 403, 409 for a taken name, 422. */
export async function createAgent(tx: Tx, caller: Caller, definition: AgentDefinition): Promise<AgentRow> {
  const loosenedByItself = looseningOfAgent(definition, undefined);
  checkMayLoosen(caller, Object.keys(loosenedByItself));
  await checkAgent(tx, definition);
  await checkNameFree(tx, caller, definition);
  const loosened = { ...loosenedByItself, ...(await loosenByName(tx, caller, definition)) };
  const version = definition.version ?? '1.0.0';
  const agentId = newId();
  const { tenantId, workspaceId } = caller;
  const contentHash = hashAgent(definition);
  await insertAgent(tx, {
    tenantId,
    workspaceId,
    agentId,
    version,
    definition: { ...definition, version },
    contentHash,
  });
  await recordAudit(tx, caller, {
    action: 'agent.created',
    target: ['agent', agentId],
    digest: contentHash,
    details: { name: definition.name, version, ...looseningDetails(loosened) },
  });
  const agent = await findAgent(tx, agentId);
  if (!agent) throw new Error('An inserted agent did not come back.');
  return agent;
}

/** A digest of an agent's content, whatever its version. */
export function hashAgent(agent: AgentDefinition): string {
  const { version: _version, ...content } = agent;
  return digestOf(content);
}
