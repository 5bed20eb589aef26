/** The client of the AI SDK: what `useChat` is, without React. */
import { randomUUID } from 'node:crypto';
import { AbstractChat, DefaultChatTransport, type ChatInit, type ChatState, type UIMessage } from 'ai';
import { cuttingFetch, type WireClient } from './wire-client.ts';

export class AiChat extends AbstractChat<UIMessage> {}

interface AiChatOptions extends Pick<ChatInit<UIMessage>, 'onError' | 'sendAutomaticallyWhen'> {
  url: string;
  key: string;
  agent: string;
  id?: string;
  messages?: UIMessage[];
  fetch?: typeof fetch;
}

/** A chat over `/v1/agents/{agent}/ui-stream`. */
export function openAiChat({ url, key, agent, id = randomUUID(), messages = [], ...more }: AiChatOptions): AiChat {
  const { fetch: via, ...hooks } = more;
  const transport = new DefaultChatTransport<UIMessage>({
    api: `${url}/v1/agents/${agent}/ui-stream`,
    headers: { authorization: `Bearer ${key}` },
    prepareReconnectToStreamRequest: () => ({ api: `${url}/v1/threads/${id}/ui-stream` }),
    ...(via && { fetch: via }),
  });
  return new AiChat({ id, state: chatState(messages), transport, ...hooks });
}

export function chatState(messages: UIMessage[]): ChatState<UIMessage> {
  return {
    status: 'ready',
    error: undefined,
    messages,
    pushMessage(message) {
      this.messages = [...this.messages, message];
    },
    popMessage() {
      this.messages = this.messages.slice(0, -1);
    },
    replaceMessage(index, message) {
      this.messages = this.messages.with(index, structuredClone(message));
    },
    snapshot: (thing) => structuredClone(thing),
  };
}

/** For the cut test. */
export function aiClient(): WireClient {
  let messages: UIMessage[] = [];
  return {
    form: 'AI SDK',
    async follow({ url, key, agent, thread, cut, server }) {
      const via = cuttingFetch(cut, server?.fetch);
      const chat = openAiChat({ url, key, agent, id: thread, messages, fetch: via });
      await chat.resumeStream();
      messages = chat.messages;
    },
    state: () => messages,
  };
}
