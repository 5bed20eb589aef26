/** Builds the requests to models. */
import { percentOf, type Calibration } from '../../../core/calibration.ts';
import type { Compaction } from '../../../core/compaction.ts';
import { chooseExamples } from '../../../core/choose-examples.ts';
import { textOf } from '../../../core/content.ts';
import { canonicalJson } from '../../../core/canonical-json.ts';
import { contextRoom, outputTokensWithin, type ContextRoom } from '../../../core/context.ts';
import type { PinnedLimits } from '../../../core/events.ts';
import { workflowExamplesOf, type AgentDefinition, type WorkflowExample } from '../../../core/definition.ts';
import { LIMITS } from '../../../core/limits.ts';
import { formatInstructions } from '../../../core/output-format.ts';
import type { ModelRequest, ToolSpec } from '../../../core/model.ts';
import { providerOptions, type ProviderOptions } from '../../../core/provider-settings.ts';
import { describeCategories } from '../../../core/tool-categories.ts';
import type { RunState } from '../../../core/state.ts';
import type { ToolDefinition } from '../../../core/tool.ts';
import type { MessageRow, RunRow } from '../../../db/claim-run.ts';
import { estimateMessages, estimateRequest, estimateTokens } from '../../../llm/estimate-tokens.ts';
import type { ResolvedModel } from '../../../llm/models.ts';
import { takesOwnTools } from '../../../llm/own-tools-taken.ts';
import { effectiveLimits } from '../../agents/effective-limits.ts';
import { withoutRefused } from '../../run-log/refused-files.ts';
import { offeredTools, promptOf } from './open-node.ts';
import {
  messagesFor,
  setAside,
  summaryMessage,
  withMemory,
  withoutEmptyAnswers,
  type FittedMessages,
  type GivenText,
  type LeftOut,
} from '../../run-log/conversation.ts';

/** A model and its context window, in tokens. */
interface AskedWindow {
  provider: string;
  model: string;
  window: number;
}

interface Asked extends AskedWindow {
  toolChoice: 'auto' | 'none';
}

/** The material of a run's requests. */
export interface RequestSource {
  definition: AgentDefinition;
  /** Those offered to the model. */
  tools: ReadonlyMap<string, ToolDefinition>;
  /** What the graph's node adds to the system prompt. */
  prompt?: string | undefined;
  messages: readonly MessageRow[];
  /** Earlier messages that no model is sent. */
  before?: LeftOut;
  /** Ordinals of messages that came in the middle of a turn. */
  steered?: readonly number[] | undefined;
  /** Replaces the beginning of the conversation. */
  compaction?: Compaction | undefined;
  /** Memories given to the turn; they precede the text of the message at their ordinal. */
  memory?: GivenText | null | undefined;
  /** Indexes of the worked examples shown; if absent, they are chosen by the user's last words. */
  examples?: readonly number[] | undefined;
  /** Absent in runs created by an older build. */
  limits: PinnedLimits | undefined;
  /** The last container in which the provider's code ran. */
  containerId?: string | undefined;
  /** Corrects token estimates by earlier counts. */
  calibration?: Calibration | undefined;
  /** The context fitted for the announced call, while the log says nothing newer. */
  announced?: AnnouncedContext | null | undefined;
}

/** The part of the conversation sent with a model call. */
export interface FittedContext extends FittedMessages {
  room: ContextRoom;
}

/** The context with which a model call was announced: fitted once, for its announcement and its request. */
export interface AnnouncedContext {
  asked: AskedWindow;
  /** Of the announcement's event. */
  seq: number;
  fitted: FittedContext;
}

/** The part of a drive from which requests are made. */
interface Driven {
  definition: AgentDefinition;
  tools: ReadonlyMap<string, ToolDefinition>;
  log: {
    messages: readonly MessageRow[];
    before?: LeftOut;
    state: Pick<
      RunState,
      'seq' | 'turn' | 'compaction' | 'containerId' | 'calibration' | 'graph' | 'steered' | 'refusedFiles'
    >;
  };
  step?: { announced: AnnouncedContext | null };
  memory?: (RequestSource['memory'] & { turnId: string }) | undefined;
  run: Pick<RunRow, 'pinned'>;
}

