import { conflict } from '../../core/errors.ts';
import { digestOf } from '../../core/ids.ts';
import { checkMayLoosen, looseningOfTool } from '../../core/loosening.ts';
import { newId } from '../../lib/new-id.ts';
import { nextMinor } from '../../core/semver.ts';
import type { Tx } from '../../db/database.ts';
import { advancePolicyEpoch } from '../../db/governance.ts';
import { listToolsOver, lockTool, publishToolVersion } from '../../db/tools.ts';
import type { ToolRow } from '../../db/tools.ts';
import type { ProcessContext } from '../process-context.ts';
import { findToolServerAt, isToolServerSuspended } from '../../db/tool-servers.ts';
import type { ToolTransport } from '../../core/tool.ts';
import type { ImportedTool, ServerIdentity } from '../../tools/transport-kind.ts';
import { identityOf } from '../../tools/transports.ts';
import type { Caller } from '../../core/caller.ts';
import { checkSecrets } from './check-secrets.ts';
import { chooseTools, type ChosenTools, type ToolChoice } from './choose-tools.ts';
import { placeOf, type PlacedTool } from './name-tools.ts';
import { recordVersion, defineTool, hashTool, insertNewTool, isBuiltin } from './register-tool.ts';

/**
 * Asks a server for its tools. Throws 403 if the caller may not trust its word on risks, 409 if it is suspended, and
 * the errors of asking.
 */
export async function askServer(
  { db, tools }: Pick<ProcessContext, 'db' | 'tools'>,
  caller: Caller,
  wanted: { server: ToolTransport; trusted: boolean },
): Promise<ImportedTool[]> {
  const { tenantId } = caller;
  checkMayLoosen(caller, wanted.trusted ? ['trusted'] : []);
  const identity = identityOf(wanted.server);
  await db.withTenant(tenantId, async (tx) => {
    await checkSecrets(tx, caller, { transport: wanted.server });
    if (identity && (await isToolServerSuspended(tx, digestOf(identity)))) throw conflict('The server is suspended.');
  });
  return tools.listTools(tenantId, wanted.server, wanted.trusted);
}

/**
 * Registers all chosen tools of a server or none. A tool imported from it before gets a new version if it has changed.
 * Throws 409 if another tool has one of the names, 422 for a choice of what the server does not have.
 */
export async function importTools(
  tx: Tx,
  caller: Caller,
  { found, choice }: { found: readonly ImportedTool[]; choice: ToolChoice },
): Promise<{ rows: ToolRow[] } & Pick<ChosenTools, 'skipped'>> {
  // First, so that another import of the server has named its tools before.
  await advancePolicyEpoch(tx);
  const { tools, skipped } = chooseTools(found, choice, await listRegistered(tx, found));
  const byName = new Map<string, ToolRow>();
  // By name, so that two concurrent imports wait for each other instead of both failing.
  const ordered = tools.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  for (const tool of ordered) byName.set(tool.name, await importOne(tx, caller, tool));
  return { rows: tools.flatMap(({ name }) => byName.get(name) ?? []), skipped };
}

/** What is registered from the server of these tools. */
async function listRegistered(tx: Tx, [first]: readonly ImportedTool[]): Promise<PlacedTool[]> {
  if (!first) return [];
  const server = digestOf(identityOf(first.transport) ?? null);
  const rows = await listToolsOver(tx, first.transport.type);
  return rows
    .map((row) => row.definition)
    .filter(({ transport }) => digestOf(identityOf(transport) ?? null) === server);
}

/** A server as registered; its id is null if it never had a registered tool. */
export async function findImportedServer(
  tx: Tx,
  server: ToolTransport,
): Promise<{ id: string | null; transport: ServerIdentity }> {
  const transport = identityOf(server) ?? { type: server.type };
  const row = await findToolServerAt(tx, digestOf(transport));
  return { id: row?.id ?? null, transport };
}

async function importOne(tx: Tx, caller: Caller, tool: ImportedTool): Promise<ToolRow> {
  const existing = await lockTool(tx, tool.name);
  const another = existing ? placeOf(existing.definition) !== placeOf(tool) : isBuiltin(tool.name);
  if (another) {
    const message = `There is already another tool named "${tool.name}"; a \`prefix\` keeps them apart.`;
    throw conflict(message, existing && { tool_id: existing.id });
  }
  if (!existing) return insertNewTool(tx, caller, defineTool(tool, { id: newId(), version: '1.0.0' }));
  const { execution, permissions, category = tool.category, accepts_tainted, output_trust } = existing.definition;
  const request = { ...tool, execution, permissions, category, accepts_tainted, output_trust };
  const definition = defineTool(request, { id: existing.id, version: nextMinor(existing.current_version) });
  const contentHash = hashTool(definition);
  if (contentHash === existing.content_hash) return existing;
  const loosened = looseningOfTool(definition, { current: existing.definition });
  checkMayLoosen(caller, Object.keys(loosened));
  const updated = await publishToolVersion(tx, { tenantId: caller.tenantId, definition, contentHash });
  if (!updated) throw new Error('An updated tool did not come back.');
  await recordVersion(tx, caller, { action: 'tool.updated', definition, contentHash, loosened });
  return updated;
}
