/** What a tool is, what a call of it is, and how it may end. Shared by the registry, the transports and the engine. */
import type { MessageOrigin, Trust } from './origin.ts';
import type { OutputPart } from './tool-output.ts';

export const RISK_LEVELS = ['READ_ONLY', 'WRITE_LOW_RISK', 'WRITE_HIGH_RISK'] as const;
export type RiskLevel = (typeof RISK_LEVELS)[number];
/** Of a tool that does not say. */
export const DEFAULT_RISK: RiskLevel = 'WRITE_LOW_RISK';

/** The highest of some; the lowest there is where there are none. */
export function highestRisk(levels: readonly RiskLevel[]): RiskLevel {
  return RISK_LEVELS.findLast((level) => levels.includes(level)) ?? 'READ_ONLY';
}

/** Whether a call may be sent again when nobody knows if the last attempt had its effect. */
export const EFFECTS = ['read_only', 'idempotent', 'unknown'] as const;
export type ToolEffect = (typeof EFFECTS)[number];

/** MCP's hints (spec 2025-11-25, ToolAnnotations). */
interface ToolAnnotations {
  readOnlyHint?: boolean | undefined;
  idempotentHint?: boolean | undefined;
  destructiveHint?: boolean | undefined;
  openWorldHint?: boolean | undefined;
}

/** A tool's transport, by its type. A new one adds itself (docs/extending.md). */
export interface TransportTypes {
  builtin: { type: 'builtin' };
  /** Whoever talks to the run executes it. */
  client: { type: 'client' };
  http: {
    type: 'http';
    endpoint: string;
    method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | undefined;
    headers?: Record<string, string> | undefined;
    /** Templates (docs/tools.md): appended to the endpoint's path, in place of its query, in place of the body. */
    path?: string | undefined;
    query?: Record<string, string> | undefined;
    body?: unknown;
    /** JSONata over the answer. */
    response?: { expression: string } | undefined;
    max_bytes?: number | undefined;
    max_redirects?: number | undefined;
  };
  /** Another agent does the work, and says when it is done (A2A). */
  a2a: {
    type: 'a2a';
    /** Of the agent at its host, as the interface of its card says: each request names it. */
    tenant?: string | undefined;
    endpoint: string;
    headers?: Record<string, string> | undefined;
    /** How long its task may take. */
    max_seconds?: number | undefined;
  };
}

export type ToolTransport = TransportTypes[keyof TransportTypes];

/** One immutable version of a tool. `input_schema` is JSON Schema (draft 2020-12 or draft-07). */
export interface ToolDefinition {
  id: string;
  name: string;
  version: string;
  display_name?: string | undefined;
  /** Under which a model finds it among many (`core/tool-categories.ts`). */
  category?: string | undefined;
  description: string;
  input_schema: Record<string, unknown>;
  output_schema?: Record<string, unknown> | undefined;
  transport: ToolTransport;
  execution: {
    /** Wall time of one attempt. */
    timeout_ms: number;
    retry_config: { max_retries: number; backoff_ms: number };
    /** The driver calls the tool itself instead of the `tool-calls` queue. */
    inline: boolean;
  };
  permissions: { name: string; required: boolean }[];
  risk_level: RiskLevel;
  annotations: ToolAnnotations;
  /** Its calls need no person's leave for what the model had read before. */
  accepts_tainted?: boolean | undefined;
  /** Whether somebody vouches for what it answers; its transport says so where this is absent. */
  output_trust?: Trust | undefined;
}

/** Built-in tools that read what strangers have written. */
const READING_STRANGERS: readonly string[] = ['http_get', 'read_resource'];

/**
 * Whether somebody vouches for what a tool answers. Whoever registers a tool does, unless it is said to be `untrusted` or
 * to deal with an open world (MCP's hint).
 */
export function trustOf({ name, transport, annotations, output_trust }: TrustedTool): Trust {
  if (output_trust) return output_trust;
  if (transport.type === 'builtin') return READING_STRANGERS.includes(name) ? 'untrusted' : 'trusted';
  return transport.type === 'a2a' || annotations.openWorldHint ? 'untrusted' : 'trusted';
}

/** Who says what a tool's call is answered with: a person, another agent's model, or the tool, the client's own included. */
export function originOfAnswer({ name, transport }: Pick<ToolDefinition, 'name' | 'transport'>): MessageOrigin {
  if (transport.type !== 'builtin') return 'tool';
  return name === ASK_USER_TOOL ? 'user' : name === DELEGATE_TOOL ? 'model' : 'tool';
}

type TrustedTool = Pick<ToolDefinition, 'name' | 'transport' | 'annotations' | 'output_trust'>;

/** `risk_level: READ_ONLY` makes a tool read-only; else its annotations say (docs/tools.md). */
export function effectOf(tool: Pick<ToolDefinition, 'risk_level' | 'annotations'>): ToolEffect {
  if (tool.risk_level === 'READ_ONLY' || tool.annotations.readOnlyHint) return 'read_only';
  return tool.annotations.idempotentHint ? 'idempotent' : 'unknown';
}

/** Built-in tools that never leave the process: running one again is harmless, so they run inside the drive. */
export const PURE_BUILTINS: readonly string[] = ['calculator', 'current_time', 'json_query'];

/** The built-in tool whose calls a person answers. */
export const ASK_USER_TOOL = 'ask_user';

/** The built-in tool whose calls another agent answers, in a run of its own. */
export const DELEGATE_TOOL = 'delegate';

