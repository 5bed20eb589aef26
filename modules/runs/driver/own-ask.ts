/** What a driver asks for itself is asked for its run: by its models, in its books, and no longer than it is driven. */
import { fallbackModelsOf, primaryModelOf } from '../../agents/effective-limits.ts';
import type { ToolAsk } from '../../model-calls/ask-for-tool.ts';
import type { Drive } from './drive-state.ts';

type OwnAsk = Pick<ToolAsk<unknown>, 'tenantId' | 'workspaceId' | 'agentId' | 'threadId' | 'run' | 'models' | 'signal'>;

/** Whose ask it is, and which models it goes to. */
export function ownAskOf({ run, definition, tenantId, signal }: Drive): OwnAsk {
  return {
    tenantId,
    workspaceId: run.workspace_id,
    agentId: run.agent_id,
    threadId: run.thread_id,
    run: { id: run.id, rootId: run.root_run_id, budget: run.config.budget },
    models: [primaryModelOf(definition, run.config.model_override), ...fallbackModelsOf(definition)],
    signal,
  };
}
