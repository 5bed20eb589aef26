/** An ACP connection over a WebSocket: the official SDK's agent side over Drover's sessions. */
import {
  agent,
  methods,
  PROTOCOL_VERSION,
  RequestError,
  type AgentContext,
  type ClientCapabilities,
  type InitializeRequest,
  type InitializeResponse,
  type PromptResponse,
  type StopReason,
} from '@agentclientprotocol/sdk';
import type { Caller } from '../../core/caller.ts';
import { LIMITS } from '../../core/limits.ts';
import { requestRates } from '../../core/rate-limits.ts';
import { VERSION } from '../../core/version.ts';
import type { Context } from '../../modules/governance/context.ts';
import { openThread, requireReadableThread, requireThread } from '../../modules/sessions/client-thread.ts';
import type { RateCounter } from '../../modules/tenants/rate-counter.ts';
import { countAgainst } from '../kit/rate-limit.ts';
import type { OpenSocket } from '../kit/sockets.ts';
import type { CallerWatch } from '../kit/watch-caller.ts';
import { canAsk, decided, filledIn, formFor, permissionFor } from './acp-asks.ts';
import { inputOf, readMeta, refuseServers, toRequestError } from './acp-request.ts';
import type { Stop } from './acp-follow.ts';
import { listSessions } from './acp-list.ts';
import { openAcpSession, type AcpSession, type AcpSessionParts } from './acp-session.ts';
import { streamOf } from './acp-stream.ts';
import { isUuid } from '../../lib/is-uuid.ts';

interface AcpParts {
  open: OpenSocket;
  caller: Caller;
  agentId: string;
  counter: RateCounter;
  /** Throws once the caller's key or token has ended. */
  check: CallerWatch['check'];
}

/** An internal fault: the client should connect again. */
const INTERNAL = 1011;
/** JSON-RPC's code. */
const INTERNAL_ERROR = -32603;
const BEGINNING = { place: 0, seq: 0 };

/** A connection, with its client's capabilities. */
interface Connection extends AcpParts {
  context: Context;
  sessions: Map<string, AcpSession>;
  client: ClientCapabilities;
  /** Fires when the connection has ended. */
  signal: AbortSignal;
  peer: () => AgentContext;
}

/** Serves a connection until either side closes it; that cancels no work. */
export function serveAcp(context: Context, parts: AcpParts): void {
  const ended = new AbortController();
  parts.open.socket.once('close', () => ended.abort());
  const { signal } = ended;
  const connection: Connection = {
    ...parts,
    context,
    sessions: new Map(),
    client: {},
    signal,
    peer: () => served.client,
  };
  const counted = countedBy(connection);
  const served = agent({ name: 'drover' })
    .onRequest(methods.agent.initialize, ({ params }) => {
      connection.client = params.clientCapabilities ?? {};
      return initialized(params);
    })
    .onRequest(methods.agent.session.new, ({ params }) =>
      counted(async () => {
        refuseServers(params);
        return { sessionId: await openThread(context, parts) };
      }),
    )
    .onRequest(methods.agent.session.load, ({ params }) =>
      counted(async () => {
        refuseServers(params);
        const { after = BEGINNING } = readMeta(params);
        await (await readableSession(connection, params)).load(after);
        return {};
      }),
    )
    .onRequest(methods.agent.session.resume, ({ params }) =>
      counted(async () => {
        refuseServers(params);
        await (await readableSession(connection, params)).resume();
        return {};
      }),
    )
    .onRequest(methods.agent.session.list, ({ params }) => counted(() => listSessions(context, parts, params)))
    .onRequest(methods.agent.session.prompt, ({ params }) =>
      counted(async () => {
        const { id, mode } = readMeta(params);
        const said = { input: inputOf(params.prompt), id, mode };
        return toPromptResponse(await (await sessionOf(connection, params)).prompt(said));
      }),
    )
    .onNotification(methods.agent.session.cancel, ({ params }) =>
      counted(async () => (await sessionOf(connection, params)).cancel()).catch(() => undefined),
    )
    .connect(streamOf(parts.open, signal));
}

/** Counts a message as a request, and converts errors for the client. */
function countedBy({ context, counter, caller, check }: Connection) {
  return async <Answer>(handle: () => Promise<Answer>): Promise<Answer> => {
    try {
      await check();
      await countAgainst(counter, requestRates(caller));
      return await handle();
    } catch (error) {
      const told = toRequestError(error);
      if (!(error instanceof RequestError) && told.code === INTERNAL_ERROR)
        context.log.error({ err: error }, 'a request over ACP failed');
      throw told;
    }
  };
}

