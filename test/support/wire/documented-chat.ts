/** The chat of docs/wire-forms.md as its page has it. `useChat` is React's part, which adds no behaviour to a chat that it is given. */
import { readFileSync } from 'node:fs';
import { runInThisContext } from 'node:vm';
import * as ai from 'ai';
import { DefaultChatTransport, type ChatInit, type UIMessage } from 'ai';
import { transformSync } from 'esbuild';
import { ROOT } from '../repository.ts';
import { AiChat, chatState } from './ai-chat.ts';

type Init = ChatInit<UIMessage>;

interface Opened {
  url: string;
  key: string;
  agent: string;
  id: string;
  more: Pick<Init, 'onError' | 'messages'>;
  fetch: typeof fetch;
}

/** Opens it, with what a test wants to see of it. Where the page says `resume`, the caller resumes. */
export function openDocumentedChat({ url, key, agent, id, more, fetch: via }: Opened): {
  chat: AiChat;
  resumes: boolean;
} {
  const page = readFileSync(new URL('docs/wire-forms.md', ROOT), 'utf8');
  const [, sample = ''] = /## AI SDK\n[^]*?```tsx\n([^]*?)```/.exec(page) ?? [];
  class Transport extends DefaultChatTransport<UIMessage> {
    constructor(options: ConstructorParameters<typeof DefaultChatTransport<UIMessage>>[0]) {
      super({ ...options, fetch: via });
    }
  }
  const Chat = function ({ messages = [], ...init }: Init) {
    return new AiChat({ ...init, ...more, state: chatState(more.messages ?? messages) });
  };
  let used: { chat: AiChat; resume: boolean } | undefined;
  const useChat = (given: { chat: AiChat; resume: boolean }) => {
    used = given;
    return { messages: [] };
  };
  const packages: Record<string, object> = {
    ai: { ...ai, DefaultChatTransport: Transport },
    '@ai-sdk/react': { Chat, useChat },
    react: { useMemo: <Value>(make: () => Value) => make(), createElement: () => null },
  };
  const module: { exports: { Conversation?: (place: object) => unknown } } = { exports: {} };
  const program = runInThisContext(`((require, module, React) => {${compiled(sample)}})`) as Program;
  program((name) => packages[name], module, packages['react']);
  module.exports.Conversation?.({ drover: url, agentId: agent, threadId: id, token: key });
  if (!used) throw new Error('the page opens no chat');
  return { chat: used.chat, resumes: used.resume };
}

type Program = (require: (name: string) => object | undefined, module: object, react: object | undefined) => void;

/** As a bundler makes it. */
function compiled(sample: string): string {
  return transformSync(sample, { loader: 'tsx', format: 'cjs', jsx: 'transform' }).code;
}
