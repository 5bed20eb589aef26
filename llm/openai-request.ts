import type { OpenAI } from 'openai';
import { textOf } from '../core/content.ts';
import type { AssistantBlock, ImageBlock, Message, ToolResultBlock, ToolUseBlock, UserBlock } from '../core/content.ts';
import type { ModelRequest, ToolSpec } from '../core/model.ts';
import { declaredTools, mergeMessages, noFile, noImage, soundImage, toolResultText } from './messages.ts';
import { sentSchema } from './sent-schema.ts';

type Params = OpenAI.ChatCompletionCreateParamsStreaming;

/** OpenAI's own models; other names belong to compatible servers. */
const OWN = /^(?:gpt-|chatgpt-|o\d)/;
/**
 * Models that take no images. For compatible servers this is unknown, and a refused request would fail its turn for
 * good: an image from a tool is only named there.
 */
const WITHOUT_IMAGES = /^(?:gpt-3\.5|gpt-4(?:-\d{4}|-32k.*)?$|o1-mini|o1-preview|o3-mini)/;
/** Reasoning models, which accept no temperature. */
const REASONS = /^(?:o\d|gpt-(?:[5-9]|\d\d))/;
/** From 5.6 on chat completions refuse function tools unless reasoning is turned off explicitly. */
const TOOLS_WITHOUT_REASONING = /^gpt-(?:5\.[6-9]|[6-9]|\d\d)/;

/**
 * Our request as chat completions. Thinking blocks are left out, as they mean nothing to another provider; but servers
 * that show their reasoning want it back until an answer's calls are done (DeepSeek answers 400 without).
 */
export function openaiParams(request: ModelRequest): Params {
  const tools = declaredTools(request.tools, request.messages);
  const takes = OWN.test(request.model) && !WITHOUT_IMAGES.test(request.model);
  return {
    model: request.model,
    messages: [...systemMessage(request.system), ...conversation(request, takes)],
    stream: true,
    stream_options: { include_usage: true },
    // Newer models refuse `max_tokens`; older compatible servers know no other name.
    ...(OWN.test(request.model) ? { max_completion_tokens: request.maxTokens } : { max_tokens: request.maxTokens }),
    ...(request.temperature !== undefined && !REASONS.test(request.model) && { temperature: request.temperature }),
    ...(tools.length > 0 && { tools: tools.map(toolParam), tool_choice: toolChoiceOf(request) }),
    ...(tools.length > 0 && TOOLS_WITHOUT_REASONING.test(request.model) && { reasoning_effort: 'none' as const }),
    ...request.options?.apiKwargs,
  };
}

function systemMessage(system: string): OpenAI.ChatCompletionMessageParam[] {
  return system.trim() === '' ? [] : [{ role: 'system', content: system }];
}

function toolParam(tool: ToolSpec): OpenAI.ChatCompletionTool {
  return {
    type: 'function',
    function: { name: tool.name, description: tool.description, parameters: sentSchema(tool.input_schema) },
  };
}

function toolChoiceOf(request: ModelRequest): OpenAI.ChatCompletionToolChoiceOption {
  if (request.toolChoice === 'none' || request.tools.length === 0) return 'none';
  return request.toolChoice === 'auto' ? 'auto' : { type: 'function', function: { name: request.toolChoice.tool } };
}

/** A user message with results becomes one `tool` message per result, then the user's own content. */
function conversation({ model, messages }: ModelRequest, takesImages: boolean): OpenAI.ChatCompletionMessageParam[] {
  const merged = mergeMessages(messages);
  const turnAt = merged.findLastIndex((message) => message.role === 'user' && !isOfResults(message));
  return merged.flatMap((message, index) =>
    message.role === 'assistant'
      ? assistantMessage(message.content, { withReasoning: index > turnAt && !OWN.test(model) })
      : userMessages(message.content, takesImages),
  );
}

function isOfResults({ content }: Message): boolean {
  return content.some((block) => block.type === 'tool_result');
}

/** Reasoning with a signature is another provider's. */
function reasoningOf(content: AssistantBlock[]): string {
  return content.map((block) => (block.type === 'thinking' && block.signature === '' ? block.thinking : '')).join('');
}

function assistantMessage(
  content: AssistantBlock[],
  { withReasoning }: { withReasoning: boolean },
): OpenAI.ChatCompletionMessageParam[] {
  const reasoning = withReasoning ? reasoningOf(content) : '';
  const calls = content.filter((block): block is ToolUseBlock => block.type === 'tool_use');
  const text = textOf(content);
  if (text === '' && calls.length === 0) return [];
  return [
    {
      role: 'assistant',
      content: text === '' ? null : text,
      ...(reasoning !== '' && calls.length > 0 && { reasoning_content: reasoning }),
      ...(calls.length > 0 && {
        tool_calls: calls.map((call) => ({
          id: call.id,
          type: 'function' as const,
          function: { name: call.name, arguments: JSON.stringify(call.input) },
        })),
      }),
    },
  ];
}

function userMessages(content: UserBlock[], takesImages: boolean): OpenAI.ChatCompletionMessageParam[] {
  const found = content.filter((block) => block.type === 'tool_result');
  const results = found.map((block): OpenAI.ChatCompletionMessageParam => {
    // A failed call has no field of its own, and results are text: their images follow as the user's.
    const text = toolResultText(block, takesImages ? placeOfImage : (image) => noImage(image));
    return { role: 'tool', tool_call_id: block.tool_use_id, content: `${block.is_error ? 'Error: ' : ''}${text}` };
  });
  const images = takesImages ? found.flatMap(imagesOf) : [];
  const said = content.filter((block) => block.type !== 'tool_result').map(partOf);
  const parts = [...images, ...said];
  return parts.length === 0 ? results : [...results, { role: 'user', content: parts }];
}

/** The text in a result for an image that follows it, or that cannot be sent. */
function placeOfImage(block: ImageBlock): string {
  const shown = soundImage(block);
  return shown.type === 'text' ? shown.text : '[image: see the next message]';
}

function imagesOf({ tool_use_id: id, content }: ToolResultBlock): OpenAI.ChatCompletionContentPart[] {
  const blocks = typeof content === 'string' ? [] : content.filter((block) => block.type === 'image');
  const images = blocks.map(soundImage).filter((block) => block.type === 'image');
  return images.flatMap((image) => [{ type: 'text' as const, text: `Image of the result ${id}:` }, partOf(image)]);
}

function partOf(block: Exclude<UserBlock, ToolResultBlock>): OpenAI.ChatCompletionContentPart {
  if (block.type === 'text') return { type: 'text', text: block.text };
  if (block.type === 'file') return { type: 'text', text: noFile(block) };
  if (block.type === 'document') {
    const file_data = `data:${block.source.media_type};base64,${block.source.data}`;
    return { type: 'file', file: { filename: block.title, file_data } };
  }
  const shown = soundImage(block);
  if (shown.type === 'text') return { type: 'text', text: shown.text };
  const { source } = shown;
  const url = source.type === 'url' ? source.url : `data:${source.media_type};base64,${source.data}`;
  return { type: 'image_url', image_url: { url } };
}
