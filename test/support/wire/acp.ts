/** The client's side of the SDK of ACP, over a WebSocket. */
import {
  client,
  methods,
  type ClientConnection,
  type CreateElicitationRequest,
  type CreateElicitationResponse,
  type RequestPermissionRequest,
  type RequestPermissionResponse,
  type SessionNotification,
  type Stream,
} from '@agentclientprotocol/sdk';
import { createWebSocketStream } from '@agentclientprotocol/sdk/experimental/ws-client';
import { WebSocket } from 'ws';
import type { Cut, WireClient, WireServer } from './wire-client.ts';

type Answer<Request, Response> = (request: Request) => Promise<Response>;

export interface AcpOptions {
  url: string;
  key: string;
  agent: string;
  cut?: Cut | undefined;
  /** In place of the network. */
  server?: WireServer | undefined;
  onUpdate: (notification: SessionNotification) => void;
  /** Without it permissions are never answered. */
  onPermission?: Answer<RequestPermissionRequest, RequestPermissionResponse>;
  /** Without it the client has no forms. */
  onQuestion?: Answer<CreateElicitationRequest, CreateElicitationResponse>;
}

export interface AcpClient {
  agent: ClientConnection['agent'];
  closed: Promise<void>;
  leave: () => void;
  /** Resolves once all that was sent before it has arrived; rejects where the connection has ended. */
  roundTrip: () => Promise<void>;
}

/** A client of `/acp/{agent}`, which has said what it can. */
export async function openAcp({ onUpdate, ...options }: AcpOptions): Promise<AcpClient> {
  const { server, cut, ...answers } = options;
  const stream = server?.acp(cut) ?? overNetwork(options);
  const connection = client({ name: 'test' })
    .onNotification(methods.client.session.update, ({ params }) => onUpdate(params))
    .onRequest(methods.client.session.requestPermission, ({ params }) => answers.onPermission?.(params) ?? never())
    .onRequest(methods.client.elicitation.create, ({ params }) => answers.onQuestion?.(params) ?? never())
    .connect(stream);
  const elicitation = answers.onQuestion && { form: {} };
  const clientCapabilities = elicitation ? { elicitation } : {};
  await connection.agent.request(methods.agent.initialize, { protocolVersion: 1, clientCapabilities });
  return {
    agent: connection.agent,
    closed: connection.closed,
    leave: () => connection.close(),
    roundTrip: () =>
      connection.agent.request('_test/ping', {}).then(
        () => undefined,
        (error: { code?: number }) => {
          if (error.code !== -32601) throw error;
        },
      ),
  };
}

function overNetwork({ url, key, agent, cut }: Omit<AcpOptions, 'onUpdate'>): Stream {
  return createWebSocketStream(`${url.replace('http', 'ws')}/acp/${agent}`, {
    WebSocket: cut ? cuttingSocket(cut) : WebSocket,
    headers: { authorization: `Bearer ${key}` },
  });
}

const never = () => new Promise<never>(() => undefined);

/** A WebSocket that breaks after so many bytes of what it receives. */
function cuttingSocket({ bytes }: Cut): typeof WebSocket {
  const Cutting = class extends WebSocket {
    left = bytes;

    override emit(name: string | symbol, ...args: unknown[]): boolean {
      if (name === 'message') {
        this.left -= (args[0] as Buffer).length;
        if (this.left < 0) {
          this.terminate();
          return false;
        }
      }
      return super.emit(name, ...args);
    }
  };
  return Cutting;
}

interface Kept {
  messages: Map<string, { role: string; text: string; isWhole: boolean }>;
  calls: Map<string, Record<string, unknown>>;
  turns: Map<string, Record<string, unknown>>;
  /** What is asked. */
  asked: Map<string, unknown>;
}

const nothing = (): Kept => ({ messages: new Map(), calls: new Map(), turns: new Map(), asked: new Map() });

interface Meta {
  drover?: {
    seq?: number;
    at?: number;
    void?: boolean;
    whole?: boolean;
    turn?: Record<string, unknown> & { turn_id: string };
  };
}

function droverOf({ _meta: meta }: { _meta?: unknown }): Meta['drover'] {
  return ((meta ?? {}) as Meta).drover;
}

/** What a front end keeps of updates: each says what it is about, and a piece of a message its place. */
function keep(kept: Kept, { update }: SessionNotification): void {
  const drover = droverOf(update);
  switch (update.sessionUpdate) {
    case 'user_message_chunk':
    case 'agent_message_chunk':
    case 'agent_thought_chunk': {
      const id = update.messageId ?? '';
      const before = kept.messages.get(id)?.text ?? '';
      const piece = update.content.type === 'text' ? update.content.text : '';
      const text = before.slice(0, drover?.at ?? before.length) + piece;
      if (drover?.void) kept.messages.delete(id);
      else kept.messages.set(id, { role: update.sessionUpdate, text, isWhole: drover?.whole ?? false });
      return;
    }
    case 'tool_call':
    case 'tool_call_update': {
      const { sessionUpdate: _name, ...call } = update;
      if (drover?.void) kept.calls.delete(call.toolCallId);
      else kept.calls.set(call.toolCallId, { ...kept.calls.get(call.toolCallId), ...call });
      return;
    }
    default:
      if (drover?.turn) kept.turns.set(drover.turn.turn_id, drover.turn);
  }
}

const isOver = ({ turns }: Kept) => turns.size > 0 && [...turns.values()].at(-1)?.['status'] !== 'running';

/** For the cut test: `withCursor`, a client that keeps what it has, or else one that loads everything again. */
export function acpClient({ withCursor = true } = {}): WireClient {
  let kept = nothing();
  let after: number | undefined;
  return {
    form: 'ACP',
    async follow({ url, key, agent, thread: sessionId, cut, server }) {
      if (!withCursor) [kept, after] = [nothing(), undefined];
      // What is asked is asked anew on each connection.
      kept.asked = new Map();
      let stop: () => void = () => undefined;
      const stopped = new Promise<void>((resolve) => (stop = resolve));
      const ask = (id: string, of: object) => {
        kept.asked.set(id, of);
        stop();
        return never();
      };
      let connection: AcpClient | undefined;
      try {
        connection = await openAcp({
          url,
          key,
          agent,
          cut,
          server,
          onUpdate(notification) {
            keep(kept, notification);
            after = droverOf(notification)?.seq ?? after;
            if (isOver(kept)) stop();
          },
          onPermission: (request) => ask(request.toolCall.toolCallId, request),
          onQuestion: (request) => ask(request.message, request),
        });
        void connection.closed.then(stop);
        const meta = after !== undefined && { _meta: { drover: { after } } };
        await connection.agent.request(methods.agent.session.load, { sessionId, cwd: '/', mcpServers: [], ...meta });
        if (!isOver(kept)) await stopped;
        await connection.roundTrip();
      } catch (error) {
        if (!cut) throw error;
      } finally {
        connection?.leave();
      }
    },
    state: () => ({
      // Who comes later does not see what was broken off.
      messages: Object.fromEntries([...kept.messages].filter(([, { isWhole }]) => isWhole)),
      calls: Object.fromEntries([...kept.calls].filter(([, { rawInput }]) => rawInput !== undefined)),
      turns: Object.fromEntries(kept.turns),
      asked: Object.fromEntries(kept.asked),
    }),
  };
}
