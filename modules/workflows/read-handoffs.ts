/** Reads handoffs of the caller's workspace. */
import type { Caller } from '../../core/caller.ts';
import { notFound } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Tx } from '../../db/database.ts';
import { chainTo, findHandoff, listHandoffs, type ChainLink, type HandoffRow } from '../../db/handoffs.ts';

export { listHandedOn, type HandedOn } from '../../db/handoffs.ts';
export type { ChainLink, HandoffRow };

/** A handoff with the chain up to and including it. */
export interface ShownHandoff {
  row: HandoffRow;
  chain: ChainLink[];
}

/** A handoff with its chain. Throws 404. */
export async function requireHandoff(tx: Tx, caller: Caller, id: string): Promise<ShownHandoff> {
  const row = await findHandoff(tx, id);
  if (row?.workspace_id !== caller.workspaceId) throw notFound('The handoff');
  return withChain(tx, row);
}

/** Adds the chain to a row. */
export async function withChain(tx: Tx, row: HandoffRow): Promise<ShownHandoff> {
  return { row, chain: await chainTo(tx, row.id, LIMITS.handoffChain + 1) };
}

/** A page of handoffs, newest first. */
export async function readHandoffs(
  tx: Tx,
  caller: Caller,
  page: Omit<Parameters<typeof listHandoffs>[1], 'workspaceId'>,
): Promise<HandoffRow[]> {
  return listHandoffs(tx, { ...page, workspaceId: caller.workspaceId });
}
