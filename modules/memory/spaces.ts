/** Memory that agents share: who may see it, and what becomes of writes that meet. */
import type { Caller } from '../../core/caller.ts';
import { conflict, forbidden, notFound, type DroverError } from '../../core/errors.ts';
import { mergeThreeWay } from '../../core/memory/merge.ts';
import type { Tx } from '../../db/database.ts';
import {
  deleteFragment,
  findFragment,
  findSpace,
  findVersion,
  insertSpace,
  listFragmentVersions,
  listSpaces,
  lockSpace,
  noteAccesses,
  writeFragment,
  type FragmentContent,
  type FragmentRow,
  type SpaceRow,
  type Visibility,
} from '../../db/memory-spaces.ts';
import { newId } from '../../lib/new-id.ts';
import { recordAudit } from '../audit/record-audit.ts';

export type { FragmentContent, FragmentRow, SpaceRow };

type SpaceFields = Omit<SpaceRow, 'id' | 'workspace_id' | 'created_at' | 'scope'>;
export type NewSpace = { [Field in keyof SpaceFields]?: SpaceFields[Field] | undefined } & Pick<SpaceRow, 'scope'>;

/** Makes a space of the caller's workspace. */
export async function createSpace(tx: Tx, caller: Caller, space: NewSpace): Promise<SpaceRow> {
  const id = newId();
  const { tenantId: tenant_id, workspaceId: workspace_id } = caller;
  await insertSpace(tx, {
    id,
    tenant_id,
    workspace_id,
    name: space.name ?? null,
    team_id: space.team_id ?? null,
    workflow_id: space.workflow_id ?? null,
    scope: space.scope,
    allowed_agents: space.allowed_agents ?? [],
    denied_agents: space.denied_agents ?? [],
    max_fragments: space.max_fragments ?? null,
    retention_policy: space.retention_policy ?? null,
  });
  return requireSpace(tx, caller, id);
}

/** A space of the caller's workspace. Throws 404. */
export async function requireSpace(tx: Tx, caller: Caller, id: string): Promise<SpaceRow> {
  const space = await findSpace(tx, { id, workspaceId: caller.workspaceId });
  if (!space) throw notFound('This space');
  return space;
}

/** A page of the workspace's spaces, newest first. */
export async function readSpaces(
  tx: Tx,
  caller: Caller,
  page: { before?: string | undefined; limit: number },
): Promise<SpaceRow[]> {
  return listSpaces(tx, { ...page, workspaceId: caller.workspaceId });
}

/** A fragment with all of its versions. Throws 404. */
export async function requireFragment(
  tx: Tx,
  caller: Caller,
  id: string,
): Promise<{ fragment: FragmentRow; versions: Awaited<ReturnType<typeof listFragmentVersions>> }> {
  const found = await findFragment(tx, { id, workspaceId: caller.workspaceId });
  if (!found) throw notFound('This fragment');
  return { fragment: found.fragment, versions: await listFragmentVersions(tx, id) };
}

/** Takes a fragment away for good. Throws 404. */
export async function removeFragment(tx: Tx, caller: Caller, id: string): Promise<void> {
  await requireFragment(tx, caller, id);
  await deleteFragment(tx, id);
  await recordAudit(tx, caller, { action: 'memory.forgotten', target: ['fragment', id] });
}

export interface FragmentWrite {
  space_id: string;
  /** Absent: a new fragment. */
  fragment_id?: string | undefined;
  content: FragmentContent;
  /** Who acts: an agent; the key's owner where nobody is named. */
  agent_id?: string | undefined;
  visibility?: Visibility | undefined;
  allowed_agents?: string[] | undefined;
  denied_agents?: string[] | undefined;
  /** Refused where the fragment is at another version. */
  expected_version?: number | undefined;
  /** The version that the writer had read: a later one is merged with what is written. */
  base_version?: number | undefined;
  /** `semantic_conflict`: both contents are kept until somebody resolves it. */
  conflict_type?: 'concurrent_write' | 'version_mismatch' | 'semantic_conflict' | undefined;
  provenance?: Record<string, unknown> | undefined;
  retention_policy?: string | undefined;
  expires_at?: Date | undefined;
}

export interface WrittenResult {
  fragment: FragmentRow;
  /** Merged with what others had written since. */
  merged: boolean;
  /** What both sides have changed in different ways. */
  conflicts: string[];
}

