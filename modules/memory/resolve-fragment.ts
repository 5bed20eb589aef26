/** Resolves a contradiction in a fragment. */
import { canonicalJson } from '../../core/canonical-json.ts';
import type { Caller } from '../../core/caller.ts';
import { conflict, notFound } from '../../core/errors.ts';
import type { Tx } from '../../db/database.ts';
import { findFragment, type FragmentContent, type FragmentRow } from '../../db/memory-fragments.ts';
import { recordAudit } from '../audit/record-audit.ts';
import { settleConflicts } from './conflicts.ts';
import { requireAccess, requireAgents } from './space/access.ts';
import { earlierVersions, maySee, provenanceOf, rereadFragment, storeFragment } from './space/store-fragment.ts';
import { requireSpace } from './spaces.ts';

interface Resolution {
  id: string;
  content: FragmentContent;
  agentId: string | undefined;
  /** The version that was decided on; any if absent. */
  version?: number | undefined;
  /** Whether that ends people's open questions about it. */
  settles: boolean;
  /** Whether the content is itself an undecided contradiction. */
  isUndecided?: boolean;
}

/**
 * Sets a fragment's content after a decision. The same decision again changes nothing. Throws 404, 403 for an agent without
 * access, 409 for another version or no conflict.
 */
export async function resolveFragment(
  tx: Tx,
  caller: Caller,
  { id, content, agentId, version, settles, isUndecided = false }: Resolution,
): Promise<FragmentRow> {
  const [found] = await Promise.all([
    findFragment(tx, { id, workspaceId: caller.workspaceId, lock: true }),
    requireAgents(tx, caller, { agent_id: agentId }),
  ]);
  if (!found) throw notFound('This fragment');
  const { fragment } = found;
  await requireAccess(tx, await requireSpace(tx, caller, fragment.space_id), agentId);
  if (!maySee(fragment, agentId)) throw notFound('This fragment');
  if (version !== undefined && version !== fragment.version)
    throw conflict('The fragment has changed since.', { expected_version: version, current_version: fragment.version });
  if (!fragment.requires_resolution) {
    if (isResolvedTo(fragment, content)) return fragment;
    throw conflict('The fragment has no conflict to resolve. POST /v1/memory/write changes what it says.');
  }
  const provenance = {
    ...provenanceOf({ agent_id: agentId }),
    resolved: !isUndecided,
    previous_versions: [...earlierVersions(fragment), fragment.version].slice(-100),
  };
  const next = { ...fragment, version: fragment.version + 1, content, requires_resolution: isUndecided, provenance };
  await storeFragment(tx, caller, next, 'resolve');
  const { tenantId, workspaceId, keyId } = caller;
  if (settles) await settleConflicts(tx, { tenantId, workspaceId, subjectId: id, keyId });
  if (!isUndecided) await recordAudit(tx, caller, { action: 'memory.resolved', target: ['fragment', id] });
  return rereadFragment(tx, caller, id);
}

function isResolvedTo({ content: now, provenance }: FragmentRow, content: FragmentContent): boolean {
  return provenance['resolved'] === true && canonicalJson(now) === canonicalJson(content);
}

/** Reads a fragment's content: a text, or `{type, data}`; undefined for anything else. */
export function contentOf(given: unknown): FragmentContent | undefined {
  if (typeof given === 'string' && given.trim() !== '') return { type: 'text', data: given };
  if (typeof given !== 'object' || given === null || !('data' in given)) return undefined;
  const type = 'type' in given && given.type === 'structured' ? 'structured' : 'text';
  return { type, data: given.data };
}
