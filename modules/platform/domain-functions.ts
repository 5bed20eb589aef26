/**
 * Implements the domain's built-in tools. A new one is declared in `tools/builtin/domain-tools.ts`, lives in its
 * module, and has a line here.
 */
import type { DomainFunctions } from '../../tools/builtin/builtin-type.ts';
import type { Context } from '../governance/context.ts';
import { recallCall, rememberCall } from '../memory/remember.ts';
import { readResource, type ResourceContext } from '../tool-calls/read-resource.ts';
import { readToolOutput } from '../tool-calls/read-tool-output.ts';
import { handOver, rejectHandoff } from '../workflows/hand-over.ts';

/** `whole` gives the full context, which is complete only after the tools are opened. */
export function domainFunctions(context: ResourceContext, whole: () => Context): DomainFunctions {
  return {
    read_tool_output: (attempt) => readToolOutput(context.db, attempt),
    read_resource: (attempt) => readResource(context, attempt),
    remember: (attempt) => rememberCall(whole(), attempt),
    recall: (attempt) => recallCall(whole(), attempt),
    handoff: (attempt) => handOver(whole(), attempt),
    reject_handoff: (attempt) => rejectHandoff(whole(), attempt),
  };
}