/** Built-in tools whose calls something from outside answers. */
const WAITING_BUILTINS: readonly string[] = [ASK_USER_TOOL, DELEGATE_TOOL, 'sleep', 'wait_for_webhook'];

/** Whether a person, the client, another system or the time answers the tool's calls. Nobody is held up meanwhile. */
export function isWait(tool: Pick<ToolDefinition, 'name' | 'transport'>): boolean {
  const { type } = tool.transport;
  return type === 'client' || (type === 'builtin' && WAITING_BUILTINS.includes(tool.name));
}

/** Pure calls are committed together with the next model response (docs/design/engine.md, "Tool calls"). */
export function isPure(tool: Pick<ToolDefinition, 'name' | 'transport'>): boolean {
  return tool.transport.type === 'builtin' && PURE_BUILTINS.includes(tool.name);
}

/** One attempt of one call, as a transport gets it. */
export interface ToolAttempt<A extends object = Record<string, unknown>> {
  tenantId: string;
  /** Empty for a direct execution (`POST /v1/tools/{id}/execute`). */
  runId: string;
  toolCallId: string;
  /** The same over every attempt of a call. */
  idempotencyKey: string;
  attempt: number;
  arguments: A;
  timeoutMs: number;
  traceparent?: string | undefined;
  /** Told how far the tool is, as far as it says. */
  onProgress?: ((progress: ToolProgress) => void) | undefined;
  /** Asked just before anything is sent, once all is ready: false where somebody else may have taken the call over by now. */
  maySend?: (() => boolean) | undefined;
  /** The work that an earlier attempt has begun elsewhere: it is looked at, and nothing is begun anew. */
  remote?: RemoteWork | undefined;
  signal: AbortSignal;
}

/** Work that goes on without us, in the words of the transport that has begun it. JSON, and no secrets. */
export type RemoteWork = Record<string, unknown> & {
  /** What it waits to hear, and what somebody has said. */
  question?: string | undefined;
  answer?: string | undefined;
};

/** How far a call is (MCP, progress): `progress` of `total`, in the tool's own unit. */
export interface ToolProgress {
  progress: number;
  total?: number | undefined;
  message?: string | undefined;
}

/**
 * How an attempt ended. A tool that misbehaves is data, never an exception.
 * - `succeeded`: `output` is JSON or text; `content` is what a model sees of it, where that is not the output itself;
 *   `untrusted`: nobody vouches for all of it, whatever is said of the tool.
 * - `elsewhere`: the work has begun and goes on without us: it is looked at again after `waitMs`, and nobody is held up meanwhile.
 *   `question`: it goes on only once somebody has answered that; the next look finds the answer in `remote`.
 * - `error`: the tool itself answered that it failed (4xx, 500, MCP `isError`, bad arguments): an observation for the model. `remote`
 *   goes on all the same, and is to be cancelled. `origin`: the message has none of the tool's words, the transport has written it.
 *   `unsent`: the tool has not had the attempt, which ended before it was sent.
 * - `unreached`: the attempt surely had no effect (refused connection, 429, 503 with retry-after): may be retried. `unsent`: it
 *   was not even begun, which says nothing of the tool.
 * - `lost`: nobody knows whether it had its effect (timeout, connection broken after sending, an answer of what stands before the
 *   tool: 408, 425, 502, 503, 504). A 500 is the tool's own answer; over A2A, which answers in JSON-RPC, it is none.
 * - `aborted`: the caller's signal fired (cancel, lost lease, shutdown); like `lost` for the ledger, unless nothing was sent.
 * `quotes`: the message of what is otherwise told by Drover has words from outside, of the tool or what stands before it.
 */
export type ToolOutcome =
  | {
      kind: 'succeeded';
      output: unknown;
      content?: OutputPart[] | undefined;
      untrusted?: true | undefined;
      /** Characters of the output that could not be kept. */
      replaced?: number | undefined;
      /** Entries of the agent's memory that call or output have words of: they may be forgotten before it is written down. */
      memories?: readonly string[] | undefined;
    }
  | {
      kind: 'elsewhere';
      code: string;
      message: string;
      remote: RemoteWork;
      waitMs: number;
      question?: string | undefined;
    }
  | {
      kind: 'error';
      code: string;
      message: string;
      output?: unknown;
      replaced?: number | undefined;
      remote?: RemoteWork | undefined;
      origin?: 'drover' | undefined;
      unsent?: true | undefined;
    }
  | {
      kind: 'unreached';
      code: string;
      message: string;
      retryAfterMs?: number | undefined;
      unsent?: true | undefined;
      quotes?: boolean | undefined;
    }
  | { kind: 'lost'; code: string; message: string; quotes?: boolean | undefined }
  | { kind: 'aborted'; code: string; message: string; sent?: boolean | undefined };

/** An attempt that was stopped before anything was sent. */
export const ABORTED_UNSENT: ToolOutcome = {
  kind: 'aborted',
  code: 'aborted',
  message: 'The call was aborted.',
  sent: false,
};

/** An attempt whose time was over before anything was sent. */
export const TOO_LATE: ToolOutcome = {
  kind: 'unreached',
  code: 'too-late',
  message: 'The call was not sent: its time was over by then.',
  unsent: true,
};

/** Levels of nesting that the arguments of a call may have. */
export const ARGUMENT_DEPTH = 200;

/** The only argument of a call whose arguments are no JSON object, or are nested too deeply: what the model wrote. */
export const RAW_ARGUMENTS = '_raw';
