/** Writes shared memory, and handles concurrent writes. */
import type { Caller } from '../../core/caller.ts';
import { conflict, impossible, notFound, unavailable, type DroverError } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import { bytesOf } from '../../core/tool-output.ts';
import { retainedUntil } from '../../core/memory/retention.ts';
import { hasScope } from '../../core/scopes.ts';
import type { Tx } from '../../db/database.ts';
import { findConflictAt } from '../../db/memory-conflicts.ts';
import {
  findFragment,
  type FragmentContent,
  type FragmentProvenance,
  type FragmentRow,
} from '../../db/memory-fragments.ts';
import { lockSpace, type SpaceRow, type Visibility } from '../../db/memory-spaces.ts';
import { newId } from '../../lib/new-id.ts';
import type { OneByOne } from '../../lib/one-by-one.ts';
import { openConflict, settleConflicts } from './conflicts.ts';
import { requireAccess, requireAgents } from './space/access.ts';
import { findContradicted, checkLater } from './space/find-contradicted.ts';
import { nextContent, type NextContent } from './space/next-content.ts';
import { earlierVersions, maySee, provenanceOf, rereadFragment, storeFragment } from './space/store-fragment.ts';
import { requireSpace } from './spaces.ts';

interface FragmentWrite {
  space_id: string;
  /** Absent: a new fragment. */
  fragment_id?: string | undefined;
  content: FragmentContent;
  /** The acting agent; absent: the key's owner. */
  agent_id?: string | undefined;
  visibility?: Visibility | undefined;
  allowed_agents?: string[] | undefined;
  denied_agents?: string[] | undefined;
  /** The write is refused if the fragment is at another version. */
  expected_version?: number | undefined;
  /** The version that the writer had read; a later one is merged with the write. */
  base_version?: number | undefined;
  /** `semantic_conflict`: both contents are kept until somebody resolves it. */
  conflict_type?: 'concurrent_write' | 'version_mismatch' | 'semantic_conflict' | undefined;
  provenance?: FragmentProvenance | undefined;
  retention_policy?: string | undefined;
  expires_at?: Date | undefined;
}

interface WrittenResult {
  fragment: FragmentRow;
  /** Merged with later writes of others. */
  merged: boolean;
  /** Places that both sides changed differently. */
  conflicts: string[];
}

/**
 * Queues the writers of a fragment before they take a connection: waiting for its row they could take all of the
 * process's. Throws 503 if too many wait already.
 */
export async function inLine<T>(
  writers: OneByOne,
  { tenantId, fragmentId }: { tenantId: string; fragmentId: string | undefined },
  work: () => Promise<T>,
): Promise<T> {
  if (fragmentId === undefined) return work();
  const key = `${tenantId} ${fragmentId}`;
  if (writers.countOf(key) >= LIMITS.fragmentWriters)
    throw unavailable(`${LIMITS.fragmentWriters} writes to this fragment wait already.`);
  return writers.run(key, work);
}

/** Writes a fragment. Throws 404, 403 for an agent without access, 409 for a stale version or a full space. */
export async function writeToSpace(tx: Tx, caller: Caller, write: FragmentWrite): Promise<WrittenResult> {
  const [space] = await Promise.all([requireSpace(tx, caller, write.space_id), requireAgents(tx, caller, write)]);
  await requireAccess(tx, space, write.agent_id);
  if (write.fragment_id !== undefined) return changeFragment(tx, caller, { id: write.fragment_id, write });
  const { expected_version, base_version } = write;
  const expected = expected_version || base_version || 0;
  if (expected > 0)
    throw conflict('A new fragment has no version yet.', { expected_version: expected, current_version: 0 });
  const fresh = freshFragment(space, write);
  // Goes into the fragment that it contradicts, as if it had been written there.
  const contradicted = await findContradicted(tx, space, fresh);
  if (contradicted === undefined) return addFragment(tx, caller, { space, fresh });
  const { content, agent_id, provenance, expires_at } = write;
  const joined = { space_id: space.id, content, agent_id, provenance, expires_at };
  return changeFragment(tx, caller, { id: contradicted, write: { ...joined, conflict_type: 'semantic_conflict' } });
}

type FreshFragment = Omit<FragmentRow, 'last_accessed' | 'created_at' | 'updated_at'>;

function freshFragment(space: SpaceRow, write: FragmentWrite): FreshFragment {
  return {
    id: newId(),
    space_id: space.id,
    version: 1,
    content: write.content,
    visibility: write.visibility ?? space.scope,
    allowed_agents: write.allowed_agents ?? [],
    denied_agents: write.denied_agents ?? [],
    created_by_agent: write.agent_id ?? null,
    ...lifeOf(write, space.retention_policy),
    requires_resolution: false,
    provenance: provenanceOf(write),
  };
}