/** Writes a fragment. Throws 404, 403 for an agent that is not let in, 409 for a stale version and for a space that is full. */
export async function writeToSpace(tx: Tx, caller: Caller, write: FragmentWrite): Promise<WrittenResult> {
  const space = await requireSpace(tx, caller, write.space_id);
  letIn(space, write.agent_id);
  return write.fragment_id === undefined
    ? addFragment(tx, caller, { space, write })
    : changeFragment(tx, caller, { id: write.fragment_id, write });
}

/** Throws 403 for an agent that a space does not let in. */
export function letIn({ allowed_agents: allowed, denied_agents: denied }: SpaceRow, agentId: string | undefined): void {
  if (agentId === undefined) return;
  const isIn = !denied.includes(agentId) && (allowed.length === 0 || allowed.includes(agentId));
  if (!isIn) throw forbidden('This agent is not let into this space.');
}

async function addFragment(
  tx: Tx,
  caller: Caller,
  { space, write }: { space: SpaceRow; write: FragmentWrite },
): Promise<WrittenResult> {
  const { expected_version: expected = 0 } = write;
  if (expected > 0) {
    throw conflict('A new fragment has no version yet.', { expected_version: expected, current_version: 0 });
  }
  if (space.max_fragments !== null && (await lockSpace(tx, space.id)) >= space.max_fragments) {
    throw conflict(`The space has its ${space.max_fragments} fragments already.`, {
      max_fragments: space.max_fragments,
    });
  }
  const id = newId();
  const fresh = {
    id,
    space_id: space.id,
    visibility: write.visibility ?? space.scope,
    allowed_agents: write.allowed_agents ?? [],
    denied_agents: write.denied_agents ?? [],
    created_by_agent: write.agent_id ?? null,
    retention_policy: write.retention_policy ?? space.retention_policy,
    expires_at: write.expires_at ?? null,
  };
  await store(tx, caller, {
    ...fresh,
    version: 1,
    content: write.content,
    requires_resolution: false,
    provenance: provenanceOf(write),
  });
  return { fragment: await reread(tx, caller, id), merged: false, conflicts: [] };
}

async function changeFragment(
  tx: Tx,
  caller: Caller,
  { id, write }: { id: string; write: FragmentWrite },
): Promise<WrittenResult> {
  // Held until the commit: of writers that meet, each sees what the one before has written.
  const found = await findFragment(tx, { id, workspaceId: caller.workspaceId, lock: true });
  if (!found || found.space.id !== write.space_id || !maySee(found.fragment, write.agent_id))
    throw notFound('This fragment');
  const { fragment } = found;
  const { expected_version: expected, base_version: baseVersion } = write;
  if (expected !== undefined && expected !== fragment.version) throw staleVersion(fragment, { expected, write });
  if (baseVersion !== undefined && baseVersion > fragment.version)
    throw staleVersion(fragment, { expected: baseVersion, write });
  const next = await nextContent(tx, { fragment, write, baseVersion });
  const history = { previous_versions: [...earlier(fragment), fragment.version].slice(-100) };
  await store(tx, caller, {
    ...fragment,
    visibility: write.visibility ?? fragment.visibility,
    allowed_agents: write.allowed_agents ?? fragment.allowed_agents,
    denied_agents: write.denied_agents ?? fragment.denied_agents,
    retention_policy: write.retention_policy ?? fragment.retention_policy,
    expires_at: write.expires_at ?? fragment.expires_at,
    version: fragment.version + 1,
    content: next.content,
    requires_resolution: next.unresolved || (fragment.requires_resolution && !next.replaces),
    provenance: { ...provenanceOf(write), ...history, ...next.provenance },
  });
  if (next.unresolved) {
    const details = { space_id: fragment.space_id, version: fragment.version + 1, conflicts: next.conflicts };
    await recordAudit(tx, caller, { action: 'memory.conflicted', target: ['fragment', id], details });
  }
  return { fragment: await reread(tx, caller, id), merged: next.merged, conflicts: next.conflicts };
}

function staleVersion(
  { version, content, provenance }: FragmentRow,
  { expected, write }: { expected: number; write: FragmentWrite },
): DroverError {
  return conflict('The fragment is at another version.', {
    expected_version: expected,
    current_version: version,
    current: { version, content, provenance },
    yours: { version: expected, content: write.content },
  });
}

interface NextContent {
  content: FragmentContent;
  provenance: Record<string, unknown>;
  merged: boolean;
  conflicts: string[];
  /** Somebody has to decide. */
  unresolved: boolean;
  /** It stands in the place of what was there. */
  replaces: boolean;
}

