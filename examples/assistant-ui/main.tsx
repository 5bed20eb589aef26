/** A front end on assistant-ui: it talks with an agent of Drover's over AG-UI, and decides what the agent asks. */
import { HttpAgent } from '@ag-ui/client';
import {
  AssistantRuntimeProvider,
  ComposerPrimitive,
  MessagePrimitive,
  ThreadPrimitive,
  type ToolCallMessagePartProps,
} from '@assistant-ui/react';
import { useAgUiInterrupts, useAgUiRuntime, useAgUiSubmitInterruptResponses } from '@assistant-ui/react-ag-ui';
import { useMemo, useState, type FormEvent } from 'react';
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
    onConnect({ url: String(url), agent: String(agent), thread: String(thread), apiKey: String(apiKey) });
  };
  return (
    <form onSubmit={submit}>
      <input name="url" required defaultValue={given.get('url') ?? 'http://localhost:3000'} aria-label="Server" />
      <input name="agent" required defaultValue={given.get('agent') ?? ''} placeholder="Agent's id" />
      <input name="thread" required defaultValue={given.get('thread') ?? crypto.randomUUID()} aria-label="Thread" />
      <input name="apiKey" type="password" required placeholder="Key, or token for the thread" />
      <button type="submit">Connect</button>
    </form>
  );
}

function Chat({ url, agent: id, thread, apiKey: key }: Connection) {
  const [failure, setFailure] = useState('');
  const agent = useMemo(
    () => new HttpAgent({ url: `${url}/ag-ui/${id}`, headers: { authorization: `Bearer ${key}` }, threadId: thread }),
    [url, id, thread, key],
  );
  const runtime = useAgUiRuntime({ agent, onError: (error) => setFailure(error.message) });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <ThreadPrimitive.Root>
        <ThreadPrimitive.Viewport>
          <ThreadPrimitive.Messages components={{ UserMessage, AssistantMessage }} />
          <Asks />
          {failure && <p className="failed">{failure}</p>}
        </ThreadPrimitive.Viewport>
        <ComposerPrimitive.Root className="composer">
          <ComposerPrimitive.Input placeholder="Say something" rows={1} />
          <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
        </ComposerPrimitive.Root>
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  );
}

const UserMessage = () => (
  <MessagePrimitive.Root className="message user">
    <MessagePrimitive.Parts />
  </MessagePrimitive.Root>
);

const AssistantMessage = () => (
  <MessagePrimitive.Root className="message assistant">
    <MessagePrimitive.Parts components={{ tools: { Fallback: Call } }} />
  </MessagePrimitive.Root>
);

const Call = ({ toolName, argsText, result }: ToolCallMessagePartProps) => (
  <div className="call">
    {toolName}({argsText})
    {result === undefined ? ' …' : ` → ${typeof result === 'string' ? result : JSON.stringify(result)}`}
  </div>
);

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
        <p>{message ?? reason}</p>
        {reason === 'approval' ? (
          <>
            <button onClick={() => answer(id, { approved: true })}>Approve</button>
            <button onClick={() => answer(id, { approved: false })}>Deny</button>
          </>
        ) : (
          <form
            onSubmit={(event) => {
              event.preventDefault();
              answer(id, String(new FormData(event.currentTarget).get('answer')));
            }}
          >
            <input name="answer" aria-label="Answer" />
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
