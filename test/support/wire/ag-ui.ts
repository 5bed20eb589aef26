/** The client of AG-UI, which verifies the order of events. */
import { randomUUID } from 'node:crypto';
import { HttpAgent, type AgentStateMutation, type Message } from '@ag-ui/client';
import { cuttingFetch, type WireClient } from './wire-client.ts';

interface AgUiOptions {
  url: string;
  key: string;
  agent: string;
  thread: string;
  fetch?: typeof fetch;
  after?: number;
}

/** A client of `/ag-ui/{agent}`. */
export function openAgUi({ url, key, agent, thread, fetch: via = fetch, after }: AgUiOptions): HttpAgent {
  return new HttpAgent({
    url: `${url}/ag-ui/${agent}`,
    headers: { authorization: `Bearer ${key}`, ...(after !== undefined && { 'last-event-id': String(after) }) },
    threadId: thread,
    fetch: (address, init) => via(address, init),
  });
}

/** Says something as a user, and lets the agent answer. */
export function sayTo(client: HttpAgent, text: string): ReturnType<HttpAgent['runAgent']> {
  client.addMessage({ id: randomUUID(), role: 'user', content: text });
  return client.runAgent();
}

export const lastTextOf = ({ messages }: HttpAgent): unknown => messages.at(-1)?.content;

/** Of a failed exchange: the client neither prints it nor throws. */
export const HANDLED: AgentStateMutation = { stopPropagation: true };

/** Arguments are JSON as the model has written it, or as the log has it: the same value. */
function parsed(message: Message): unknown {
  if (message.role !== 'assistant') return message;
  const calls = message.toolCalls?.map(({ function: { name, arguments: args }, ...call }) => {
    return { ...call, name, arguments: JSON.parse(args) as unknown };
  });
  return { ...message, toolCalls: calls };
}

/** For the cut test. */
export function agUiClient(): WireClient {
  let kept: Pick<HttpAgent, 'messages' | 'pendingInterrupts'> = { messages: [], pendingInterrupts: [] };
  return {
    form: 'AG-UI',
    async follow({ cut, server, ...at }) {
      const agent = openAgUi({ ...at, fetch: cuttingFetch(cut, server?.fetch) });
      agent.setMessages(kept.messages);
      // A connection that breaks, and a turn that has failed, are errors of the exchange alike.
      await agent.runAgent({}, { onRunFailed: () => HANDLED });
      kept = { messages: agent.messages, pendingInterrupts: agent.pendingInterrupts };
    },
    state: () => ({ ...kept, messages: kept.messages.map(parsed) }),
  };
}