/** A session that the caller may read. Throws -32002. */
async function readableSession(connection: Connection, params: { sessionId: string }): Promise<AcpSession> {
  const { context, caller } = connection;
  const session = await sessionOf(connection, params);
  await context.db.withTenant(caller.tenantId, (tx) => requireReadableThread(tx, caller, toId(params.sessionId)));
  return session;
}

/** A session of the agent, by its thread's id. Throws -32002. */
async function sessionOf(connection: Connection, params: { sessionId: string }): Promise<AcpSession> {
  const { context, caller, agentId, open, sessions, signal } = connection;
  const sessionId = toId(params.sessionId);
  await requireThread(context, { caller, agentId, threadId: sessionId });
  const known = sessions.get(sessionId);
  if (known) return known;
  makeRoom(sessions);
  const onFault = (error: unknown) => {
    context.log.error({ err: error, thread: sessionId }, 'a session over ACP broke off');
    open.socket.close(INTERNAL, 'Something went wrong; connect again.');
  };
  const made = openAcpSession(context, { caller, agentId, sessionId, signal, onFault, ...towards(connection) });
  sessions.set(sessionId, made);
  return made;
}

function towards(connection: Connection): Pick<AcpSessionParts, 'update' | 'canAsk' | 'ask'> {
  const { caller, peer, check } = connection;
  return {
    update: (notification) => peer().notify(methods.client.session.update, notification),
    canAsk: (asked) => canAsk(asked, caller, connection.client),
    async ask(asked, sessionId, cancellationSignal) {
      const options = { cancellationSignal, stopWaitingOnCancel: true };
      if (asked.ask.kind === 'question') {
        const form = formFor(asked, sessionId);
        const filled = await peer().request(methods.client.elicitation.create, form, options);
        await check();
        return filledIn(asked, filled);
      }
      const permission = permissionFor(asked, sessionId);
      const chosen = await peer().request(methods.client.session.requestPermission, permission, options);
      await check();
      return decided(asked, chosen);
    },
  };
}

function initialized({ protocolVersion }: InitializeRequest): InitializeResponse {
  return {
    // The newest that both know: a client that knows only older ones closes the connection.
    protocolVersion: Math.min(Math.max(protocolVersion, PROTOCOL_VERSION), PROTOCOL_VERSION),
    agentInfo: { name: 'drover', version: VERSION },
    agentCapabilities: {
      loadSession: true,
      promptCapabilities: { embeddedContext: true, image: true },
      sessionCapabilities: { list: {}, resume: {} },
    },
    authMethods: [],
  };
}

/** The session id is a thread's. Throws -32002 if malformed. */
function toId(sessionId: string): string {
  if (!isUuid(sessionId)) throw RequestError.sessionNotFound(sessionId);
  return sessionId.toLowerCase();
}

/** Drops an idle session, which is opened again on demand. Throws -32600 if there is none. */
function makeRoom(sessions: Map<string, AcpSession>): void {
  if (sessions.size < LIMITS.acpSessions) return;
  const [idle] = [...sessions].find(([, session]) => !session.isFollowing()) ?? [];
  if (idle === undefined) throw RequestError.invalidRequest(undefined, 'the connection has too many sessions at work');
  sessions.delete(idle);
}

/** The answer to a prompt. Throws for a failed turn. */
function toPromptResponse({ turn, end, fate }: Stop): PromptResponse {
  if (fate) return { stopReason: 'cancelled', _meta: { drover: { message: { status: fate } } } };
  const about = { turn_id: turn.turnId, run_id: turn.runId };
  if (end?.status === 'failed') throw new RequestError(INTERNAL_ERROR, end.message, { ...about, code: end.code });
  const status = end?.status ?? 'awaiting_human';
  return { stopReason: stopReasonOf(end), _meta: { drover: { ...about, status } } };
}

function stopReasonOf(end: Stop['end']): StopReason {
  if (end?.status === 'cancelled') return 'cancelled';
  return STOP_REASONS[end?.stopReason ?? ''] ?? 'end_turn';
}

const STOP_REASONS: Record<string, StopReason> = {
  max_steps: 'max_turn_requests',
  max_tokens: 'max_tokens',
  refusal: 'refusal',
};
