/** A conversation as the Messages API takes it. */
import { isProviderBlock, type AssistantBlock, type Message } from '../core/content.ts';
import type { ModelRequest } from '../core/model.ts';
import { mergeMessages } from './messages.ts';

/**
 * The messages of a request, without the blocks that Claude refuses: calls of the provider's own tools that were never
 * answered, as in a paused answer that was not gone on with, their results without the call, and reasoning without a
 * signature.
 */
export function conversationFor({ model, messages }: Pick<ModelRequest, 'model' | 'messages'>): Message[] {
  const merged = mergeMessages(messages);
  const isPaired = pairsIn(merged);
  const openAt = openAnswerIn(merged);
  const takesUnsigned = !isClaude(model);
  const kept = merged.map((message, index) => {
    if (message.role === 'user') return message;
    const content = message.content.filter(
      (block) => (takesUnsigned || isSigned(block)) && (index === openAt || isPaired(block)),
    );
    return content.length === message.content.length ? message : { ...message, content: withoutLastThoughts(content) };
  });
  const isWhole = kept.every((message, index) => message === merged[index]);
  return isWhole ? merged : mergeMessages(kept.filter(({ content }) => content.length > 0));
}

/**
 * Whether Claude up to 4.6 may reason on with these messages: all answers between two messages of the user are one to it,
 * which has to begin with reasoning then. It does not if another model began it. Other models are not so strict.
 */
export function mayReason({ model, messages }: { model: string; messages: readonly AnyMessage[] }): boolean {
  const saidAt = messages.findLastIndex(({ role, content }) => role === 'user' && !holdsResults(content));
  const begun = messages.slice(saidAt + 1).find(({ role }) => role === 'assistant');
  const [first] = typeof begun?.content === 'object' ? begun.content : [];
  return !isClaude(model) || begun === undefined || (first !== undefined && isThought(first));
}

interface AnyMessage {
  role: string;
  content: string | readonly { type: string }[];
}

const holdsResults = (content: AnyMessage['content']) =>
  typeof content === 'object' && content.some(({ type }) => type === 'tool_result');

/** Other names belong to compatible servers, whose reasoning has no signature. */
const isClaude = (model: string) => model.startsWith('claude-');

/** Where the answer is that the provider goes on with, its own calls included, once it has the results of ours; or -1. */
function openAnswerIn(messages: readonly Message[]): number {
  const last = messages.findLastIndex(({ role }) => role === 'assistant');
  const isOpen = messages.slice(last + 1).every(({ content }) => content.every(({ type }) => type === 'tool_result'));
  return isOpen ? last : -1;
}

interface OwnBlock {
  type: string;
  id?: unknown;
  tool_use_id?: unknown;
}

/** Whether a block has its partner in the conversation, or is of a kind that has none. */
function pairsIn(messages: readonly Message[]): (block: OwnBlock) => boolean {
  const own = messages.flatMap(({ content }): OwnBlock[] => content.filter(isProviderBlock));
  const called = new Set(own.filter(isCall).map(({ id }) => id));
  const answered = new Set(own.filter(isResult).map(({ tool_use_id: id }) => id));
  return (block) => {
    if (isCall(block)) return answered.has(block.id);
    return !isResult(block) || called.has(block.tool_use_id);
  };
}

const isCall = ({ type }: OwnBlock) => type === 'server_tool_use' || type === 'mcp_tool_use';
const isResult = (block: OwnBlock) => isProviderBlock(block) && block.type.endsWith('_tool_result');

/** An answer that goes back may not end with the reasoning for what was left out. */
function withoutLastThoughts(content: AssistantBlock[]): AssistantBlock[] {
  return content.slice(0, content.findLastIndex((block) => !isThought(block)) + 1);
}

const isSigned = (block: AssistantBlock) => block.type !== 'thinking' || block.signature !== '';

/** Whether a block is reasoning. */
export const isThought = ({ type }: { type: string }): boolean => type === 'thinking' || type === 'redacted_thinking';
