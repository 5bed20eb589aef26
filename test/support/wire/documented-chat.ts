/** The chat of docs/wire-forms.md as its page has it. `useChat` is React's part, which adds no behaviour to a chat that it is given. */
import { readFileSync } from 'node:fs';
import { runInThisContext } from 'node:vm';
import {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  type ChatInit,
  type UIMessage,
} from 'ai';
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
  const [, sample = ''] = /## AI SDK\n\n```ts\n([^]*?)```/.exec(page) ?? [];
  class Transport extends DefaultChatTransport<UIMessage> {
    constructor(options: ConstructorParameters<typeof DefaultChatTransport<UIMessage>>[0]) {
      super({ ...options, fetch: via });
    }
  }
  const Chat = function ({ messages = [], ...init }: Init) {
    return new AiChat({ ...init, ...more, state: chatState(more.messages ?? messages) });
  };
  const scope = {
    Chat,
    useChat: (given: { chat: AiChat; resume: boolean }) => given,
    DefaultChatTransport: Transport,
    lastAssistantMessageIsCompleteWithApprovalResponses,
    lastAssistantMessageIsCompleteWithToolCalls,
    drover: url,
    agentId: agent,
    threadId: id,
    key,
  };
  const names = Object.keys(scope).join();
  const code = sample.replace(/<UIMessage<.*?>>(?=\()/, '').replace(/^const \{.*\} = useChat/m, 'return useChat');
  const { chat, resume } = runInThisContext(`(({ ${names} }) => {${code}})`)(scope) as {
    chat: AiChat;
    resume: boolean;
  };
  return { chat, resumes: resume };
}
