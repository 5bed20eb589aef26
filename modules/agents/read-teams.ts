import type { Caller } from '../../core/caller.ts';
import type { Tx } from '../../db/database.ts';
import { listTeams } from '../../db/teams.ts';

export { PATTERNS, type TeamRow } from '../../db/teams.ts';

/** A page of the workspace's teams, newest first. */
export async function readTeams(
  tx: Tx,
  caller: Caller,
  page: { before: string | undefined; limit: number },
): ReturnType<typeof listTeams> {
  return listTeams(tx, { ...page, workspaceId: caller.workspaceId });
}
