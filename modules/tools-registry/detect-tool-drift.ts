/** A server's changes of its tools are shown to a person before any further call (tool poisoning). */
import { digestOf } from '../../core/ids.ts';
import { withPatch } from '../../core/patch.ts';
import { nextMinor } from '../../core/semver.ts';
import type { ToolDefinition } from '../../core/tool.ts';
import type { Database, Tx } from '../../db/database.ts';
import { advancePolicyEpoch } from '../../db/governance.ts';
import { isRefusedData } from '../../db/database-errors.ts';
import { suspendTool } from '../../db/suspension.ts';
import { listToolsOver, lockTool, proposeTool, publishToolVersion } from '../../db/tools.ts';
import type { ProposedTool, ToolRow } from '../../db/tools.ts';
import type { ServerDrift } from '../../tools/execute-tool.ts';
import type { ImportedTool } from '../../tools/transport-kind.ts';
import { locateTool } from '../../tools/transports.ts';
import type { Caller } from '../../core/caller.ts';
import { recordAudit } from '../audit/record-audit.ts';
import { recordVersion, hashTool } from './register-tool.ts';

/**
 * Suspends a server's registered tools that have changed description or schemas, or are gone, and stores the
 * difference; all of them if what the server lists cannot be used. New tools are left to an import. Repeating it, in any
 * number of processes, changes nothing.
 */
export async function detectToolDrift(db: Database, drift: ServerDrift): Promise<void> {
  try {
    await noteDrift(db, drift);
  } catch (error) {
    if (!drift.listed || !isRefusedData(error)) throw error;
    await noteDrift(db, { ...drift, listed: undefined });
  }
}

async function noteDrift(db: Database, { tenantId, server, listed }: ServerDrift): Promise<void> {
  const changed = async (tx: Tx) =>
    (await listToolsOver(tx, server.type)).flatMap((row) => {
      const at = locateTool(row.definition);
      if (!at || digestOf(at.server) !== digestOf(server)) return [];
      const now = listed?.find((tool) => locateTool(tool)?.tool === at.tool);
      const proposed = listed ? (differenceOf(row.definition, now) ?? null) : UNREADABLE;
      return digestOf(proposed) === digestOf(row.proposed) ? [] : [{ row, proposed }];
    });
  await db.withTenant(tenantId, async (tx) => {
    if ((await changed(tx)).length === 0) return;
    // Raises the epoch first: commits gated without the change, and the same change by another process, come before it.
    await advancePolicyEpoch(tx);
    for (const each of await changed(tx)) await noteTool(tx, tenantId, each);
  });
}

/** Publishes a server's proposed change that a person has confirmed; does nothing without a proposal. */
export async function confirmProposal(tx: Tx, caller: Caller, id: string): Promise<void> {
  const row = await lockTool(tx, id);
  if (row?.proposed?.reason !== 'changed') return;
  const told = Object.entries(row.proposed.changes).map(([field, { to }]) => [field, to] as const);
  const version = nextMinor(row.current_version);
  const definition = withPatch<ToolDefinition>(row.definition, { ...Object.fromEntries(told), version });
  const contentHash = hashTool(definition);
  await publishToolVersion(tx, { tenantId: caller.tenantId, definition, contentHash });
  await recordVersion(tx, caller, { action: 'tool.updated', definition, contentHash, loosened: {} });
}

async function noteTool(
  tx: Tx,
  tenantId: string,
  { row, proposed }: { row: ToolRow; proposed: ProposedTool | null },
): Promise<void> {
  await proposeTool(tx, row.id, proposed);
  // If a server reverts its change, the tool stays suspended, so that a person sees it.
  if (!proposed) return;
  await suspendTool(tx, { id: row.id, suspended: true });
  const details = { name: row.name, reason: proposed.reason, fields: Object.keys(proposed.changes) };
  const audited = {
    action: 'tool.changed_by_server',
    target: ['tool', row.id],
    digest: digestOf(proposed),
    details,
  } as const;
  await recordAudit(tx, { tenantId }, audited);
}

/** What the model reads of a tool: a change here may try to instruct it. */
const TOLD = ['description', 'display_name', 'input_schema', 'output_schema'] as const;

const UNREADABLE: ProposedTool = { reason: 'unreadable', changes: {} };

function differenceOf(registered: ToolDefinition, now: ImportedTool | undefined): ProposedTool | undefined {
  if (!now) return { reason: 'gone', changes: {} };
  const fields = TOLD.filter((field) => digestOf(registered[field] ?? null) !== digestOf(now[field] ?? null));
  if (fields.length === 0) return undefined;
  const changes = fields.map((field) => [field, { from: registered[field] ?? null, to: now[field] ?? null }]);
  return { reason: 'changed', changes: Object.fromEntries(changes) as ProposedTool['changes'] };
}
