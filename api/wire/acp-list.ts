/** Lists an agent's threads as the sessions of ACP. */
import { RequestError, type ListSessionsRequest, type ListSessionsResponse } from '@agentclientprotocol/sdk';
import type { Caller } from '../../core/caller.ts';
import { forbidden } from '../../core/errors.ts';
import { hasScope } from '../../core/scopes.ts';
import type { Context } from '../../modules/governance/context.ts';
import { readThreads } from '../../modules/conversations/threads.ts';
import { idParam } from '../kit/validate.ts';

const PAGE = 50;

/**
 * A page, newest first; only the one thread for a caller with its token. Throws 403 without the scope `runs:read`,
 * -32602 for an invalid cursor.
 */
export async function listSessions(
  context: Context,
  { caller, agentId }: { caller: Caller; agentId: string },
  { cursor }: ListSessionsRequest,
): Promise<ListSessionsResponse> {
  if (caller.boundThreadId === undefined && !hasScope(caller.scopes, 'runs:read'))
    throw forbidden('Listing sessions needs the scope runs:read.');
  const before = cursor == null ? undefined : idParam.safeParse(cursor).data;
  if (cursor != null && before === undefined) throw RequestError.invalidParams(undefined, 'cursor is none of a list');
  const rows = await context.db.withTenant(caller.tenantId, (tx) =>
    readThreads(tx, caller, { agentId, before, limit: PAGE + 1 }),
  );
  const page = rows.slice(0, PAGE);
  const { boundThreadId: only } = caller;
  const sessions = page
    .filter((row) => row.erased_at === null && (only === undefined || row.id === only))
    .map((row) => ({
      sessionId: row.id,
      cwd: '/',
      title: row.title,
      updatedAt: row.updated_at.toISOString(),
    }));
  return { sessions, ...(rows.length > PAGE && { nextCursor: page.at(-1)?.id ?? null }) };
}
