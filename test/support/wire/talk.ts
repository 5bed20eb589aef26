/** A person who talks to an agent through a wire form's own client, and what they are shown. */
import { randomUUID } from 'node:crypto';
import {
  methods,
  type NewSessionResponse,
  type RequestPermissionResponse,
  type SessionUpdate,
} from '@agentclientprotocol/sdk';
import {
  isStaticToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
} from 'ai';
import type { TestApi } from '../api.ts';
import { waitUntil } from '../wait-until.ts';
import { watchSession, type Frame, type Watcher } from '../watch-session.ts';
import { openAcp } from './acp.ts';
import { openAgUi } from './ag-ui.ts';
import { openAiChat } from './ai-chat.ts';

interface Shown {
  /** The assistant's messages, in their order, each by itself. */
  texts: string[];
  /** `{tool}: {whether it has its result}`. */
  calls: string[];
  /** What is asked at the moment. */
  asked: string[];
}

export interface Talk {
  /** Says something; resolves where the stream of it ends, or asks. */
  say: (text: string) => Promise<void>;
  /** Answers the question that is asked, or approves of what is to be approved; resolves as `say` does. */
  answer: (text: string) => Promise<void>;
  /** Looks what has become of the conversation, without a word; a stream that goes on by itself shows it in any case. */
  look: () => Promise<void>;
  shown: () => Shown;
  thread: () => Promise<string>;
  leave: () => void;
}

export interface TalkOf {
  api: TestApi;
  agent: string;
}

const told = (tool: string, isDone: boolean) => `${tool}: ${isDone ? 'done' : 'open'}`;

export async function talkOverAgUi({ api, agent }: TalkOf): Promise<Talk> {
  const name = randomUUID();
  const client = openAgUi({ url: api.url, key: api.key, agent, thread: name });
  let threadId = '';
  client.subscribe({ onRunFailed: ({ error }) => Promise.reject(error) });
  const find = async () => {
    if (threadId === '') threadId = await newestThread(api);
  };
  return {
    async say(text) {
      client.addMessage({ id: randomUUID(), role: 'user', content: text });
      await client.runAgent();
      await find();
    },
    async answer(text) {
      const resume = client.pendingInterrupts.map(({ id, reason }) => {
        return { interruptId: id, status: 'resolved' as const, payload: reason === 'question' ? text : true };
      });
      await client.runAgent({ resume });
    },
    look: async () => void (await client.runAgent()),
    shown() {
      const results = client.messages.flatMap((message) => (message.role === 'tool' ? [message.toolCallId] : []));
      const assistant = client.messages.flatMap((message) => (message.role === 'assistant' ? [message] : []));
      return {
        texts: assistant.flatMap(({ content }) => (content === undefined ? [] : [content])),
        calls: assistant.flatMap(({ toolCalls = [] }) =>
          toolCalls.map((call) => told(call.function.name, results.includes(call.id))),
        ),
        asked: client.pendingInterrupts.map(({ message = '' }) => message),
      };
    },
    thread: async () => threadId,
    leave: () => undefined,
  };
}

export async function talkOverAiSdk({ api, agent }: TalkOf): Promise<Talk> {
  const errors: Error[] = [];
  const chat = openAiChat({
    url: api.url,
    key: api.key,
    agent,
    onError: (error) => errors.push(error),
    sendAutomaticallyWhen: (chats) =>
      lastAssistantMessageIsCompleteWithApprovalResponses(chats) || lastAssistantMessageIsCompleteWithToolCalls(chats),
  });
  const parts = () => chat.messages.flatMap((message) => (message.role === 'assistant' ? message.parts : []));
  const tools = () => parts().flatMap((part) => (isStaticToolUIPart(part) ? [part] : []));
  const open = () =>
    tools().filter(
      ({ state, providerExecuted }) =>
        state === 'approval-requested' || (state === 'input-available' && !providerExecuted),
    );
  const check = () => {
    if (errors[0]) throw errors[0];
  };
  return {
    async say(text) {
      await chat.sendMessage({ text });
      check();
    },
    async answer(text) {
      for (const { state, approval, toolCallId, type } of open()) {
        if (state === 'approval-requested') await chat.addToolApprovalResponse({ id: approval.id, approved: true });
        else await chat.addToolOutput({ tool: type.slice('tool-'.length), toolCallId, output: text });
      }
      await waitUntil('it is answered', () => chat.status === 'ready' || chat.status === 'error');
      check();
    },
    async look() {
      await chat.resumeStream();
      check();
    },
    shown: () => ({
      texts: parts().flatMap((part) => (part.type === 'text' ? [part.text] : [])),
      calls: tools().map(({ type, state }) => told(type.slice('tool-'.length), state.startsWith('output-'))),
      asked: open().map(({ approval, input }) => {
        const { message, question = '' } = (approval?.descriptor ?? input) as { message?: string; question?: string };
        return message ?? question;
      }),
    }),
    async thread() {
      const { thread_id: id = '' } = (chat.messages.at(-1)?.metadata ?? {}) as { thread_id?: string };
      return id;
    },
    leave: () => undefined,
  };
}

interface Asked {
  message: string;
  answer: (text: string) => void;
}

