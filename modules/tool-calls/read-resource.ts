/** The built-in tool `read_resource`: reads what a tool's result links to (MCP, `resource_link`), from the server that sent the link. */
import type { ToolAttempt, ToolDefinition, ToolOutcome } from '../../core/tool.ts';
import { findLinkingCall } from '../../db/outputs.ts';
import { loadToolVersions } from '../../db/tools.ts';
import type { DomainArguments } from '../../tools/builtin/builtin-type.ts';
import type { Tools } from '../../tools/execute-tool.ts';
import type { Context } from '../governance/context.ts';
import { toolSuspension } from '../governance/governance.ts';

export type ResourceContext = Pick<Context, 'db' | 'governance'> & Pick<Tools, 'readResource'>;

/** `{tool_use_id, uri} → the resource's content`, only for links in the run's own conversation. */
export async function readResource(
  context: ResourceContext,
  attempt: ToolAttempt<DomainArguments['read_resource']>,
): Promise<ToolOutcome> {
  const { tool_use_id: toolUseId, uri } = attempt.arguments;
  if (attempt.runId === '') return { kind: 'error', code: 'no-run', message: 'Resources are read within a run alone.' };
  const found = await context.db.withTenant(attempt.tenantId, async (tx): Promise<ToolDefinition | ToolOutcome> => {
    const call = await findLinkingCall(tx, { runId: attempt.runId, toolUseId, uri });
    const [tool] = call ? await loadToolVersions(tx, [call]) : [];
    if (!tool) {
      const message = `No earlier call "${toolUseId}" of this conversation links to ${uri}.`;
      return { kind: 'error', code: 'unknown-link', message };
    }
    const suspension = toolSuspension(await context.governance.current(tx, attempt.tenantId), tool);
    return suspension ? { kind: 'error', ...suspension } : tool;
  });
  return 'kind' in found ? found : context.readResource(found, uri, attempt);
}
