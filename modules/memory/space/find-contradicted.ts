/** Looks in a space for what a new fragment contradicts, where the space asks for that. */
import { contradicts } from '../../../core/memory/contradiction.ts';
import type { Caller } from '../../../core/caller.ts';
import type { Tx } from '../../../db/database.ts';
import { lockComparing } from '../../../db/memory-lock.ts';
import { findLikeWords, insertChecks } from '../../../db/memory-conflicts.ts';
import { findFragment, readFragments, type FragmentRow, type SpaceRow } from '../../../db/memory-spaces.ts';
import { maySee, wordsIn } from './store-fragment.ts';

const COMPARED = 5;

/** A fragment as far as it says who sees it, and for how long. */
type Kept = Pick<
  FragmentRow,
  'visibility' | 'allowed_agents' | 'denied_agents' | 'expires_at' | 'retention_policy' | 'requires_resolution'
>;

/**
 * The fragment that a new one contradicts by rules, held until the transaction ends, among those that its writer may see, and with
 * which it may stand in one place; undefined if there is none.
 */
export async function findContradicted(
  tx: Tx,
  space: Pick<SpaceRow, 'id' | 'workspace_id' | 'conflict_check'>,
  fresh: Kept & Pick<FragmentRow, 'content' | 'created_by_agent'>,
): Promise<string | undefined> {
  if (space.conflict_check !== 'rules') return undefined;
  await lockComparing(tx, space.id);
  const text = wordsIn(fresh.content);
  const like = await findLikeWords(tx, { ownerId: space.id, id: null, text, limit: COMPARED });
  const isMet = (fragment: FragmentRow) =>
    mayJoin(fragment, fresh) &&
    maySee(fragment, fresh.created_by_agent ?? undefined) &&
    contradicts(wordsIn(fragment.content), text);
  const fragments = await readFragments(
    tx,
    like.map(({ id }) => id),
  );
  for (const { id } of fragments.filter(isMet)) {
    // It may be another one by now, or gone.
    const held = await findFragment(tx, { id, workspaceId: space.workspace_id, lock: true });
    if (held && isMet(held.fragment)) return id;
  }
  return undefined;
}

/** Whether two fragments may stand in one place: the same agents see both, and neither is to go before the other. */
export function mayJoin(older: Kept, newer: Kept): boolean {
  const isOpen = [older, newer].every(
    ({ visibility, requires_resolution: isAsked }) => visibility !== 'private' && !isAsked,
  );
  return (
    isOpen &&
    isSame(older.allowed_agents, newer.allowed_agents) &&
    isSame(older.denied_agents, newer.denied_agents) &&
    isKeptAsLong(older, newer)
  );
}

/** A policy that names a length of time sets the end anew with each write. */
function isKeptAsLong(older: Kept, newer: Kept): boolean {
  if (older.expires_at === null || newer.expires_at === null) return older.expires_at === newer.expires_at;
  return older.retention_policy === newer.retention_policy && older.expires_at <= newer.expires_at;
}

function isSame(left: readonly string[], right: readonly string[]): boolean {
  return left.every((each) => right.includes(each)) && right.every((each) => left.includes(each));
}

/** Where a model is to look for it, it is asked after the commit. */
export async function checkLater(
  tx: Tx,
  { tenantId }: Caller,
  { space, id }: { space: Pick<SpaceRow, 'id' | 'conflict_check'>; id: string },
): Promise<void> {
  if (space.conflict_check !== 'model') return;
  await insertChecks(tx, { tenantId, subjectType: 'fragment', subjectIds: [id], ownerId: space.id });
}
