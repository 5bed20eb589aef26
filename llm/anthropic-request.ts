import type { Anthropic } from '@anthropic-ai/sdk';
import { isProviderBlock } from '../core/content.ts';
import type {
  AssistantBlock,
  DocumentBlock,
  FileBlock,
  ImageBlock,
  Message,
  TextBlock,
  UserBlock,
} from '../core/content.ts';
import type { ModelRequest, ToolSpec } from '../core/model.ts';
import { conversationFor, isThought, mayReason } from './anthropic-conversation.ts';
import { declaredTools, noFile, soundImage } from './messages.ts';
import { sentSchema } from './sent-schema.ts';

export type AnthropicParams = Anthropic.MessageCreateParamsStreaming & { temperature?: number };

const CACHED = { cache_control: { type: 'ephemeral' } } as const;

/**
 * Claude up to 4.6 accepts `temperature` and a forced tool; later models answer 400 to both (what's new in Opus 4.7 and
 * Sonnet 5.5). Other names belong to compatible servers, which accept them.
 */
const LATER_CLAUDE = /^claude-(?!(?:[23]|instant|(?:opus|sonnet|haiku)-4(?:-[0-6])?(?:-\d{8}|-latest)?$))/;

/** Our request as one of the Messages API, with cache breakpoints after the system prompt, the tools and the messages. */
export function anthropicParams(request: ModelRequest): AnthropicParams {
  const { options = {} } = request;
  const later = LATER_CLAUDE.test(request.model);
  const forced = typeof request.toolChoice === 'object' ? request.toolChoice.tool : undefined;
  const steered = later ? forced : undefined;
  const tools = toolsFor(request, steered);
  const system = systemFor(request.system, steered);
  const messages = cachedMessages(conversationFor(request));
  return {
    model: request.model,
    max_tokens: request.maxTokens,
    stream: true,
    messages,
    ...(system.length > 0 && { system }),
    ...toolFields(request, { tools, steered }),
    // Anthropic's scale ends at 1, the definition's at 2; with thinking there is none.
    ...(request.temperature !== undefined &&
      !later &&
      !options.thinkingTokens && { temperature: Math.min(request.temperature, 1) }),
    ...(options.thinkingTokens && {
      thinking: allowed(thinkingOf(options.thinkingTokens, { later, maxTokens: request.maxTokens }), {
        model: request.model,
        messages,
      }),
    }),
    ...(options.containerId !== undefined && { container: options.containerId }),
    ...options.apiKwargs,
  };
}

/** The provider's own tools follow Drover's. */
function toolFields(
  request: ModelRequest,
  { tools, steered }: { tools: readonly ToolSpec[]; steered: string | undefined },
): Pick<AnthropicParams, 'tools' | 'tool_choice'> {
  const { serverTools = [] } = request.options ?? {};
  if (tools.length + serverTools.length === 0) return {};
  const declared = [...tools.map(toolParam), ...(serverTools as unknown as Anthropic.ToolUnion[])];
  return { tools: declared, tool_choice: toolChoiceOf(request, steered) };
}

/**
 * Reasoning must leave room for the answer, and a budget may leave less than the agent asks for. Later models set their
 * own amount.
 */
function thinkingOf(
  budget: number,
  { later, maxTokens }: { later: boolean; maxTokens: number },
): Anthropic.ThinkingConfigParam {
  if (later) return { type: 'adaptive' };
  const most = Math.min(budget, maxTokens - 1);
  return most >= LEAST_THINKING ? { type: 'enabled', budget_tokens: most } : { type: 'disabled' };
}

const LEAST_THINKING = 1024;

/** Claude up to 4.6 answers 400 if it is to reason in the middle of a turn that another model began. */
function allowed(
  thinking: Anthropic.ThinkingConfigParam,
  asked: Pick<AnthropicParams, 'model' | 'messages'>,
): Anthropic.ThinkingConfigParam {
  return thinking.type === 'enabled' && !mayReason(asked) ? { type: 'disabled' } : thinking;
}

/** The same request without its container, which the provider no longer knows; undefined if it has none. */
export function withoutContainer({ container, ...params }: AnthropicParams): AnthropicParams | undefined {
  return container === undefined ? undefined : params;
}

/** The same request without thinking blocks, and without reasoning where these had to begin it; undefined if it has none. */
export function withoutThinking({ thinking, ...params }: AnthropicParams): AnthropicParams | undefined {
  let dropped = false;
  const plain = params.messages.map((message) => {
    if (typeof message.content === 'string') return message;
    const content = message.content.filter((block) => !isThought(block));
    dropped ||= content.length < message.content.length;
    return { ...message, content } as Anthropic.MessageParam;
  });
  if (!dropped) return undefined;
  const messages = plain.filter((message) => message.content.length > 0);
  return { ...params, messages, ...(thinking && { thinking: allowed(thinking, { ...params, messages }) }) };
}

