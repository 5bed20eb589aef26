/** A request to a model. */
import { textOf, type Message } from '../../../core/content.ts';
import { canonicalJson } from '../../../core/ids.ts';
import { LIMITS } from '../../../core/limits.ts';
import { workflowExamplesOf, type AgentDefinition, type WorkflowExample } from '../../../core/definition.ts';
import type { ModelRequest, ToolSpec } from '../../../core/model.ts';
import type { ToolDefinition } from '../../../core/tool.ts';
import type { MessageRow } from '../../../db/claim-run.ts';
import { messagesFor } from '../../run-log/conversation.ts';
import type { RunLog } from '../../run-log/run-log.ts';

interface Asked {
  model: string;
  toolChoice: 'auto' | 'none';
}

/** The request of a run's next model call. */
export function toRequest(
  { definition, tools, log }: { definition: AgentDefinition; tools: ReadonlyMap<string, ToolDefinition>; log: RunLog },
  call: Asked,
): ModelRequest {
  return buildRequest({ definition, tools, messages: log.messages }, call);
}

/** A request to a model, from a definition, its pinned tools and the stored conversation. */
export function buildRequest(
  source: { definition: AgentDefinition; tools: ReadonlyMap<string, ToolDefinition>; messages: readonly MessageRow[] },
  call: Asked,
): ModelRequest {
  const { definition } = source;
  const settings = { ...definition.model_preferences, ...definition.llm_config };
  return {
    ...call,
    system: systemPromptOf(definition),
    messages: withoutEmptyAnswers(messagesFor(source.messages, contextTokens(definition)).messages),
    tools: toolSpecs(source.tools),
    maxTokens: settings.max_tokens ?? LIMITS.outputTokens,
    temperature: settings.temperature,
    examples: workflowExamplesOf(definition),
  };
}

/** Providers refuse answers without content. After one the model is told, or it would only repeat it. */
function withoutEmptyAnswers(messages: readonly Message[]): Message[] {
  const isEmpty = ({ role, content }: Message) =>
    role === 'assistant' && textOf(content).trim() === '' && !content.some(({ type }) => type === 'tool_use');
  const last = messages.at(-1);
  const kept = messages.filter((message) => !isEmpty(message));
  return last && isEmpty(last) ? [...kept, { role: 'user', content: [{ type: 'text', text: EMPTY_ANSWER }] }] : kept;
}

const EMPTY_ANSWER = 'Your last answer was empty. Go on: answer in words, or call a tool.';

/** Most tokens of the conversation that a request holds. */
export function contextTokens(definition: AgentDefinition): number {
  return definition.memory_config?.short_term?.max_tokens ?? LIMITS.contextTokens;
}

/** The system prompt: role, instructions, worked examples. */
export function systemPromptOf(definition: AgentDefinition): string {
  const prompt = definition.system_prompt;
  if (typeof prompt === 'string') return prompt;
  const parts = [prompt?.role, prompt?.instructions ?? defaultInstructions(definition)];
  const examples = (prompt?.examples ?? []).map((example) =>
    typeof example === 'string' ? example : exampleText(example),
  );
  if (examples.length > 0) parts.push(`Examples of how such work is done:\n\n${examples.join('\n\n')}`);
  return parts.filter(Boolean).join('\n\n');
}

/** The tools as a model sees them, in the order of the agent's definition: the same bytes at every call. */
export function toolSpecs(tools: ReadonlyMap<string, ToolDefinition>): ToolSpec[] {
  return [...tools.values()].map(({ name, description, input_schema }) => ({ name, description, input_schema }));
}

function defaultInstructions(definition: AgentDefinition): string {
  const about = definition.description ? ` ${definition.description}` : '';
  return `You are ${definition.name}.${about} Work step by step: use the tools where they help, then answer.`;
}

function exampleText(example: WorkflowExample): string {
  const steps = example.steps.map((step, index) => `${index + 1}. ${step.tool}(${canonicalJson(step.input)})`);
  return [`Question: ${example.question}`, ...steps, example.answer && `Answer: ${example.answer}`]
    .filter(Boolean)
    .join('\n');
}
