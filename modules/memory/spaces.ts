/** Shared memory: spaces and their fragments. */
import type { Caller } from '../../core/caller.ts';
import { notFound } from '../../core/errors.ts';
import { digestOf } from '../../core/ids.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Tx } from '../../db/database.ts';
import {
  countFragmentUses,
  deleteFragments,
  findFragment,
  listFragmentVersions,
  listMergedInto,
  type FragmentContent,
  type FragmentRow,
  type FragmentVersion,
} from '../../db/memory-fragments.ts';
import { findSpace, insertSpace, listSpaces, type SpaceRow } from '../../db/memory-spaces.ts';
import { forgetConflicts } from '../../db/memory-conflicts.ts';
import { forgetInRuns } from '../../db/memory-forget.ts';
import type { Page } from '../../db/page-bytes.ts';
import { findTeam } from '../../db/teams.ts';
import { findWorkflow } from '../../db/workflows.ts';
import { isUuid } from '../../lib/is-uuid.ts';
import { newId } from '../../lib/new-id.ts';
import { recordAudit } from '../audit/record-audit.ts';
import { requireAgents } from './space/access.ts';

export type { FragmentContent, FragmentRow, SpaceRow };

type SpaceFields = Omit<SpaceRow, 'id' | 'workspace_id' | 'created_at' | 'scope' | 'is_of_team'>;
type NewSpace = { [Field in keyof SpaceFields]?: SpaceFields[Field] | undefined } & Pick<SpaceRow, 'scope'>;

/**
 * Creates a space in the caller's workspace. One with a `team_id` admits the members of that team; an unknown team has
 * none. Throws 404 for an unknown agent or workflow.
 */
export async function createSpace(tx: Tx, caller: Caller, space: NewSpace): Promise<SpaceRow> {
  const id = newId();
  const { tenantId: tenant_id, workspaceId: workspace_id } = caller;
  const [teamId, workflowId] = [idIn(space.team_id), idIn(space.workflow_id)];
  const [team, workflow] = await Promise.all([
    teamId && findTeam(tx, teamId),
    workflowId && findWorkflow(tx, workflowId),
    requireAgents(tx, caller, space),
  ]);
  if (workflowId && (!workflow || workflow.workspace_id !== workspace_id))
    throw notFound(`The workflow "${workflowId}"`);
  const isOfTeam = team ? team.workspace_id === workspace_id : false;
  const access = {
    name: space.name ?? null,
    team_id: space.team_id ?? null,
    workflow_id: space.workflow_id ?? null,
    scope: space.scope,
    allowed_agents: space.allowed_agents ?? [],
    denied_agents: space.denied_agents ?? [],
  };
  const fields = {
    ...access,
    max_fragments: space.max_fragments ?? null,
    retention_policy: space.retention_policy ?? null,
    conflict_check: space.conflict_check ?? 'off',
  };
  await insertSpace(tx, { id, tenant_id, workspace_id, ...fields, is_of_team: isOfTeam });
  await recordAudit(tx, caller, {
    action: 'space.created',
    target: ['space', id],
    digest: digestOf(fields),
    details: access,
  });
  return requireSpace(tx, caller, id);
}

/** The name if it is a UUID; other names are the client's own and are not looked up. */
function idIn(name: string | null | undefined): string | undefined {
  return name && isUuid(name) ? name : undefined;
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

const VERSIONS = 50;

/** A fragment that has not expired, with a page of its versions. Throws 404. */
export async function requireFragment(
  tx: Tx,
  caller: Caller,
  { id, below, limit = VERSIONS }: { id: string; below?: number | undefined; limit?: number },
): Promise<{ fragment: FragmentRow; uses: number; history: Page<FragmentVersion> }> {
  const found = await findFragment(tx, { id, workspaceId: caller.workspaceId, even: 'merged' });
  if (!found) throw notFound('This fragment');
  const uses = await countFragmentUses(tx, { id, limit: LIMITS.countedUses });
  return { fragment: found.fragment, uses, history: await listFragmentVersions(tx, { id, below, limit }) };
}

/** Deletes a fragment for good, with those merged into it. Throws 404. */
export async function removeFragment(tx: Tx, caller: Caller, id: string): Promise<void> {
  if (!(await findFragment(tx, { id, workspaceId: caller.workspaceId, even: 'ended' })))
    throw notFound('This fragment');
  const ids = [id, ...(await listMergedInto(tx, id))];
  await deleteFragments(tx, { ids });
  await forgetConflicts(tx, ids);
  await forgetInRuns(tx, ids);
  await recordAudit(tx, caller, { action: 'memory.forgotten', target: ['fragment', id] });
}
