/** Tools, calls, and how calls may end. Shared by registry, transports and engine. */
import type { MessageOrigin, Trust } from './origin.ts';
import type { OutputPart } from './tool-output.ts';

export const RISK_LEVELS = ['READ_ONLY', 'WRITE_LOW_RISK', 'WRITE_HIGH_RISK'] as const;
export type RiskLevel = (typeof RISK_LEVELS)[number];
/** Default risk level. */
export const DEFAULT_RISK: RiskLevel = 'WRITE_LOW_RISK';

/** The highest of the given levels; the lowest one if there are none. */
export function highestRisk(levels: readonly RiskLevel[]): RiskLevel {
  return RISK_LEVELS.findLast((level) => levels.includes(level)) ?? 'READ_ONLY';
}

/** Whether a call may be repeated when nobody knows if the last attempt had an effect. */
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
  /** Executed by the client of the run. */
  client: { type: 'client' };
  http: {
    type: 'http';
    endpoint: string;
    method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | undefined;
    headers?: Record<string, string> | undefined;
    /** Templates (docs/tools.md): appended to the endpoint's path, replacing its query, replacing the body. */
    path?: string | undefined;
    query?: Record<string, string> | undefined;
    body?: unknown;
    /** JSONata over the answer. */
    response?: { expression: string } | undefined;
    max_bytes?: number | undefined;
    max_redirects?: number | undefined;
  };
  /** Another agent does the work, and reports when it is done (A2A). */
  a2a: {
    type: 'a2a';
    /** The agent's tenant at its host, from the interface on its card; sent with each request. */
    tenant?: string | undefined;
    endpoint: string;
    headers?: Record<string, string> | undefined;
    /** Time limit of its task. */
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
  /** Category under which models find the tool among many (`core/tool-categories.ts`). */
  category?: string | undefined;
  description: string;
  input_schema: Record<string, unknown>;
  output_schema?: Record<string, unknown> | undefined;
  transport: ToolTransport;
  execution: {
    /** Time limit of one attempt. */
    timeout_ms: number;
    retry_config: { max_retries: number; backoff_ms: number };
    /** The driver calls the tool itself instead of the `tool-calls` queue. */
    inline: boolean;
  };
  permissions: { name: string; required: boolean }[];
  risk_level: RiskLevel;
  annotations: ToolAnnotations;
  /** Untrusted content read by the model does not make its calls need approval. */
  accepts_tainted?: boolean | undefined;
  /** Whether somebody vouches for its answers; default: as its transport implies. */
  output_trust?: Trust | undefined;
}

/** Built-in tools that read content written by strangers. */
const READING_STRANGERS: readonly string[] = ['http_get', 'read_resource'];

/**
 * Whether somebody vouches for a tool's answers. Registering a tool vouches for it, unless it is marked `untrusted` or
 * open-world (MCP's hint).
 */
export function trustOf({ name, transport, annotations, output_trust }: TrustedTool): Trust {
  if (output_trust) return output_trust;
  if (transport.type === 'builtin') return READING_STRANGERS.includes(name) ? 'untrusted' : 'trusted';
  return transport.type === 'a2a' || annotations.openWorldHint ? 'untrusted' : 'trusted';
}

/** The origin of a tool's answers: a person, another agent's model, or the tool, including the client's own. */
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

/** The built-in tool that asks a person. */
export const ASK_USER_TOOL = 'ask_user';

/** The built-in tool that delegates to another agent, in a run of its own. */
export const DELEGATE_TOOL = 'delegate';

/** Built-in tools answered from outside. */
const WAITING_BUILTINS: readonly string[] = [ASK_USER_TOOL, DELEGATE_TOOL, 'sleep', 'wait_for_webhook'];

/** Whether the tool's calls are answered by a person, the client, another system or time. No worker is occupied meanwhile. */
export function isWait(tool: Pick<ToolDefinition, 'name' | 'transport'>): boolean {
  const { type } = tool.transport;
  return type === 'client' || (type === 'builtin' && WAITING_BUILTINS.includes(tool.name));
}

