/** Names of agents: unique in a workspace among agents that are not deprecated. */
import { conflict } from '../../core/errors.ts';
import type { Caller } from '../../core/caller.ts';
import { findByName, lockAgentName } from '../../db/agents.ts';
import type { Tx } from '../../db/database.ts';

/** Locks a name until the transaction ends. Throws 409 if an agent other than `id` has it. */
export async function checkNameFree(
  tx: Tx,
  { workspaceId }: Caller,
  { name, id }: { name: string; id?: string },
): Promise<void> {
  await lockAgentName(tx, workspaceId, name);
  const holder = await findByName(tx, workspaceId, name);
  if (holder === undefined || holder === id) return;
  const remedy = 'It is changed, or given an external_id, by PATCH.';
  throw conflict(`There is already an agent with the name "${name}". ${remedy}`, { agent_id: holder });
}