/** If a tool cannot be forced, it is the only one offered, and the system prompt asks for it. */
function toolsFor(request: ModelRequest, steered: string | undefined): ToolSpec[] {
  const tools = declaredTools(request.tools, request.messages);
  return steered === undefined ? tools : tools.filter((tool) => tool.name === steered);
}

function systemFor(system: string, steered: string | undefined): Anthropic.TextBlockParam[] {
  const blocks: Anthropic.TextBlockParam[] = [];
  if (system.trim() !== '') blocks.push({ type: 'text', text: system, ...CACHED });
  if (steered !== undefined) {
    blocks.push({ type: 'text', text: `Answer only with one call of the tool \`${steered}\`, without other text.` });
  }
  return blocks;
}

/** What the Messages API takes as the name of a property at the top of a schema. */
const PROPERTY_NAME = /^[a-zA-Z0-9_.-]{1,64}$/;

function toolParam(tool: ToolSpec, index: number, all: readonly ToolSpec[]): Anthropic.Tool {
  return {
    name: tool.name,
    description: tool.description,
    input_schema: sentSchema(tool.input_schema, PROPERTY_NAME),
    ...(index === all.length - 1 && CACHED),
  };
}

function toolChoiceOf(request: ModelRequest, steered: string | undefined): Anthropic.ToolChoice {
  const offered = request.tools.length + (request.options?.serverTools?.length ?? 0);
  if (request.toolChoice === 'none' || offered === 0) return { type: 'none' };
  if (request.toolChoice === 'auto' || steered !== undefined) return { type: 'auto' };
  return { type: 'tool', name: request.toolChoice.tool };
}

function cachedMessages(messages: readonly Message[]): Anthropic.MessageParam[] {
  return messages.map((message, index) => {
    const content = (message.content as (AssistantBlock | UserBlock)[]).map(blockParam);
    const last = content.at(-1);
    if (index === messages.length - 1 && last && isCached(last)) {
      content[content.length - 1] = { ...last, ...CACHED };
    }
    return { role: message.role, content };
  });
}

/** Whether a block may have a cache breakpoint; the provider's own go back unchanged. */
function isCached(
  block: BlockParam,
): block is Exclude<BlockParam, Anthropic.ThinkingBlockParam | Anthropic.RedactedThinkingBlockParam> {
  return !isThought(block) && !isProviderBlock(block);
}

type BlockParam =
  | Anthropic.TextBlockParam
  | Anthropic.ImageBlockParam
  | Anthropic.DocumentBlockParam
  | Anthropic.ToolUseBlockParam
  | Anthropic.ToolResultBlockParam
  | Anthropic.ThinkingBlockParam
  | Anthropic.RedactedThinkingBlockParam;

/** Copies known fields only: the provider refuses unknown ones, which stored blocks may have. */
function blockParam(block: AssistantBlock | UserBlock): BlockParam {
  switch (block.type) {
    case 'text':
      return { type: 'text', text: block.text, ...citationsOf(block) };
    case 'thinking':
      return { type: 'thinking', thinking: block.thinking, signature: block.signature };
    case 'redacted_thinking':
      return { type: 'redacted_thinking', data: block.data };
    case 'image':
      return imageParam(block);
    case 'document':
      return documentParam(block);
    case 'file':
      return { type: 'text', text: noFile(block) };
    case 'tool_use':
      return { type: 'tool_use', id: block.id, name: block.name, input: block.input };
    case 'tool_result':
      return {
        type: 'tool_result',
        tool_use_id: block.tool_use_id,
        content: typeof block.content === 'string' ? block.content : block.content.filter(isShown).map(resultPart),
        ...(block.is_error && { is_error: true }),
      };
    default:
      // Unchanged, or the provider would not recognize its own block.
      return { ...block } as unknown as BlockParam;
  }
}

function citationsOf({ citations }: TextBlock): Pick<Anthropic.TextBlockParam, 'citations'> {
  return citations ? { citations: citations as NonNullable<Anthropic.TextBlockParam['citations']> } : {};
}

function documentParam({ source, title }: DocumentBlock): Anthropic.DocumentBlockParam {
  return { type: 'document', title, source: { type: 'base64', media_type: 'application/pdf', data: source.data } };
}

/** False for empty text blocks, which are refused. */
function isShown(part: TextBlock | ImageBlock | FileBlock): boolean {
  return part.type !== 'text' || part.text.trim() !== '';
}

function resultPart(part: TextBlock | ImageBlock | FileBlock): Anthropic.TextBlockParam | Anthropic.ImageBlockParam {
  if (part.type === 'text') return { type: 'text', text: part.text };
  if (part.type === 'file') return { type: 'text', text: noFile(part) };
  return imageParam(part);
}

function imageParam(block: ImageBlock): Anthropic.TextBlockParam | Anthropic.ImageBlockParam {
  const shown = soundImage(block);
  if (shown.type === 'text') return { type: 'text', text: shown.text };
  return { type: 'image', source: shown.source as Anthropic.ImageBlockParam['source'] };
}