/** Pure calls are committed together with the next model response (docs/design/engine.md, "Tool calls"). */
export function isPure(tool: Pick<ToolDefinition, 'name' | 'transport'>): boolean {
  return tool.transport.type === 'builtin' && PURE_BUILTINS.includes(tool.name);
}

/** One attempt of a call, as transports get it. */
export interface ToolAttempt<A extends object = Record<string, unknown>> {
  tenantId: string;
  /** Empty for a direct execution (`POST /v1/tools/{id}/execute`). */
  runId: string;
  toolCallId: string;
  /** The same for every attempt of a call. */
  idempotencyKey: string;
  attempt: number;
  arguments: A;
  timeoutMs: number;
  traceparent?: string | undefined;
  /** Called with the tool's progress, if it reports any. */
  onProgress?: ((progress: ToolProgress) => void) | undefined;
  /** Called just before sending: false if somebody else may have taken over the call. */
  maySend?: (() => boolean) | undefined;
  /** Work begun elsewhere by an earlier attempt: it is only looked at, nothing is started. */
  remote?: RemoteWork | undefined;
  signal: AbortSignal;
}

/** Work that goes on elsewhere, in terms of its transport. JSON without secrets. */
export type RemoteWork = Record<string, unknown> & {
  /** The question that it needs an answer to, and the answer given. */
  question?: string | undefined;
  answer?: string | undefined;
};

/** Progress of a call (MCP): `progress` of `total`, in the tool's own unit. */
export interface ToolProgress {
  progress: number;
  total?: number | undefined;
  message?: string | undefined;
}

/**
 * How an attempt ended. A misbehaving tool is data, never an exception.
 * - `succeeded`: `output` is JSON or text; `content` is for models, if it differs from the output; `untrusted`: nobody vouches
 *   for all of it, even if its tool is trusted.
 * - `elsewhere`: the work has begun and goes on without us. It is looked at again after `waitMs`, and no worker is occupied.
 *   `question`: the work needs an answer to go on, which the next look finds in `remote`.
 * - `error`: the tool itself reported failure (4xx, 500, MCP `isError`, bad arguments): an observation for the model.
 *   `remote`: work that goes on all the same and must be cancelled. `origin`: the message is the transport's, without words of
 *   the tool. `unsent`: the attempt ended before it was sent.
 * - `unreached`: surely no effect (refused connection, 429, 503 with retry-after): may be retried. `unsent`: not even begun,
 *   which says nothing about the tool.
 * - `lost`: nobody knows whether it had an effect (timeout, connection broken after sending, or 408, 425, 502, 503, 504 from
 *   something before the tool). A 500 is the tool's own answer, except over A2A, which answers in JSON-RPC.
 * - `aborted`: the caller's signal fired (cancel, lost lease, shutdown); like `lost` for the ledger, unless nothing was sent.
 * `quotes`: the message, otherwise Drover's own, quotes words of the tool or something before it.
 */
export type ToolOutcome =
  | {
      kind: 'succeeded';
      output: unknown;
      content?: OutputPart[] | undefined;
      untrusted?: true | undefined;
      /** How many characters of the output could not be stored. */
      replaced?: number | undefined;
      /** Memory entries whose words the call or its output contain. They may be forgotten before it is stored. */
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

/** An attempt stopped before anything was sent. */
export const ABORTED_UNSENT: ToolOutcome = {
  kind: 'aborted',
  code: 'aborted',
  message: 'The call was aborted.',
  sent: false,
};

/** An attempt whose time was up before anything was sent. */
export const TOO_LATE: ToolOutcome = {
  kind: 'unreached',
  code: 'too-late',
  message: 'The call was not sent: its time was over by then.',
  unsent: true,
};

/** Code and message of a call whose answer cannot be stored. */
export const NOT_KEPT = { code: 'bad-output', message: 'The tool answered with data that cannot be kept.' };

/** Maximum nesting depth of a call's arguments. */
export const ARGUMENT_DEPTH = 200;

/** The only argument of a call whose arguments are not a JSON object, or too deeply nested: the text that the model wrote. */
export const RAW_ARGUMENTS = '_raw';

/** What a model reads of a failed call whose tool gave no reason. */
export const FAILED_SILENTLY = 'The tool failed without saying why.';
