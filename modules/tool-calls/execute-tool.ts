import { conflict, forbidden, impossible, notFound } from '../../core/errors.ts';
import { digestOf } from '../../core/ids.ts';
import { newId } from '../../lib/new-id.ts';
import { hasScope } from '../../core/scopes.ts';
import type { ToolDefinition, ToolOutcome } from '../../core/tool.ts';
import type { Database } from '../../db/database.ts';
import { becomeWriter } from '../../db/governance.ts';
import type { Context } from '../governance/context.ts';
import { gateCall, type GatedRun } from '../governance/gate-call.ts';
import { toolSuspension } from '../governance/governance.ts';
import type { Caller } from '../../core/caller.ts';
import { recordAudit, type AuditEntry } from '../audit/record-audit.ts';
import { resolveTools } from '../tools-registry/resolve-tools.ts';

interface DirectExecution {
  id: string;
  input: Record<string, unknown>;
  timeoutMs?: number | undefined;
  /** Passed to the tool, which can use it to recognise repeated requests. */
  idempotencyKey?: string | undefined;
  traceparent?: string | undefined;
  signal: AbortSignal;
}

interface DirectResult {
  status: 'success' | 'error';
  output: unknown;
  latency_ms: number;
  error?: { code: string; message: string };
}

/**
 * Calls a tool once, outside any run, and records who did. A failure of the tool is a result. Throws: 404, 403 for a
 * WRITE_HIGH_RISK tool without `admin`, 409 for a suspended tool, 422 for input that does not fit the tool's schema.
 */
export async function executeTool(
  context: Pick<Context, 'db' | 'tools' | 'governance'>,
  caller: Caller,
  request: DirectExecution,
): Promise<DirectResult> {
  const tool = await findAnyTool(context.db, caller.tenantId, request.id);
  if (tool.risk_level === 'WRITE_HIGH_RISK' && !hasScope(caller.scopes, 'admin')) {
    throw forbidden('Executing a WRITE_HIGH_RISK tool directly needs the scope "admin".');
  }
  checkInput(context, tool, request.input);
  const startedMs = performance.now();
  const toolCallId = newId();
  const { args, digest } = await begin(context, caller, { tool, input: request.input, toolCallId });
  const outcome = await context.tools.execute(tool, {
    tenantId: caller.tenantId,
    runId: '',
    toolCallId,
    idempotencyKey: request.idempotencyKey ?? toolCallId,
    attempt: 1,
    arguments: args,
    timeoutMs: request.timeoutMs ?? tool.execution.timeout_ms,
    traceparent: request.traceparent,
    signal: request.signal,
  });
  const result = resultOf(outcome, Math.round(performance.now() - startedMs));
  const { status, latency_ms } = result;
  await context.db.withTenant(caller.tenantId, (tx) =>
    recordAudit(
      tx,
      caller,
      auditOf('tool.executed', tool, { digest, details: { call: toolCallId, status, latency_ms } }),
    ),
  );
  return result;
}

/**
 * Passes the gate and records the call, in one transaction before anything is sent. So the record includes executions whose
 * process died, and suspensions wait for the transaction. Throws 403, 409.
 */
async function begin(
  context: Pick<Context, 'db' | 'tools' | 'governance'>,
  caller: Caller,
  { tool, input, toolCallId }: { tool: ToolDefinition; input: Record<string, unknown>; toolCallId: string },
): Promise<{ args: Record<string, unknown>; digest: string }> {
  return context.db.withTenant(caller.tenantId, async (tx) => {
    await becomeWriter(tx);
    const governance = await context.governance.current(tx, caller.tenantId);
    if (governance.suspended.tenant) throw conflict('The tenant is suspended.');
    const suspension = toolSuspension(governance, tool);
    if (suspension) throw conflict(suspension.message);
    const args = allowedInput({ context, governance }, caller, { tool, input });
    const digest = digestOf({ tool: tool.id, version: tool.version, input: args });
    await recordAudit(tx, caller, auditOf('tool.execution_started', tool, { digest, details: { call: toolCallId } }));
    return { args, digest };
  });
}

function auditOf(
  action: 'tool.execution_started' | 'tool.executed',
  { id, name, version }: ToolDefinition,
  { digest, details }: { digest: string; details: Record<string, unknown> },
): AuditEntry {
  return { action, target: ['tool', id], digest, details: { name, version, ...details } };
}

/**
 * Applies the tenant's policies to the input. No run could wait for approval, so keys that may approve count as approval, except
 * under four eyes: nobody else can approve. Throws 403.
 */
function allowedInput(
  { context, governance }: Pick<GatedRun, 'context' | 'governance'>,
  caller: Caller,
  { tool, input }: { tool: ToolDefinition; input: Record<string, unknown> },
): Record<string, unknown> {
  const permissions = tool.permissions.map(({ name }) => name);
  const run = { id: '', agent_id: '', agent_version: '', thread_id: '', turn_count: 0 };
  const decision = gateCall(
    {
      context,
      run: { ...run, workspace_id: caller.workspaceId, config: { autonomy_level: 3 } },
      definition: { name: '', permissions },
      tools: new Map([[tool.name, tool]]),
      governance,
      // Only runs have budgets.
      usedUp: undefined,
    },
    { name: tool.name, arguments: input, callsInTurn: 0, step: 0 },
  );
  if (decision.kind === 'ask' && decision.fourEyes) throw forbidden(`${decision.message} ${FOUR_EYES}`);
  const mayApprove = decision.kind === 'ask' && hasScope(caller.scopes, 'approvals:write');
  if (decision.kind !== 'allow' && !mayApprove) throw forbidden(decision.message);
  return decision.arguments;
}

const FOUR_EYES = 'The policy asks for four eyes, and a direct execution has only those of its own key.';

/** A registered or built-in tool, by its id. Throws 404. */
async function findAnyTool(db: Database, tenantId: string, id: string): Promise<ToolDefinition> {
  const [tool] = await db.withTenant(tenantId, (tx) => resolveTools(tx, [id]));
  // A name may look like an id; only ids count here.
  if (tool?.id !== id) throw notFound('This tool');
  return tool;
}

function checkInput({ tools }: Pick<Context, 'tools'>, tool: ToolDefinition, input: Record<string, unknown>): void {
  const faults = tools.validator.validateArguments(tool.input_schema, input);
  if (faults.length === 0) return;
  const errors = faults.map(({ path, message }) => ({
    path: path === '' ? 'body.input' : `body.input.${path}`,
    message,
  }));
  throw impossible("The input does not fit the tool's input_schema.", errors);
}

function resultOf(outcome: ToolOutcome, latencyMs: number): DirectResult {
  if (outcome.kind === 'succeeded') return { status: 'success', output: outcome.output, latency_ms: latencyMs };
  const { code, message } = outcome;
  const output = outcome.kind === 'error' ? (outcome.output ?? null) : null;
  return { status: 'error', output, latency_ms: latencyMs, error: { code, message } };
}