/** The request source of a driven run. */
export function sourceOf(driven: Driven): RequestSource {
  const { definition, log, run, memory } = driven;
  const tools = offeredTools(driven);
  const prompt = promptOf(driven);
  const { before, state } = log;
  const messages = withoutRefused(log.messages, state.refusedFiles);
  const { compaction, containerId, calibration, steered } = state;
  const examples = state.turn?.examples;
  const about = { compaction, containerId, calibration, steered, examples, limits: run.pinned.limits };
  const announced = driven.step?.announced?.seq === state.seq ? driven.step.announced : null;
  const source = { definition, tools, prompt, messages, ...about, announced, ...(before && { before }) };
  return memory && memory.turnId === state.turn?.id ? { ...source, memory } : source;
}

/** The request of a run's next model call. */
export function toRequest(
  session: Driven,
  { resolved, toolChoice }: { resolved: ResolvedModel; toolChoice: 'auto' | 'none' },
): ModelRequest {
  const source = sourceOf(session);
  return buildRequest(source, { ...askedOf(source.limits, resolved), toolChoice });
}

/** A model with the window that the run's requests assume. */
export function askedOf(limits: PinnedLimits | undefined, resolved: ResolvedModel): AskedWindow {
  return { provider: resolved.provider, model: resolved.model, window: windowOf(limits, resolved) };
}

/** The model's window in tokens: pinned for the run's own model, otherwise as this process knows it. */
export function windowOf(
  limits: PinnedLimits | undefined,
  { provider, model, contextWindow }: Pick<ResolvedModel, 'provider' | 'model' | 'contextWindow'>,
): number {
  return limits?.model === `${provider}/${model}` ? limits.context_window : contextWindow;
}

/** Builds a request to a model from a definition, its pinned tools and the stored conversation. */
export function buildRequest(source: RequestSource, { toolChoice, ...asked }: Asked): ModelRequest {
  const { definition } = source;
  const settings = { ...definition.model_preferences, ...definition.llm_config };
  const options = optionsOf(source, asked);
  return {
    model: asked.model,
    toolChoice,
    ...(options && { options }),
    system: systemOf(source, chosenFor(source)),
    messages: withoutEmptyAnswers(fitContext(source, asked).messages),
    tools: toolSpecs(source.tools),
    maxTokens: outputTokens(source, asked.window),
    temperature: settings.temperature,
    examples: workflowExamplesOf(definition),
  };
}

/** Provider settings; undefined for another provider (a fallback), where they mean nothing. */
function optionsOf(
  { definition, limits, containerId }: RequestSource,
  asked: AskedWindow,
): ProviderOptions | undefined {
  const isMeant = limits === undefined || limits.model.startsWith(`${asked.provider}/`);
  const settings = { ...definition.model_preferences, ...definition.llm_config };
  return isMeant ? providerOptions(settings, containerId) : undefined;
}

/** For the log: most output and thinking tokens of a request, and the number of tools offered. */
export function offerOf(
  source: RequestSource,
  asked: AskedWindow,
): { max_tokens: number; thinking_tokens?: number; tools_count: number } {
  const options = takesOwnTools(asked.provider) ? optionsOf(source, asked) : undefined;
  const { thinkingTokens, serverTools = [] } = options ?? {};
  return {
    max_tokens: outputTokens(source, asked.window),
    ...(thinkingTokens && { thinking_tokens: thinkingTokens }),
    tools_count: source.tools.size + serverTools.length,
  };
}

/** The part of the conversation that fits the model's window. */
export function fitContext(source: RequestSource, asked: AskedWindow): FittedContext {
  const { announced } = source;
  if (announced && isSameWindow(announced.asked, asked)) return announced.fitted;
  const room = roomFor(source, asked);
  const { messages, compaction, memory, steered, before = { messages: 0, tokens: 0 } } = source;
  if (!compaction) {
    const fitted = messagesFor(messages, room.budget, { before, steered });
    return { ...fitted, messages: withMemory(fitted, memory), room };
  }
  const summary = compaction.summary === undefined ? [] : [summaryMessage(compaction.summary)];
  const summaryTokens = estimateMessages(summary);
  const kept = setAside(messages, compaction);
  const skipped = messages.slice(0, messages.length - kept.length);
  const leftOut = {
    messages: before.messages + skipped.length,
    tokens: before.tokens + messagesFor(skipped, Number.POSITIVE_INFINITY).tokens,
  };
  const fitted = messagesFor(kept, room.budget - summaryTokens, { before: leftOut, steered });
  const sent = [...summary, ...withMemory(fitted, memory)];
  return { ...fitted, messages: sent, tokens: fitted.tokens + summaryTokens, room };
}