export async function talkOverAcp({ api, agent }: TalkOf): Promise<Talk> {
  const texts = new Map<string, string>();
  const calls = new Map<string, { tool: string; status: string }>();
  const asked = new Set<Asked>();
  let noteAsked: () => void = () => undefined;
  const ask = <T>(message: string, answerOf: (text: string) => T) =>
    new Promise<T>((resolve) => {
      const open: Asked = {
        message,
        answer(text) {
          asked.delete(open);
          resolve(answerOf(text));
        },
      };
      asked.add(open);
      noteAsked();
    });
  const onUpdate = (update: SessionUpdate) => {
    if (update.sessionUpdate === 'agent_message_chunk') {
      const id = update.messageId ?? '';
      const piece = update.content.type === 'text' ? update.content.text : '';
      if (!id.endsWith('.question')) texts.set(id, (texts.get(id) ?? '') + piece);
    }
    if (update.sessionUpdate !== 'tool_call' && update.sessionUpdate !== 'tool_call_update') return;
    const { tool, status } = calls.get(update.toolCallId) ?? { tool: '', status: '' };
    calls.set(update.toolCallId, { tool: update.title ?? tool, status: update.status ?? status });
  };
  const client = await openAcp({
    url: api.url,
    key: api.key,
    agent,
    onUpdate: ({ update }) => onUpdate(update),
    onPermission: ({ toolCall }) =>
      ask<RequestPermissionResponse>(textIn(toolCall.content), () => ({
        outcome: { outcome: 'selected', optionId: 'approve' },
      })),
    onQuestion: ({ message }) => ask(message, (text) => ({ action: 'accept', content: { answer: text } })),
  });
  const { session } = methods.agent;
  const given = { cwd: '/', mcpServers: [] };
  const { sessionId } = await client.agent.request<NewSessionResponse>(session.new, given);
  let prompting: Promise<unknown> = Promise.resolve();
  const untilAsked = () =>
    Promise.race([prompting, new Promise<void>((resolve) => (noteAsked = resolve))]).then(() => undefined);
  return {
    say(text) {
      prompting = client.agent.request(session.prompt, { sessionId, prompt: [{ type: 'text', text }] });
      return untilAsked();
    },
    answer(text) {
      const stopped = untilAsked();
      for (const each of asked) each.answer(text);
      return stopped;
    },
    async look() {
      texts.clear();
      calls.clear();
      await client.agent.request(session.load, { ...given, sessionId });
      await client.roundTrip();
    },
    shown: () => ({
      texts: [...texts.values()],
      calls: [...calls.values()].map(({ tool, status }) => told(tool, status === 'completed')),
      asked: [...asked].map(({ message }) => message),
    }),
    thread: async () => sessionId,
    leave: client.leave,
  };
}

function textIn(content: unknown): string {
  const [first] = (content ?? []) as { content: { text: string } }[];
  return first?.content.text ?? '';
}

/** Over the WebSocket of a session; what is said goes to its chat. */
export async function talkOverSession({ api, agent }: TalkOf): Promise<Talk> {
  let watcher: Watcher | undefined;
  let id: string | undefined;
  const post = async (path: string, body: object) => {
    const { status, json, text } = await api.call('POST', path, { body });
    if (status >= 300) throw new Error(text);
    return json;
  };
  const url = api.url.replace('http', 'ws');
  const headers = { authorization: `Bearer ${api.key}` };
  const frames = () => watcher?.frames ?? [];
  const STOPS = ['completed', 'completed_with_errors', 'error', 'interrupted', 'waiting_for_approval'];
  const stops = () => frames().filter(({ type, seq }) => seq !== undefined && STOPS.includes(type));
  const untilStop = (before: number) => waitUntil('the turn stops', () => stops().length > before);
  const talk = async (message: string) => {
    const before = stops().length;
    const of = id === undefined ? { agent_id: agent, autonomy_level: 2 } : { session_id: id };
    id = (await post('/agent/chat', { message, user_id: 'ada', ...of })).session_id as string;
    watcher ??= await watchSession({ url, headers, session: id, after: 0 });
    await untilStop(before);
  };
  const open = () =>
    stops()
      .slice(-1)
      .filter(({ type }) => type === 'waiting_for_approval');
  return {
    say: talk,
    async answer(text) {
      const [asked] = open();
      if (asked?.payload.kind === 'question') return talk(text);
      const before = stops().length;
      await post(`/v1/approvals/${asked?.payload.approval_id}`, { decision: 'approve' });
      await untilStop(before);
    },
    look: async () => undefined,
    shown: () => ({
      texts: frames().flatMap(({ type, payload, seq }) => {
        if (seq === undefined) return [];
        return type === 'thinking' ? [payload.content] : type === 'answer_ready' ? [payload.answer] : [];
      }),
      calls: callsIn(frames()),
      asked: open().map(({ payload }) => payload.message),
    }),
    thread: async () => id ?? '',
    leave: () => watcher?.socket.terminate(),
  };
}

function callsIn(frames: readonly Frame[]): string[] {
  // A call that is made in one commit has no frame for its start.
  const calls = new Map<string, string>();
  for (const { type, payload } of frames) {
    if (!type.startsWith('tool_call_')) continue;
    calls.set(payload.tool_call_id, told(payload.tool, type === 'tool_call_completed'));
  }
  return [...calls.values()];
}

async function newestThread(api: TestApi): Promise<string> {
  const { json } = await api.call('GET', '/v1/runs?limit=1');
  return json.runs[0].thread_id;
}
