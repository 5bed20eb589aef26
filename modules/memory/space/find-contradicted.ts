/** Finds a fragment that a new one contradicts, if the space asks for that. */
import { contradicts } from '../../../core/memory/contradiction.ts';
import type { Caller } from '../../../core/caller.ts';
import type { Tx } from '../../../db/database.ts';
import { lockComparing } from '../../../db/memory-lock.ts';
import { findLikeFragments, insertChecks, type Kept } from '../../../db/memory-checks.ts';
import { findFragment, readFragments, type FragmentRow } from '../../../db/memory-fragments.ts';
import { type SpaceRow } from '../../../db/memory-spaces.ts';
import { maySee, wordsIn } from './store-fragment.ts';

const COMPARED = 5;

/**
 * The id of a fragment that a new one contradicts by rules, locked until the transaction ends; undefined if none. It
 * must be visible to the writer, and the two must be allowed to join.
 */
export async function findContradicted(
  tx: Tx,
  space: Pick<SpaceRow, 'id' | 'workspace_id' | 'conflict_check'>,
  fresh: Kept & Pick<FragmentRow, 'content' | 'created_by_agent'>,
): Promise<string | undefined> {
  if (space.conflict_check !== 'rules') return undefined;
  await lockComparing(tx, space.id);
  const text = wordsIn(fresh.content);
  const like = await findLikeFragments(tx, { spaceId: space.id, id: null, text, limit: COMPARED }, fresh);
  const isMet = (fragment: FragmentRow) =>
    mayJoin(fragment, fresh) &&
    maySee(fragment, fresh.created_by_agent ?? undefined) &&
    contradicts(wordsIn(fragment.content), text);
  const fragments = await readFragments(tx, like);
  for (const { id } of fragments.filter(isMet)) {
    // It may have changed by now, or be gone.
    const held = await findFragment(tx, { id, workspaceId: space.workspace_id, lock: true });
    if (held && isMet(held.fragment)) return id;
  }
  return undefined;
}

/**
 * Whether fragments may be joined: the same agents see both, none is private or disputed, and neither would expire too
 * early.
 */
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

/** A policy with a length of time sets the end anew with each write. */
function isKeptAsLong(older: Kept, newer: Kept): boolean {
  if (older.expires_at === null || newer.expires_at === null) return older.expires_at === newer.expires_at;
  return older.retention_policy === newer.retention_policy && older.expires_at <= newer.expires_at;
}

function isSame(left: readonly string[], right: readonly string[]): boolean {
  return left.every((each) => right.includes(each)) && right.every((each) => left.includes(each));
}

/** Adds a check for after the commit, if the space uses a model. */
export async function checkLater(
  tx: Tx,
  { tenantId }: Caller,
  { space, id }: { space: Pick<SpaceRow, 'id' | 'conflict_check'>; id: string },
): Promise<void> {
  if (space.conflict_check !== 'model') return;
  await insertChecks(tx, { tenantId, subjectType: 'fragment', subjectIds: [id], ownerId: space.id });
}
