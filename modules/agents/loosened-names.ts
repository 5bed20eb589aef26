/**
 * Agents under the names of others. Runs begin by names and external ids, so whoever moves one changes what guards
 * their calls. A name that no agent has counts as an agent with the defaults.
 */
import type { AgentDefinition } from '../../core/definition.ts';
import type { Caller } from '../../core/caller.ts';
import { checkMayLoosen, looseningOfAgent, type Loosening } from '../../core/loosening.ts';
import { findDeprecatedAgent } from '../../db/agents.ts';
import type { Tx } from '../../db/database.ts';

const NO_AGENT: AgentDefinition = { name: '' };

/** An agent gives its external id up, gets one, or both. Returns what is loosened. Throws 403 if the caller may not. */
export function loosenByExternalId(
  caller: Caller,
  definition: AgentDefinition,
  { from, to }: { from: string | null; to: string | null },
): Loosening {
  return allowed(caller, 'external_id', {
    ...(from !== null && looseningOfAgent(NO_AGENT, definition)),
    ...(to !== null && looseningOfAgent(definition, undefined)),
  });
}

/** An agent gets the external id of a deprecated one. Returns and throws as above. */
export function loosenByHeir(caller: Caller, definition: AgentDefinition, last: AgentDefinition): Loosening {
  return allowed(caller, 'external_id', looseningOfAgent(definition, last));
}

/** A new agent gets its name; what it loosens beside that is measured elsewhere. Returns and throws as above. */
export async function loosenByName(tx: Tx, caller: Caller, definition: AgentDefinition): Promise<Loosening> {
  return allowed(caller, 'name', await looseningOfHeir(tx, caller, definition));
}

/** An agent gives up the name it has before for the one it has after. Returns and throws as above. */
export async function loosenByRename(
  tx: Tx,
  caller: Caller,
  { before, after }: { before: AgentDefinition; after: AgentDefinition },
): Promise<Loosening> {
  return allowed(caller, 'name', {
    ...looseningOfAgent(NO_AGENT, before),
    ...looseningOfAgent(after, undefined),
    ...(await looseningOfHeir(tx, caller, after)),
  });
}

/** Against the last agent of the name: deprecating it takes no right to approve. The name must be locked. */
async function looseningOfHeir(tx: Tx, { workspaceId }: Caller, definition: AgentDefinition): Promise<Loosening> {
  const last = await findDeprecatedAgent(tx, workspaceId, definition.name);
  return last ? looseningOfAgent(definition, last) : {};
}

function allowed(caller: Caller, name: 'external_id' | 'name', loosened: Loosening): Loosening {
  const fields = Object.keys(loosened);
  if (fields.length > 0) checkMayLoosen(caller, [name, ...fields]);
  return loosened;
}
