/** What this version does not do yet and therefore refuses: one line each, which the feature takes away when it comes. */
import type { AgentDefinition } from '../../core/definition.ts';
import type { FieldError } from '../../core/errors.ts';

const AGENT_FIELDS: readonly { path: string; used: (agent: AgentDefinition) => boolean }[] = [
  { path: 'workflow_graph', used: (agent) => agent.workflow_graph !== undefined },
  { path: 'guardrail_config.input_rails', used: (agent) => notEmpty(agent.guardrail_config?.input_rails) },
  { path: 'guardrail_config.output_rails', used: (agent) => notEmpty(agent.guardrail_config?.output_rails) },
  {
    path: 'memory_config.short_term.strategy',
    used: (agent) => isOther(agent.memory_config?.short_term?.strategy, 'fifo'),
  },
  { path: 'memory_config.long_term.enabled', used: (agent) => agent.memory_config?.long_term?.enabled === true },
  { path: 'memory_config.procedural.enabled', used: (agent) => agent.memory_config?.procedural?.enabled === true },
  { path: 'memory_config.consolidation', used: (agent) => agent.memory_config?.consolidation !== undefined },
  { path: 'tool_bindings', used: (agent) => notEmpty(agent.tool_bindings) },
  { path: 'execution_config.reflect', used: (agent) => agent.execution_config?.reflect === true },
];

export const UNSUPPORTED = 'is not supported by this version';

/** The fields of an agent that ask for what is not there, as paths into a request's body. */
export function unsupportedFields(agent: AgentDefinition): FieldError[] {
  return AGENT_FIELDS.filter(({ used }) => used(agent)).map(({ path }) => ({
    path: `body.${path}`,
    message: path.endsWith('strategy') ? `${UNSUPPORTED}, except "fifo"` : UNSUPPORTED,
  }));
}

function notEmpty(list: readonly unknown[] | undefined): boolean {
  return list !== undefined && list.length > 0;
}

function isOther(value: string | undefined, supported: string): boolean {
  return value !== undefined && value !== supported;
}
