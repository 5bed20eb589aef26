/** Suspends a tenant, an agent, a tool or a tool server before its next call, in every worker, until it is lifted. */
import { conflict, forbidden, notFound } from '../../core/errors.ts';
import type { Tx } from '../../db/database.ts';
import { advancePolicyEpoch } from '../../db/governance.ts';
import {
  listDrivenRuns,
  suspendAgent,
  suspendToolServer,
  suspendTenant,
  suspendTool,
  type SuspensionChange,
} from '../../db/suspension.ts';
import { asOtherTenant } from '../../db/tenants.ts';
import type { Context } from './context.ts';
import { untilEarlierCommitsEnd } from './earlier-commits.ts';
import { BUILTIN_TOOLS } from '../../tools/builtin.ts';
import type { Caller } from '../../core/caller.ts';
import { reconcile } from '../run-log/reconcile.ts';
import { recordAudit } from '../audit/record-audit.ts';

export interface SuspensionRequest {
  /** `mcp_server` means any tool server, as in the audit log. */
  kind: 'tenant' | 'agent' | 'tool' | 'mcp_server';
  id: string;
  suspended: boolean;
  /** How long to wait for commits under way. */
  patienceMs?: number;
}

/**
 * Suspends or lifts; a repeated call changes nothing. Runs of a suspended tenant or agent wait where they are; a call
 * of a suspended tool or server is an observation. After a suspension's answer no call begins. Throws 404; 403 if a
 * tenant lifts the operator's suspension; 409 for a built-in tool; 503 if commits older than the suspension have not
 * ended after `patienceMs`: it holds, and a repeated request waits for them again.
 */
export async function setSuspension(context: Context, caller: Caller, suspend: SuspensionRequest): Promise<void> {
  if (suspend.kind === 'tool' && BUILTIN_TOOLS.some(({ id }) => id === suspend.id)) {
    throw conflict('A built-in tool cannot be suspended; a policy can block it.');
  }
  const tenantId = suspend.kind === 'tenant' ? suspend.id : caller.tenantId;
  if (tenantId !== caller.tenantId && !caller.isOperator) throw notFound('This tenant');
  const { changed, driven } = await context.db.withTenant(tenantId, async (tx) => {
    // Raises the epoch first: a commit that waits for this row then sees the suspension.
    await advancePolicyEpoch(tx);
    const done = await write(tx, caller, suspend);
    if (!done) throw notFound(suspend.kind === 'mcp_server' ? 'This server' : `This ${suspend.kind}`);
    if (done.held) throw forbidden('The operator has suspended this tenant, and lifts it.');
    if (done.changed) await auditSuspension(tx, caller, { suspension: suspend, tenantId });
    return { ...done, driven: done.changed && suspend.suspended ? await listDrivenRuns(tx) : [] };
  });
  for (const runId of driven) context.bus.publish({ subject: runId, kind: 'governed' });
  if (suspend.suspended) await untilEarlierCommitsEnd(context.db, suspend.patienceMs);
  if (changed && !suspend.suspended) await goOn(context, tenantId);
}

function write(
  tx: Tx,
  caller: Caller,
  { kind, id, suspended }: SuspensionRequest,
): Promise<SuspensionChange | undefined> {
  if (kind === 'agent') return suspendAgent(tx, { id, suspended, workspaceId: caller.workspaceId });
  if (kind === 'tool') return suspendTool(tx, { id, suspended });
  if (kind === 'mcp_server') return suspendToolServer(tx, { id, suspended });
  return suspendTenant(tx, { suspended, by: caller.isOperator ? 'operator' : 'tenant' });
}

async function auditSuspension(
  tx: Tx,
  caller: Caller,
  { suspension, tenantId }: { suspension: SuspensionRequest; tenantId: string },
): Promise<void> {
  const { kind, id, suspended } = suspension;
  const entry = { action: suspended ? (`${kind}.suspended` as const) : (`${kind}.resumed` as const) };
  const target = [kind, id] as const;
  await recordAudit(tx, { ...caller, tenantId }, { ...entry, target });
  if (tenantId === caller.tenantId) return;
  await asOtherTenant(tx, caller.tenantId, () => recordAudit(tx, caller, { ...entry, target }));
}

/** Sends jobs of waiting runs at once; if the queue is away, reconciliation sends them. */
async function goOn(context: Context, tenantId: string): Promise<void> {
  try {
    await reconcile(context, 0, tenantId);
  } catch (error) {
    context.log.warn({ err: error }, 'what was suspended goes on with the next reconciliation');
  }
}
