/** The brake: a tenant, an agent, a tool or an MCP server is suspended before its next call, in every worker, until that is lifted. */
import { conflict, forbidden, notFound } from '../../core/errors.ts';
import type { Tx } from '../../db/database.ts';
import { raiseGovernance } from '../../db/governance.ts';
import {
  listDrivenRuns,
  suspendAgent,
  suspendMcpServer,
  suspendTenant,
  suspendTool,
  type Braked,
} from '../../db/suspension.ts';
import { asOtherTenant } from '../../db/tenants.ts';
import type { Context } from './context.ts';
import { BUILTIN_TOOLS } from '../../tools/builtin.ts';
import type { Caller } from '../../core/caller.ts';
import { reconcile } from '../run-log/reconcile.ts';
import { recordAudit } from '../audit/record-audit.ts';

export interface Brake {
  kind: 'tenant' | 'agent' | 'tool' | 'mcp_server';
  id: string;
  suspended: boolean;
}

/**
 * Suspends or lifts; again is no different. Runs of a suspended tenant or agent wait where they stand; a call of a
 * suspended tool or server is an observation. Throws 404; 403 for a tenant that lifts what the operator has suspended; 409 for a
 * built-in tool.
 */
export async function applyBrake(context: Context, caller: Caller, brake: Brake): Promise<void> {
  if (brake.kind === 'tool' && BUILTIN_TOOLS.some(({ id }) => id === brake.id)) {
    throw conflict('A built-in tool cannot be suspended; a policy can block it.');
  }
  const tenant = brake.kind === 'tenant' ? brake.id : caller.tenantId;
  if (tenant !== caller.tenantId && !caller.isOperator) throw notFound('This tenant');
  const { changed, driven } = await context.db.withTenant(tenant, async (tx) => {
    // Before the change: a commit that waits for this row sees what comes of it.
    await raiseGovernance(tx);
    const done = await write(tx, caller, brake);
    if (!done) throw notFound(brake.kind === 'mcp_server' ? 'This MCP server' : `This ${brake.kind}`);
    if (done.held) throw forbidden('The operator has suspended this tenant, and lifts it.');
    if (done.changed) await auditBrake(tx, caller, { brake, tenant });
    return { ...done, driven: done.changed && brake.suspended ? await listDrivenRuns(tx) : [] };
  });
  for (const run of driven) context.bus.publish({ run, kind: 'governed' });
  if (changed && !brake.suspended) await goOn(context, tenant);
}

function write(tx: Tx, caller: Caller, { kind, id, suspended }: Brake): Promise<Braked | undefined> {
  if (kind === 'agent') return suspendAgent(tx, { id, suspended, workspaceId: caller.workspaceId });
  if (kind === 'tool') return suspendTool(tx, { id, suspended });
  if (kind === 'mcp_server') return suspendMcpServer(tx, { id, suspended });
  return suspendTenant(tx, { suspended, by: caller.isOperator ? 'operator' : 'tenant' });
}

async function auditBrake(tx: Tx, caller: Caller, { brake, tenant }: { brake: Brake; tenant: string }): Promise<void> {
  const { kind, id, suspended } = brake;
  const entry = { action: suspended ? (`${kind}.suspended` as const) : (`${kind}.resumed` as const) };
  const target = [kind, id] as const;
  await recordAudit(tx, { ...caller, tenantId: tenant }, { ...entry, target });
  if (tenant === caller.tenantId) return;
  await asOtherTenant(tx, caller.tenantId, () => recordAudit(tx, caller, { ...entry, target }));
}

/** What waited gets its jobs back at once; where the queue is away, reconciliation sees to it. */
async function goOn(context: Context, tenant: string): Promise<void> {
  try {
    await reconcile(context, 0, tenant);
  } catch (error) {
    context.log.warn({ err: error }, 'what was suspended goes on with the next reconciliation');
  }
}