async function nextContent(
  tx: Tx,
  { fragment, write, baseVersion }: { fragment: FragmentRow; write: FragmentWrite; baseVersion: number | undefined },
): Promise<NextContent> {
  const plain = {
    content: write.content,
    provenance: {},
    merged: false,
    conflicts: [],
    unresolved: false,
    replaces: true,
  };
  if (write.conflict_type === 'semantic_conflict') {
    const sources = { a: fragment.provenance, b: provenanceOf(write) };
    const data = { conflict_detected: true, version_a: fragment.content.data, version_b: write.content.data, sources };
    const content = { type: 'structured' as const, data };
    return { ...plain, content, conflicts: ['content'], unresolved: true, replaces: false };
  }
  const base =
    baseVersion === undefined || baseVersion === fragment.version
      ? undefined
      : await findVersion(tx, { id: fragment.id, version: baseVersion });
  // Without a version to start from the last writer wins, with provenance.
  if (!base) return plain;
  const { data, conflicts } = mergeThreeWay(base.content.data, fragment.content.data, write.content.data);
  const provenance = { merged_from: [fragment.version, 'write'], base_version: baseVersion };
  const content = { type: write.content.type, data };
  return { content, provenance, merged: true, conflicts, unresolved: conflicts.length > 0, replaces: false };
}

/** Decides what a fragment says from now on. Throws 404, 403 for an agent that is not let in. */
export async function resolveFragment(
  tx: Tx,
  caller: Caller,
  { id, content, agentId }: { id: string; content: FragmentContent; agentId: string | undefined },
): Promise<FragmentRow> {
  const found = await findFragment(tx, { id, workspaceId: caller.workspaceId, lock: true });
  if (!found || !maySee(found.fragment, agentId)) throw notFound('This fragment');
  letIn(await requireSpace(tx, caller, found.fragment.space_id), agentId);
  const { fragment } = found;
  const provenance = {
    ...provenanceOf({ agent_id: agentId }),
    resolved: true,
    previous_versions: [...earlier(fragment), fragment.version].slice(-100),
  };
  const next = { ...fragment, version: fragment.version + 1, content, requires_resolution: false, provenance };
  await store(tx, caller, next, 'resolve');
  await recordAudit(tx, caller, { action: 'memory.resolved', target: ['fragment', id] });
  return reread(tx, caller, id);
}

async function store(
  tx: Tx,
  caller: Caller,
  ...[row, operation = 'write']: [
    Omit<FragmentRow, 'last_accessed' | 'created_at' | 'updated_at'>,
    ('write' | 'resolve')?,
  ]
): Promise<void> {
  await writeFragment(tx, { ...row, tenant_id: caller.tenantId, words: wordsIn(row.content) });
  const agentId = (row.provenance['created_by_agent'] as string | null | undefined) ?? null;
  const fragments = [{ access: newId(), id: row.id }];
  await noteAccesses(tx, { tenantId: caller.tenantId, agentId, operation, fragments });
}

async function reread(tx: Tx, caller: Caller, id: string): Promise<FragmentRow> {
  return (await requireFragment(tx, caller, id)).fragment;
}

function provenanceOf({ provenance = {}, agent_id: agent }: Pick<FragmentWrite, 'provenance' | 'agent_id'>) {
  return {
    ...provenance,
    created_by_agent: agent ?? provenance['created_by_agent'] ?? null,
    created_at: new Date().toISOString(),
  };
}

function earlier({ provenance }: FragmentRow): unknown[] {
  const known = provenance['previous_versions'];
  return Array.isArray(known) ? known : [];
}

function maySee(
  { created_by_agent: by, visibility, allowed_agents: allowed, denied_agents: denied }: FragmentRow,
  agentId: string | undefined,
): boolean {
  if (agentId === undefined || by === agentId) return true;
  if (denied.includes(agentId)) return false;
  return visibility === 'private' ? allowed.includes(agentId) : allowed.length === 0 || allowed.includes(agentId);
}

/** All texts of a content, with the names of their fields. */
export function wordsIn({ data }: FragmentContent): string {
  if (typeof data === 'string') return data;
  if (typeof data !== 'object' || data === null) return data === undefined ? '' : JSON.stringify(data);
  return Object.entries(data)
    .map(
      ([key, value]) =>
        `${Array.isArray(data) ? '' : key.replaceAll('_', ' ')} ${wordsIn({ type: 'text', data: value })}`,
    )
    .join('\n');
}
