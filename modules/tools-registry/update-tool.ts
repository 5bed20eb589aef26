import { conflict, impossible, notFound } from '../../core/errors.ts';
import { checkMayLoosen, looseningOfTool } from '../../core/loosening.ts';
import { withPatch, type Patch } from '../../core/patch.ts';
import { compareVersions, nextMinor } from '../../core/semver.ts';
import type { Tx } from '../../db/database.ts';
import { advancePolicyEpoch } from '../../db/governance.ts';
import { deleteTool, lockTool, publishToolVersion } from '../../db/tools.ts';
import type { ToolRow } from '../../db/tools.ts';
import type { ProcessContext } from '../process-context.ts';
import { BUILTIN_TOOLS } from '../../tools/builtin.ts';
import type { Caller } from '../../core/caller.ts';
import { recordAudit } from '../audit/record-audit.ts';
import { checkSecrets } from './check-secrets.ts';
import { recordVersion, checkTool, defineTool, hashTool, registerTool } from './register-tool.ts';
import type { ToolRequest } from './register-tool.ts';

/** New field values; null restores a default, absent ones stay. */
type ToolPatch = Patch<Omit<ToolRequest, 'name'>>;

/**
 * Publishes a new version of a tool, unless the patch changes nothing. Throws 404, 409 for a built-in tool, 422 for a
 * version that is not above the current one, and as `registerTool`.
 */
export async function updateTool(
  tx: Tx,
  { caller, tools }: { caller: Caller; tools: ProcessContext['tools'] },
  { id, patch }: { id: string; patch: ToolPatch },
): Promise<ToolRow> {
  refuseBuiltin(id);
  await advancePolicyEpoch(tx);
  const current = await lockTool(tx, id);
  if (!current) throw notFound('This tool');
  const version = patch.version ?? nextMinor(current.current_version);
  const definition = defineTool(withPatch<ToolRequest>(current.definition, patch), { id, version });
  checkTool(definition, { caller, tools });
  await checkSecrets(tx, caller, { transport: definition.transport, current: current.definition.transport });
  const loosened = looseningOfTool(definition, { current: current.definition });
  checkMayLoosen(caller, Object.keys(loosened));
  const contentHash = hashTool(definition);
  if (typeof patch.version !== 'string' && contentHash === current.content_hash) return current;
  if (compareVersions(version, current.current_version) <= 0) throw versionTaken(current.current_version);
  const updated = await publishToolVersion(tx, { tenantId: caller.tenantId, definition, contentHash });
  if (!updated) throw new Error('An updated tool did not come back.');
  await recordVersion(tx, caller, { action: 'tool.updated', definition, contentHash, loosened });
  return updated;
}

/**
 * Makes the tool of this name match `request`: registers it, publishes a new version, or changes nothing. Throws 409
 * for a built-in tool, and as `registerTool`.
 */
export async function putTool(
  tx: Tx,
  by: { caller: Caller; tools: ProcessContext['tools'] },
  request: ToolRequest,
): Promise<{ tool: ToolRow; isNew: boolean }> {
  // Concurrent requests wait here, and then find what the first one has made.
  await advancePolicyEpoch(tx);
  const current = await lockTool(tx, request.name);
  if (!current) return { tool: await registerTool(tx, by, request), isNew: true };
  const { id, name: _name, version: _version, ...before } = current.definition;
  const absent = Object.fromEntries(Object.keys(before).map((field) => [field, null])) as ToolPatch;
  const { name: _same, version, ...given } = request;
  const isCurrent = version === current.current_version;
  const tool = await updateTool(tx, by, {
    id,
    patch: { ...absent, ...given, version: isCurrent ? undefined : version },
  });
  if (isCurrent && tool.current_version !== version) throw versionTaken(current.current_version);
  return { tool, isNew: false };
}

/** Deletes a tool; runs that pin it keep its definition, but may not call it any more. Throws 404, 409 for a built-in. */
export async function removeTool(tx: Tx, caller: Caller, id: string): Promise<void> {
  refuseBuiltin(id);
  await advancePolicyEpoch(tx);
  if (!(await deleteTool(tx, id))) throw notFound('This tool');
  await recordAudit(tx, caller, { action: 'tool.deleted', target: ['tool', id] });
}

function refuseBuiltin(id: string): void {
  if (BUILTIN_TOOLS.some((tool) => tool.id === id)) throw conflict('A built-in tool cannot be changed or deleted.');
}

function versionTaken(current: string): Error {
  const message = `must be above the current version ${current}`;
  return impossible(`The version ${message}.`, [{ path: 'body.version', message }]);
}