function isSameWindow(left: AskedWindow, right: AskedWindow): boolean {
  return left.provider === right.provider && left.model === right.model && left.window === right.window;
}

/** Tokens available to a conversation in this window, whatever its content. */
export function roomFor(
  source: Omit<RequestSource, 'messages'>,
  { window, provider, model }: AskedWindow,
): ContextRoom {
  const { definition, limits, calibration } = source;
  const { conversation_tokens: conversation } = limits ?? effectiveLimits(definition, { name: '', tokens: window });
  return contextRoom({
    window,
    output: outputTokens(source, window),
    fixed: besideTokens(source),
    conversation,
    percent: percentOf(calibration, `${provider}/${model}`),
  });
}

/** Estimated tokens of a request besides its conversation: system prompt, tools, memories. */
export function besideTokens(source: Pick<RequestSource, 'definition' | 'tools' | 'prompt' | 'memory'>): number {
  return fixedTokens(source) + estimateTokens(source.prompt ?? '') + memoryTokens(source);
}

function memoryTokens({ memory }: Pick<RequestSource, 'memory'>): number {
  return memory?.text === undefined ? 0 : estimateTokens(memory.text);
}

function outputTokens({ definition, limits }: Pick<RequestSource, 'definition' | 'limits'>, window: number): number {
  const { output_tokens } = limits ?? effectiveLimits(definition, { name: '', tokens: window });
  return outputTokensWithin(window, output_tokens);
}

/** By the run's tools, which are the same for all its calls, and may be long. */
const fixed = new WeakMap<ReadonlyMap<string, ToolDefinition>, number>();

function fixedTokens({ definition, tools }: Pick<RequestSource, 'definition' | 'tools'>): number {
  const known = fixed.get(tools);
  if (known !== undefined) return known;
  const system = systemOf({ definition, tools }, longestOf(definition));
  const tokens = estimateRequest({ system, tools: toolSpecs(tools), messages: [] });
  fixed.set(tools, tokens);
  return tokens;
}

/** The system prompt: of the agent, of the node, and, if there are several categories, the tools by category. */
function systemOf(
  { definition, tools, prompt }: Pick<RequestSource, 'definition' | 'tools' | 'prompt'>,
  examples: readonly string[],
): string {
  const categories = describeCategories(tools.values());
  const parts = [systemPromptOf(definition, examples), prompt, categories, formatInstructions(definition)];
  return parts.filter(Boolean).join('\n\n');
}

/** The worked examples: if there are many, those chosen for the turn, or by the user's last words. */
function chosenFor({ definition, messages, examples }: RequestSource): string[] {
  const all = examplesOf(definition);
  const said = messages.findLast(({ role, content }) => role === 'user' && content.some(({ type }) => type === 'text'));
  const asked = { question: said ? textOf(said.content) : '', most: LIMITS.examplesShown };
  return (examples ?? chooseExamples(all, asked)).flatMap((place) => all[place] ?? []);
}

/** The longest examples, as many as are ever shown: reserves room for any choice. */
function longestOf(definition: AgentDefinition): string[] {
  const byLength = examplesOf(definition).toSorted((left, right) => right.length - left.length);
  return byLength.slice(0, LIMITS.examplesShown);
}

/** The worked examples of a definition as texts. */
export function examplesOf({ system_prompt: prompt }: AgentDefinition): string[] {
  if (typeof prompt === 'string') return [];
  return (prompt?.examples ?? []).map((example) => (typeof example === 'string' ? example : exampleText(example)));
}

/** The questions of a definition's worked examples, in the same order; free-text examples as a whole. */
export function questionsOf({ system_prompt: prompt }: AgentDefinition): string[] {
  if (typeof prompt === 'string') return [];
  return (prompt?.examples ?? []).map((example) => (typeof example === 'string' ? example : example.question));
}

/** The system prompt of a definition: role, instructions, worked examples. */
function systemPromptOf(definition: AgentDefinition, examples: readonly string[]): string {
  const prompt = definition.system_prompt;
  if (typeof prompt === 'string') return prompt;
  const parts = [prompt?.role, prompt?.instructions ?? defaultInstructions(definition)];
  if (examples.length > 0) parts.push(`Examples of how such work is done:\n\n${examples.join('\n\n')}`);
  return parts.filter(Boolean).join('\n\n');
}

/** The tools as a model sees them, in the order of the agent's definition: the same bytes at every call. */
function toolSpecs(tools: ReadonlyMap<string, ToolDefinition>): ToolSpec[] {
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
