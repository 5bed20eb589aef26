/** What the built-in tools of the domain do: a new one is said in `tools/builtin/domain-tools.ts`, lies in its module, and has a line here. */
import type { DomainFunctions } from '../../tools/builtin/builtin-type.ts';
import type { Context } from '../governance/context.ts';
import { recallCall, rememberCall } from '../memory/remember.ts';
import { readResource, type ResourceContext } from '../tool-calls/read-resource.ts';
import { readToolOutput } from '../tool-calls/read-tool-output.ts';
import { handOver, rejectHandoff } from '../workflows/hand-over.ts';

/** `whole`: what is opened after the tools is there by the time that one is called. */
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
