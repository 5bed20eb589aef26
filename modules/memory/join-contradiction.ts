/** Joins a fragment with the one it contradicts, marked for people to decide. */
import type { Tx } from '../../db/database.ts';
import { endFragment, findFragment } from '../../db/memory-fragments.ts';
import { openConflict } from './conflicts.ts';
import { mayJoin } from './space/find-contradicted.ts';
import { nextContent } from './space/next-content.ts';
import { earlierVersions, provenanceOf, writeRow } from './space/store-fragment.ts';

/** The older fragment gets both sides; the newer one ends, and points to it. */
export async function joinContradiction(
  tx: Tx,
  of: { tenantId: string; workspaceId: string; id: string; others: readonly { id: string }[] },
): Promise<void> {
  const { tenantId, workspaceId } = of;
  const [first] = of.others;
  const older = first && (await findFragment(tx, { id: first.id, workspaceId, lock: true }));
  const newer = await findFragment(tx, { id: of.id, workspaceId, lock: true });
  if (!older || !newer || !mayJoin(older.fragment, newer.fragment)) return;
  const write = {
    content: newer.fragment.content,
    agent_id: newer.fragment.created_by_agent ?? undefined,
    provenance: newer.fragment.provenance,
    conflict_type: 'semantic_conflict' as const,
  };
  const { fragment } = older;
  const next = await nextContent(tx, { fragment, write, baseVersion: undefined });
  const version = fragment.version + 1;
  const history = {
    previous_versions: [...earlierVersions(fragment), fragment.version].slice(-100),
    merged_from: [fragment.id, newer.fragment.id],
  };
  const row = {
    ...fragment,
    version,
    content: next.content,
    expires_at: newer.fragment.expires_at,
    requires_resolution: true,
    provenance: { ...provenanceOf(write), ...history },
  };
  await writeRow(tx, tenantId, row);
  await endFragment(tx, { id: newer.fragment.id, mergedInto: fragment.id });
  await openConflict(tx, {
    tenantId,
    workspaceId,
    by: { tenantId },
    subject: ['fragment', fragment.id],
    sides: { space_id: fragment.space_id, version, version_a: fragment.content, version_b: write.content },
    details: { space_id: fragment.space_id, version, conflicts: ['content'] },
    message: 'A shared fragment contradicts another one.',
  });
}