async function addFragment(
  tx: Tx,
  caller: Caller,
  { space, fresh }: { space: SpaceRow; fresh: FreshFragment },
): Promise<WrittenResult> {
  const { max_fragments: most } = space;
  if (most !== null && (await lockSpace(tx, { id: space.id, most }))) {
    throw conflict(`The space has its ${most} fragments already.`, { max_fragments: most });
  }
  const { id } = fresh;
  await storeFragment(tx, caller, fresh);
  await checkLater(tx, caller, { space, id });
  return { fragment: await rereadFragment(tx, caller, id), merged: false, conflicts: [] };
}

/** The end of a write: named by it, else anew by the length of its policy, else as before. */
function lifeOf(write: FragmentWrite, policyBefore: string | null, endBefore: Date | null = null) {
  const policy = write.retention_policy ?? policyBefore;
  return { retention_policy: policy, expires_at: write.expires_at ?? retainedUntil(policy, new Date()) ?? endBefore };
}

async function changeFragment(
  tx: Tx,
  caller: Caller,
  { id, write }: { id: string; write: FragmentWrite },
): Promise<WrittenResult> {
  // Locked until the commit, so that concurrent writers see each other's results in turn.
  const found = await findFragment(tx, { id, workspaceId: caller.workspaceId, lock: true });
  if (!found || found.space.id !== write.space_id || !maySee(found.fragment, write.agent_id))
    throw notFound('This fragment');
  const { fragment } = found;
  const { expected_version: expected, base_version: baseVersion } = write;
  if (expected !== undefined && expected !== fragment.version)
    throw staleVersion(caller, fragment, { expected, write });
  if (baseVersion !== undefined && baseVersion > fragment.version)
    throw staleVersion(caller, fragment, { expected: baseVersion, write });
  const next = await nextContent(tx, { fragment, write, baseVersion });
  if (next.merged && bytesOf(next.content.data) > LIMITS.fragmentBytes)
    throw impossible(
      `Merged with what has been written since, the fragment would have more than ${LIMITS.fragmentBytes} bytes.`,
    );
  const history = { previous_versions: [...earlierVersions(fragment), fragment.version].slice(-100) };
  await storeFragment(tx, caller, {
    ...fragment,
    visibility: write.visibility ?? fragment.visibility,
    allowed_agents: write.allowed_agents ?? fragment.allowed_agents,
    denied_agents: write.denied_agents ?? fragment.denied_agents,
    ...lifeOf(write, fragment.retention_policy, fragment.expires_at),
    version: fragment.version + 1,
    content: next.content,
    requires_resolution: next.unresolved || (fragment.requires_resolution && !next.replaces),
    provenance: { ...provenanceOf(write), ...history, ...next.provenance },
  });
  await askPeople(tx, caller, { fragment, write, next });
  return { fragment: await rereadFragment(tx, caller, id), merged: next.merged, conflicts: next.conflicts };
}

/** Asks people which side is right, or ends the question if the write replaces both. */
async function askPeople(
  tx: Tx,
  caller: Caller,
  { fragment, write, next }: { fragment: FragmentRow; write: FragmentWrite; next: NextContent },
): Promise<void> {
  const { tenantId, workspaceId, keyId } = caller;
  const { id, space_id: spaceId } = fragment;
  if (!next.unresolved) {
    if (next.replaces) await settleConflicts(tx, { tenantId, workspaceId, subjectId: id, keyId });
    return;
  }
  const version = fragment.version + 1;
  const earlier = fragment.requires_resolution && {
    earlier_approval_id: (await findConflictAt(tx, { subjectId: id, version: fragment.version })) ?? null,
  };
  const sides = { space_id: spaceId, version, version_a: fragment.content, version_b: write.content, ...earlier };
  await openConflict(tx, {
    tenantId,
    workspaceId,
    by: caller,
    subject: ['fragment', id],
    sides,
    details: { space_id: spaceId, version, conflicts: next.conflicts },
    message: 'Two writes to a shared fragment say different things.',
  });
}

/** 409; a caller that may not read is told the version only. */
function staleVersion(
  { scopes }: Caller,
  { version, content, provenance }: FragmentRow,
  { expected, write }: { expected: number; write: FragmentWrite },
): DroverError {
  return conflict('The fragment is at another version.', {
    expected_version: expected,
    current_version: version,
    current: { version, ...(hasScope(scopes, 'memory:read') && { content, provenance }) },
    yours: { version: expected, content: write.content },
  });
}
