/** A driver's own questions are asked for its run: of its models, on its budgets, and only while it is driven. */
import { ancestorsOf } from '../../../core/run-config.ts';
import { fallbackModelsOf, primaryModelOf } from '../../agents/effective-limits.ts';
import type { ToolAsk } from '../../model-calls/ask-for-tool.ts';
import type { Drive } from './drive-state.ts';

type OwnAsk = Pick<ToolAsk<unknown>, 'tenantId' | 'workspaceId' | 'agentId' | 'threadId' | 'run' | 'models' | 'signal'>;

/** The asker's ids, and the models to ask. */
export function ownAskOf({ run, definition, tenantId, signal }: Drive): OwnAsk {
  return {
    tenantId,
    workspaceId: run.workspace_id,
    agentId: run.agent_id,
    threadId: run.thread_id,
    run: { id: run.id, rootId: run.root_run_id, ancestors: ancestorsOf(run) },
    models: [primaryModelOf(definition, run.config.model_override), ...fallbackModelsOf(definition)],
    signal,
  };
}
