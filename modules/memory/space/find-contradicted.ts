/** Looks in a space for what a new fragment contradicts, where the space asks for that. */
import { contradicts } from '../../../core/memory/contradiction.ts';
import type { Caller } from '../../../core/caller.ts';
import type { Tx } from '../../../db/database.ts';
import { findLikeWords, insertChecks } from '../../../db/memory-conflicts.ts';
import { readFragments, type FragmentContent, type SpaceRow } from '../../../db/memory-spaces.ts';
import { maySee, wordsIn } from './store-fragment.ts';

const COMPARED = 5;

/** The fragment that a write contradicts by rules, among those that its writer may see and that are nobody's own; undefined if there is none. */
export async function findContradicted(
  tx: Tx,
  space: Pick<SpaceRow, 'id' | 'conflict_check'>,
  write: { content: FragmentContent; agent_id?: string | undefined },
): Promise<string | undefined> {
  if (space.conflict_check !== 'rules') return undefined;
  const text = wordsIn(write.content);
  const like = await findLikeWords(tx, { ownerId: space.id, id: null, text, limit: COMPARED });
  const fragments = await readFragments(
    tx,
    like.map(({ id }) => id),
  );
  const found = fragments.find(
    (fragment) =>
      fragment.visibility !== 'private' &&
      !fragment.requires_resolution &&
      maySee(fragment, write.agent_id) &&
      contradicts(wordsIn(fragment.content), text),
  );
  return found?.id;
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
