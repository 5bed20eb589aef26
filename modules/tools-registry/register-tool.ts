import { conflict, forbidden, impossible } from '../../core/errors.ts';
import type { FieldError } from '../../core/errors.ts';
import { digestOf } from '../../core/ids.ts';
import { newId } from '../../lib/new-id.ts';
import { LIMITS } from '../../core/limits.ts';
import { checkMayLoosen, looseningDetails, looseningOfTool, type Loosening } from '../../core/loosening.ts';
import type { Trust } from '../../core/origin.ts';
import { hasScope } from '../../core/scopes.ts';
import { DEFAULT_RISK, type ToolDefinition, type ToolTransport } from '../../core/tool.ts';
import type { Tx } from '../../db/database.ts';
import { advancePolicyEpoch } from '../../db/governance.ts';
import { insertToolServer } from '../../db/tool-servers.ts';
import { findDeletedTool, insertTool } from '../../db/tools.ts';
import type { ToolRow } from '../../db/tools.ts';
import type { ProcessContext } from '../process-context.ts';
import { BUILTIN_TOOLS } from '../../tools/builtin.ts';
import { commandOf, identityOf, kindOf } from '../../tools/transports.ts';
import type { Caller } from '../../core/caller.ts';
import { checkSecrets } from './check-secrets.ts';
import { recordAudit } from '../audit/record-audit.ts';

/** A client's description of a tool; absent fields have defaults. */
export interface ToolRequest {
  name: string;
  version?: string | undefined;
  display_name?: string | undefined;
  category?: string | undefined;
  description: string;
  input_schema?: Record<string, unknown> | undefined;
  output_schema?: Record<string, unknown> | undefined;
  transport: ToolTransport;
  execution?:
    | {
        timeout_ms?: number | undefined;
        retry_config?: { max_retries?: number | undefined; backoff_ms?: number | undefined } | undefined;
        inline?: boolean | undefined;
        sandbox?: false | undefined;
      }
    | undefined;
  permissions?: { name: string; required: boolean }[] | undefined;
  risk_level?: ToolDefinition['risk_level'] | undefined;
  annotations?: ToolDefinition['annotations'] | undefined;
  accepts_tainted?: boolean | undefined;
  output_trust?: Trust | undefined;
}

/** Registers a tool with its first version. Throws 403, 409 for a taken name, 422 if it is invalid. */
export async function registerTool(
  tx: Tx,
  { caller, tools }: { caller: Caller; tools: ProcessContext['tools'] },
  request: ToolRequest,
): Promise<ToolRow> {
  const definition = defineTool(request, { id: newId(), version: request.version ?? '1.0.0' });
  checkTool(definition, { caller, tools });
  await checkSecrets(tx, caller, { transport: definition.transport });
  return insertNewTool(tx, caller, definition);
}

/** Stores a checked tool; its name must be free. Throws 403 if the caller may not loosen its guards so far. */
export async function insertNewTool(tx: Tx, caller: Caller, definition: ToolDefinition): Promise<ToolRow> {
  // An agent's binding may have an address that had no tool until now.
  await advancePolicyEpoch(tx);
  const builtin = isBuiltin(definition.name);
  const contentHash = hashTool(definition);
  const deleted = await findDeletedTool(tx, definition.name);
  const loosened = looseningOfTool(definition, { deleted });
  checkMayLoosen(caller, Object.keys(loosened));
  const row = builtin ? undefined : await insertTool(tx, { tenantId: caller.tenantId, definition, contentHash });
  if (row) await recordVersion(tx, caller, { action: 'tool.registered', definition, contentHash, loosened });
  if (!row) throw conflict(`There is already a${builtin ? ' built-in' : ''} tool named "${definition.name}".`);
  return row;
}

export function isBuiltin(name: string): boolean {
  return BUILTIN_TOOLS.some((builtin) => builtin.name === name);
}

interface PublishedVersion {
  action: 'tool.registered' | 'tool.updated';
  definition: ToolDefinition;
  contentHash: string;
  loosened: Loosening;
}

/** Records a published version of a tool, and its server. */
export async function recordVersion(
  tx: Tx,
  caller: Caller,
  { action, definition, contentHash: digest, loosened }: PublishedVersion,
): Promise<void> {
  const { id, name, version, risk_level, transport } = definition;
  const details = { name, version, risk_level, transport: transport.type, ...looseningDetails(loosened) };
  await recordAudit(tx, caller, { action, target: ['tool', id], digest, details });
  const address = identityOf(transport);
  if (!address) return;
  await insertToolServer(tx, { id: newId(), tenantId: caller.tenantId, digest: digestOf(address), address });
}

/** Fills in the defaults. */
export function defineTool(request: ToolRequest, identity: { id: string; version: string }): ToolDefinition {
  const { execution, transport } = request;
  return {
    ...identity,
    name: request.name,
    ...(request.display_name === undefined ? {} : { display_name: request.display_name }),
    ...(request.category === undefined ? {} : { category: request.category }),
    description: request.description,
    input_schema: request.input_schema ?? { type: 'object' },
    ...(request.output_schema === undefined ? {} : { output_schema: request.output_schema }),
    transport,
    execution: {
      timeout_ms: execution?.timeout_ms ?? LIMITS.toolTimeoutMs,
      retry_config: {
        max_retries: execution?.retry_config?.max_retries ?? LIMITS.toolRetries,
        backoff_ms: execution?.retry_config?.backoff_ms ?? LIMITS.toolBackoffMs,
      },
      inline: execution?.inline ?? false,
    },
    permissions: request.permissions ?? [],
    risk_level: request.risk_level ?? DEFAULT_RISK,
    annotations: request.annotations ?? {},
    ...(request.accepts_tainted && { accepts_tainted: true }),
    ...(request.output_trust && { output_trust: request.output_trust }),
  };
}

/** Throws 403 if the caller may not register such a tool, 422 if it is invalid. */
export function checkTool(
  tool: ToolDefinition,
  { caller, tools }: { caller: Caller; tools: Pick<ProcessContext['tools'], 'checkTransport' | 'validator'> },
): void {
  if (tool.transport.type === 'builtin') {
    const message = 'built-in tools are there already and cannot be registered';
    throw impossible(`The transport is "builtin": ${message}.`, [{ path: 'body.transport.type', message }]);
  }
  checkMayRunPrograms(tool.transport, caller);
  tools.checkTransport(tool.transport);
  const { checkSchema } = tools.validator.together();
  const errors = [
    ...prefixed('body.transport', kindOf(tool.transport)?.check?.(tool.transport) ?? []),
    ...prefixed('body.input_schema', checkSchema(tool.input_schema)),
    ...(tool.output_schema === undefined ? [] : prefixed('body.output_schema', checkSchema(tool.output_schema))),
  ];
  if (errors.length > 0) throw impossible('A schema or a template of the tool cannot be used.', errors);
}

/** A command runs on the worker's machine: only `admin` may name one (docs/tools.md). Throws 403. */
export function checkMayRunPrograms(transport: ToolTransport, caller: Caller): void {
  if (commandOf(transport) !== undefined && !hasScope(caller.scopes, 'admin')) {
    throw forbidden('A tool over stdio is a program on the worker\'s machine: this needs the scope "admin".');
  }
}

/** A digest of a tool's content, whatever its id and version. */
export function hashTool(tool: ToolDefinition): string {
  const { id: _id, version: _version, ...content } = tool;
  return digestOf(content);
}

function prefixed(prefix: string, errors: FieldError[]): FieldError[] {
  return errors.map(({ path, message }) => ({ path: path === '' ? prefix : `${prefix}.${path}`, message }));
}
