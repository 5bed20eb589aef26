import type { AgentDefinition } from '../../core/definition.ts';
import { DroverError, impossible } from '../../core/errors.ts';
import type { FieldError } from '../../core/errors.ts';
import { compileGraph } from '../../core/graph/compile.ts';
import { modelsNamed, toolsNamed } from '../../core/graph/tools.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Tx } from '../../db/database.ts';
import { parseModelName } from '../../llm/model-name.ts';
import type { ArgumentValidator } from '../../tools/validate-arguments.ts';
import { resolveTools } from '../tools-registry/resolve-tools.ts';

/** Throws `impossible` (422) with all faults of its graph, and all fields that name unknown models or tools. */
export async function checkAgent(tx: Tx, agent: AgentDefinition): Promise<void> {
  checkGraph(agent);
  const errors = [
    ...modelErrors(agent),
    ...(await toolErrors(tx, agent.tools ?? [])),
    ...(await bindingErrors(tx, agent)),
    ...(await graphErrors(tx, agent)),
  ];
  if (errors.length > 0) throw impossible('The agent names models or tools that do not exist.', errors);
  checkThinking(agent);
}

function checkGraph({ workflow_graph: graph }: AgentDefinition): void {
  const compilation = graph && compileGraph(graph);
  if (!compilation || compilation.ok) return;
  throw impossible('The graph cannot be followed.', prefixed('body.workflow_graph', compilation.faults));
}

async function graphErrors(tx: Tx, { workflow_graph: graph }: AgentDefinition): Promise<FieldError[]> {
  if (!graph) return [];
  const named = toolsNamed(graph);
  const tools = await resolveTools(
    tx,
    named.map(({ tool }) => tool),
  );
  const missing = named.flatMap(({ path, tool }, index) =>
    tools[index] ? [] : [{ path, message: `there is no tool "${tool}"` }],
  );
  const models = modelsNamed(graph).flatMap(([path, model]) => {
    const message = modelFault(model);
    return message === undefined ? [] : [{ path, message }];
  });
  return prefixed('body.workflow_graph', [...missing, ...models]);
}

/** Throws `impossible` (422) if reasoning, which counts as output, would leave no tokens for the answer. */
function checkThinking(agent: AgentDefinition): void {
  const { thinking_tokens: thinking = 0, max_tokens: most = LIMITS.outputTokens } = {
    ...agent.model_preferences,
    ...agent.llm_config,
  };
  if (thinking < most) return;
  const message = `must be below max_tokens, ${most}: reasoning is part of the answer's tokens`;
  throw impossible(`thinking_tokens ${message}.`, [{ path: 'body.llm_config.thinking_tokens', message }]);
}

/** Throws `impossible` (422) with all unusable schemas for answers. */
export function checkOutputSchemas(
  { together }: Pick<ArgumentValidator, 'together'>,
  agent: { [F in 'output_schema' | 'guardrail_config']?: AgentDefinition[F] | null | undefined },
): void {
  const rails = (agent.guardrail_config?.output_rails ?? []).map(({ config }, index): [string, unknown] => [
    `guardrail_config.output_rails.${index}.config.schema`,
    config.schema,
  ]);
  const schemas: [path: string, schema: unknown][] = [['output_schema', agent.output_schema], ...rails];
  const { checkAnswerSchema } = together();
  const errors = schemas.flatMap(([path, schema]) =>
    !schema ? [] : prefixed(`body.${path}`, checkAnswerSchema(schema)),
  );
  if (errors.length > 0) throw impossible('An answer can be held to no such schema.', errors);
}

function prefixed(prefix: string, errors: readonly FieldError[]): FieldError[] {
  return errors.map(({ path, message }) => ({ path: path === '' ? prefix : `${prefix}.${path}`, message }));
}

function modelErrors({ llm_config: llm, model_preferences: preferences }: AgentDefinition): FieldError[] {
  const named: [path: string, name: string | undefined][] = [
    ['llm_config.default_model', llm?.default_model],
    ['llm_config.fallback_model', llm?.fallback_model],
    ['model_preferences.primary_model', preferences?.primary_model],
    ...(preferences?.fallback_models ?? []).map((name, index): [string, string] => [
      `model_preferences.fallback_models.${index}`,
      name,
    ]),
  ];
  return named.flatMap(([path, name]) => {
    const message = name === undefined ? undefined : modelFault(name);
    return message === undefined ? [] : [{ path: `body.${path}`, message }];
  });
}

/** A provider without a key is no fault: the key may come before the run. */
function modelFault(name: string): string | undefined {
  try {
    parseModelName(name);
    return undefined;
  } catch (error) {
    if (error instanceof DroverError) return error.message;
    throw error;
  }
}

/** An id or a name must exist; an address may belong to a tool registered later. */
async function bindingErrors(tx: Tx, { tool_bindings: bindings = [] }: AgentDefinition): Promise<FieldError[]> {
  const found = await resolveTools(
    tx,
    bindings.map(({ tool_id }) => tool_id ?? ''),
  );
  return bindings.flatMap(({ tool_id }, index) => {
    if (tool_id === undefined || found[index]) return [];
    return [{ path: `body.tool_bindings.${index}.tool_id`, message: `there is no tool "${tool_id}"` }];
  });
}

async function toolErrors(tx: Tx, named: readonly string[]): Promise<FieldError[]> {
  const tools = await resolveTools(tx, named);
  return tools.flatMap((tool, index) => {
    const path = `body.tools.${index}`;
    if (!tool) return [{ path, message: `there is no tool "${named[index] ?? ''}"` }];
    const first = tools.findIndex((other) => other?.id === tool.id);
    return first === index ? [] : [{ path, message: `is the same tool as tools.${first}` }];
  });
}
