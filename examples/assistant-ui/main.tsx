/** A front end on assistant-ui: it talks with an agent of Drover's over AG-UI, and decides what the agent asks. */
import { HttpAgent, type RunAgentInput } from '@ag-ui/client';
import {
  AssistantRuntimeProvider,
  ComposerPrimitive,
  ExportedMessageRepository,
  MessagePrimitive,
  QueueItemPrimitive,
  ThreadPrimitive,
  type ThreadHistoryAdapter,
  type ToolCallMessagePartProps,
} from '@assistant-ui/react';
import { useAgUiInterrupts, useAgUiRuntime, useAgUiSubmitInterruptResponses } from '@assistant-ui/react-ag-ui';
import { useEffect, useMemo, useState, type FormEvent } from 'react';
import { createRoot } from 'react-dom/client';

interface Connection {
  url: string;
  agent: string;
  thread: string;
  apiKey: string;
}

/** Asks for a key, or a token for the thread, which is kept in no storage. */
function Connect({ onConnect }: { onConnect: (to: Connection) => void }) {
  const given = new URLSearchParams(location.search);
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const { url, agent, thread, apiKey } = Object.fromEntries(new FormData(event.currentTarget));
    // There again after a reload; the key is not.
    const shown = new URLSearchParams({ url: String(url), agent: String(agent), thread: String(thread) });
    history.replaceState(null, '', `?${shown.toString()}`);
    const address = String(url).replace(/\/+$/, '');
    onConnect({ url: address, agent: String(agent), thread: String(thread), apiKey: String(apiKey) });
  };
  return (
    <form onSubmit={submit}>
      <input name="url" required defaultValue={given.get('url') ?? 'http://localhost:3000'} aria-label="Server" />
      <input name="agent" required defaultValue={given.get('agent') ?? ''} placeholder="Agent's id" />
      <input name="thread" required defaultValue={given.get('thread') ?? newThread()} aria-label="Thread" />
      <input name="apiKey" type="password" required placeholder="Key, or token for the thread" />
      <button type="submit">Connect</button>
    </form>
  );
}

/** Not an id alone: a name has a token before anything was said on its thread. */
const newThread = () => `chat-${crypto.randomUUID()}`;

/** Asks Drover. The browser tells a page no more than that it has no answer. */
async function reach(url: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, init);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    const { origin } = new URL(url);
    throw new Error(`Nothing answers at ${origin}, or DROVER_CORS_ORIGINS does not name ${location.origin}.`);
  }
}

/** Is told the newest turn from its start where it goes on with it: assistant-ui keeps what is asked with a message that it has seen begin. */
class Agent extends HttpAgent {
  protected override requestInit(input: RunAgentInput): RequestInit {
    const init = super.requestInit(input);
    const role = input.messages.at(-1)?.role ?? 'assistant';
    if (input.resume || role !== 'assistant') return init;
    return { ...init, headers: { ...this.headers, ...init.headers, 'last-event-id': '0' } };
  }
}

/** What was said before, from Drover; the newest turn is told by going on with it, what is asked in it included. */
async function loadThread({ url, thread, apiKey }: Connection) {
  const headers = { authorization: `Bearer ${apiKey}` };
  const stream = new AbortController();
  const newest = await reach(`${url}/v1/threads/${thread}/ui-stream`, { headers, signal: stream.signal });
  const id = newest.headers.get('x-drover-thread-id');
  stream.abort();
  if (newest.status === 404 || newest.status === 204) return { messages: [] };
  const answer = newest.ok ? await reach(`${url}/v1/threads/${id}/conversations`, { headers }) : newest;
  if (answer.status === 401) throw new Error('The key is not valid.');
  if (!answer.ok) throw new Error(`What was said before cannot be had (${answer.status}).`);
  const { conversations } = (await answer.json()) as { conversations: Turn[] };
  const messages = conversations.slice(1).toReversed().flatMap(messagesOf);
  return { ...ExportedMessageRepository.fromArray(messages), unstable_resume: true };
}

interface Turn {
  turn_id: string;
  user_message: string;
  final_response: string | null;
}

const messagesOf = ({ turn_id, user_message, final_response }: Turn) => [
  { id: `${turn_id}.input`, role: 'user' as const, content: user_message },
  { id: `${turn_id}.answer`, role: 'assistant' as const, content: final_response ?? '' },
];

