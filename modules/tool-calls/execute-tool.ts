import { conflict, forbidden, impossible, notFound } from '../../core/errors.ts';
import { digestOf } from '../../core/ids.ts';
import { newId } from '../../lib/new-id.ts';
import { hasScope } from '../../core/scopes.ts';
import { mayHaveHappened } from '../../core/ledger.ts';
import { effectOf, type ToolDefinition, type ToolOutcome } from '../../core/tool.ts';
import type { Database } from '../../db/database.ts';
import { becomeWriter } from '../../db/governance.ts';
import type { Context } from '../governance/context.ts';
import { gateCall, type GatedRun } from '../governance/gate-call.ts';
import { toolSuspension } from '../governance/governance.ts';
import type { Caller } from '../../core/caller.ts';
import { recordAudit, type AuditEntry } from '../audit/record-audit.ts';
import { claimWork, endWork, type IdempotentAnswer, type IdempotentRequest } from '../tenants/idempotency.ts';
import { resolveTools } from '../tools-registry/resolve-tools.ts';

interface DirectExecution {
  id: string;
  input: Record<string, unknown>;
  timeoutMs?: number | undefined;
  /** The same key and body make the call once, and get the first answer again. */
  idempotency: IdempotentRequest;
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
 * WRITE_HIGH_RISK tool without `admin`, 409 for a suspended tool, and for a repeated request whose outcome is unknown; 422 for
 * input that does not fit the tool's schema.
 */
export async function executeTool(
  context: Pick<Context, 'db' | 'tools' | 'governance'>,
  caller: Caller,
  request: DirectExecution,
): Promise<IdempotentAnswer<DirectResult>> {
  const tool = await findAnyTool(context.db, caller.tenantId, request.id);
  if (tool.risk_level === 'WRITE_HIGH_RISK' && !hasScope(caller.scopes, 'admin')) {
    throw forbidden('Executing a WRITE_HIGH_RISK tool directly needs the scope "admin".');
  }
  checkInput(context, tool, request.input);
  const startedMs = performance.now();
  const toolCallId = newId();
  const begun = await begin(context, caller, { tool, request, toolCallId });
  if ('replayed' in begun) return begun;
  const { args, digest } = begun;
  const outcome = await context.tools.execute(tool, {
    tenantId: caller.tenantId,
    runId: '',
    toolCallId,
    idempotencyKey: keyForTool(caller, request) ?? toolCallId,
    attempt: 1,
    arguments: args,
    timeoutMs: request.timeoutMs ?? tool.execution.timeout_ms,
    traceparent: request.traceparent,
    signal: request.signal,
  });
  const result = resultOf(outcome, Math.round(performance.now() - startedMs));
  const { status, latency_ms } = result;
  const answer = { status: 200, body: result };
  await context.db.withTenant(caller.tenantId, async (tx) => {
    if (!mayBeMadeAgain(tool, outcome)) await endWork(tx, request.idempotency, answer);
    // Else the key stays with this request, which alone may be made again with it.
    else if (!mayHaveHappened(outcome)) await endWork(tx, request.idempotency, undefined);
    const details = { call: toolCallId, status, latency_ms };
    await recordAudit(tx, caller, auditOf('tool.executed', tool, { digest, details }));
  });
  return { ...answer, replayed: false };
}

/**
 * The client's key as the tool gets it. Never in the client's own words: keys of runs' calls follow from ids that others know,
 * and a tool that recognises such a key would answer the run's call with this one.
 */
function keyForTool(
  { tenantId, workspaceId }: Caller,
  { id: tool, input, idempotency: { key } }: DirectExecution,
): string | undefined {
  return key === undefined ? undefined : `execute-${digestOf({ tenantId, workspaceId, tool, input, key })}`;
}

/** Whether the same request may be made again: it surely had no effect, or a repetition has none. */
function mayBeMadeAgain(tool: ToolDefinition, outcome: ToolOutcome): boolean {
  if (outcome.kind === 'succeeded' || outcome.kind === 'elsewhere') return false;
  if (outcome.kind === 'error') return outcome.unsent === true;
  return effectOf(tool) !== 'unknown' || !mayHaveHappened(outcome);
}

/**
 * Passes the gate and records the call, in one transaction before anything is sent. So the record includes executions whose
 * process died, and suspensions wait for the transaction. Returns the answer to an earlier request with the same key, if
 * there is one. Throws 403, 409, 422.
 */
async function begin(
  context: Pick<Context, 'db' | 'tools' | 'governance'>,
  caller: Caller,
  { tool, request, toolCallId }: { tool: ToolDefinition; request: DirectExecution; toolCallId: string },
): Promise<{ args: Record<string, unknown>; digest: string } | IdempotentAnswer<DirectResult>> {
  const { input, idempotency } = request;
  return context.db.withTenant(caller.tenantId, async (tx) => {
    const claimed = await claimWork<DirectResult>(tx, idempotency);
    if (typeof claimed === 'object') return claimed;
    if (claimed === 'begun' && effectOf(tool) === 'unknown') throw conflict(UNANSWERED);
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

const UNANSWERED =
  'An execution with this Idempotency-Key was begun and has no answer: it is under way, or its outcome is unknown. It is not made again.';

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
