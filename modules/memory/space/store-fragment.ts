/** Stores fragments, with their words, provenance, and a record of who wrote. */
import type { Caller } from '../../../core/caller.ts';
import { notFound } from '../../../core/errors.ts';
import type { Tx } from '../../../db/database.ts';
import {
  findFragment,
  noteAccesses,
  writeFragment,
  type FragmentContent,
  type FragmentProvenance,
  type FragmentRow,
} from '../../../db/memory-fragments.ts';
import { newId } from '../../../lib/new-id.ts';

/** Stores a fragment, or its next version, and records who wrote it. */
export async function storeFragment(
  tx: Tx,
  caller: Caller,
  ...[row, operation = 'write']: [
    Omit<FragmentRow, 'last_accessed' | 'created_at' | 'updated_at'>,
    ('write' | 'resolve')?,
  ]
): Promise<void> {
  await writeRow(tx, caller.tenantId, row);
  const agentId = row.provenance.created_by_agent ?? null;
  const fragments = [{ access: newId(), id: row.id }];
  await noteAccesses(tx, { tenantId: caller.tenantId, agentId, operation, fragments });
}

/** Stores the row and its words, without a record of who wrote it. */
export async function writeRow(
  tx: Tx,
  tenantId: string,
  row: Omit<FragmentRow, 'last_accessed' | 'created_at' | 'updated_at'>,
): Promise<void> {
  await writeFragment(tx, { ...row, tenant_id: tenantId, words: wordsIn(row.content) });
}

/** The fragment as just written. Throws 404. */
export async function rereadFragment(tx: Tx, caller: Caller, id: string): Promise<FragmentRow> {
  const found = await findFragment(tx, { id, workspaceId: caller.workspaceId, even: 'ended' });
  if (!found) throw notFound('The fragment');
  return found.fragment;
}

/** Who wrote it and when, and what else the client says of it. */
export function provenanceOf({
  provenance = {},
  agent_id: agent,
}: {
  provenance?: FragmentProvenance | undefined;
  agent_id?: string | undefined;
}) {
  return {
    ...provenance,
    created_by_agent: agent ?? provenance.created_by_agent ?? null,
    created_at: new Date().toISOString(),
  };
}

/** Known versions before the current one. */
export function earlierVersions({ provenance }: FragmentRow): unknown[] {
  const known = provenance['previous_versions'];
  return Array.isArray(known) ? known : [];
}

/**
 * Whether an agent may see a fragment, by the rule of `VISIBLE`: a denied one may not, even as its creator. Callers
 * that are no agent see all of a workspace.
 */
export function maySee(
  { created_by_agent: by, visibility, allowed_agents: allowed, denied_agents: denied }: FragmentRow,
  agentId: string | undefined,
): boolean {
  if (agentId === undefined) return true;
  if (denied.includes(agentId)) return false;
  if (by === agentId) return true;
  return visibility === 'private' ? allowed.includes(agentId) : allowed.length === 0 || allowed.includes(agentId);
}

/** All texts in a content, with their field names. */
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