function Chat(connection: Connection) {
  const { url, agent: id, thread, apiKey: key } = connection;
  const [failure, setFailure] = useState('');
  const agent = useMemo(() => {
    const headers = { authorization: `Bearer ${key}` };
    return new Agent({ url: `${url}/ag-ui/${id}`, headers, threadId: thread, fetch: reach });
  }, [url, id, thread, key]);
  // What was said is Drover's to keep; what is open of the newest turn is shown by going on with it.
  const history = useMemo<ThreadHistoryAdapter>(
    () => ({ load: () => loadThread(connection), append: async () => undefined }),
    [connection],
  );
  const onError = (error: Error) => setFailure(error.message);
  const runtime = useAgUiRuntime({ agent, adapters: { history }, unstable_enableMessageQueue: true, onError });
  useEffect(() => runtime.thread.subscribe(() => runtime.thread.getState().isRunning && setFailure('')), [runtime]);
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <ThreadPrimitive.Root>
        <ThreadPrimitive.Viewport>
          <ThreadPrimitive.Messages components={{ UserMessage, AssistantMessage }} />
          <Asks />
          {failure && (
            <p className="failed" role="alert">
              {failure}{' '}
              <button
                onClick={() =>
                  runtime.thread.resumeRun({ parentId: runtime.thread.getState().messages.at(-1)?.id ?? null })
                }
              >
                Go on
              </button>
            </p>
          )}
        </ThreadPrimitive.Viewport>
        <Composer />
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  );
}

/** Takes what is said. While something is asked there are the fields of that. */
function Composer() {
  if (useAgUiInterrupts().length > 0) return null;
  return (
    <ComposerPrimitive.Root className="composer">
      <ComposerPrimitive.Queue>
        {() => (
          <p dir="auto" className="waits">
            waits: <QueueItemPrimitive.Text />
          </p>
        )}
      </ComposerPrimitive.Queue>
      <ComposerPrimitive.Input placeholder="Say something" rows={1} dir="auto" />
      <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
    </ComposerPrimitive.Root>
  );
}

const UserMessage = () => (
  <MessagePrimitive.Root className="message user" dir="auto">
    <MessagePrimitive.Parts />
  </MessagePrimitive.Root>
);

const AssistantMessage = () => (
  <MessagePrimitive.Root className="message assistant" dir="auto">
    <MessagePrimitive.Parts components={{ tools: { Fallback: Call } }} />
  </MessagePrimitive.Root>
);

const Call = ({ toolName, argsText, result }: ToolCallMessagePartProps) => (
  <div className="call" dir="ltr">
    {toolName}({argsText})
    {result === undefined ? ' …' : ` → ${typeof result === 'string' ? result : JSON.stringify(result)}`}
  </div>
);

/** Of a call that has to be approved, and of one of which nobody knows whether it has had its effect. */
const CHOICES: Record<string, Record<string, unknown>> = {
  approval: { Approve: { approved: true }, Deny: { approved: false } },
  unknown: {
    'It has happened': { decision: 'happened' },
    'Call it again': { decision: 'rerun' },
    'Give up': { decision: 'give_up' },
  },
};

/** What waits for a person. All of it is answered at once. */
function Asks() {
  const interrupts = useAgUiInterrupts();
  const submit = useAgUiSubmitInterruptResponses();
  const [answers, setAnswers] = useState<Record<string, unknown>>({});
  const answer = (interruptId: string, payload: unknown) => {
    const all = { ...answers, [interruptId]: payload };
    setAnswers(all);
    if (interrupts.some(({ id }) => !(id in all))) return;
    setAnswers({});
    void submit(interrupts.map(({ id }) => ({ interruptId: id, status: 'resolved' as const, payload: all[id] })));
  };
  return interrupts
    .filter(({ id }) => !(id in answers))
    .map(({ id, reason, message }) => (
      <div className="ask" key={id}>
        <p dir="auto">{message ?? reason}</p>
        {CHOICES[reason] ? (
          Object.entries(CHOICES[reason]).map(([label, payload]) => (
            <button key={label} onClick={() => answer(id, payload)}>
              {label}
            </button>
          ))
        ) : (
          <form
            onSubmit={(event) => {
              event.preventDefault();
              answer(id, String(new FormData(event.currentTarget).get('answer')));
            }}
          >
            <input name="answer" aria-label="Answer" dir="auto" />
            <button type="submit">Answer</button>
          </form>
        )}
      </div>
    ));
}

function App() {
  const [connection, setConnection] = useState<Connection>();
  return connection ? <Chat {...connection} key={connection.thread} /> : <Connect onConnect={setConnection} />;
}

createRoot(document.getElementById('root') as HTMLElement).render(<App />);
