/** Fragments that somebody names for an agent. */
import type { Tx } from '../../db/database.ts';
import { readSharedFragments, type SharedFragment } from '../../db/memory-fragments.ts';
import { listSpacesWith } from '../../db/memory-spaces.ts';
import { accessible } from './space/access.ts';

/**
 * Of the named fragments in the workspace, those that this agent may see, by the rule of a search; kept from deletion until
 * the transaction ends.
 */
export async function sharedWith(
  tx: Tx,
  { workspaceId, agentId, ids }: { workspaceId: string; agentId: string; ids: readonly string[] },
): Promise<SharedFragment[]> {
  const spaces = await accessible(tx, await listSpacesWith(tx, { workspaceId, fragmentIds: ids }), agentId);
  return readSharedFragments(tx, { spaceIds: spaces.map(({ id }) => id), agentId, ids });
}
