/** Everything that Drover needs from a kind of tool transport. Listed in `tools/transports.ts`. */
import type { z } from 'zod';
import type { FieldError } from '../core/errors.ts';
import type { ToolAttempt, ToolDefinition, ToolOutcome, ToolTransport } from '../core/tool.ts';
import type { DomainFunctions } from './builtin/builtin-type.ts';
import type { Egress } from './egress.ts';
import type { SecretValues } from './secret-values.ts';
import type { ArgumentValidator } from './validate-arguments.ts';

export interface TransportKind<T extends ToolTransport = ToolTransport> {
  /** Schemas for registration, by type; most kinds have one. */
  schemas: Readonly<Record<string, TransportSchema<T>>>;
  /** Faults by which it could never make a call, for registration; paths are below `transport`. */
  check?(transport: T): FieldError[];
  /** All texts in which `{{secret:name}}` stands for a secret. */
  secretTexts(transport: T): string[];
  /** The URL that receives the secrets; absent or undefined: no host, so that secrets with hosts are refused. */
  destinationOf?(transport: T): string | undefined;
  /** The form in answers, with possible credentials hidden (`tools/redact.ts`). */
  present(transport: T): Record<string, unknown> & { type: string };
  /**
   * The command that it starts on the worker's machine, if any: such a transport needs the scope `admin`, and the
   * command must be listed in DROVER_STDIO_COMMANDS.
   */
  commandOf?(transport: T): string | undefined;
  /** For kinds whose servers have several tools. */
  servers?: ServerKind<T>;
  /** Prepares it for a process without acting: connections and the like begin with the first call. */
  open(runtime: TransportRuntime): OpenTransport<T>;
}

export type TransportSchema<T extends ToolTransport = ToolTransport> = z.ZodType<T> & z.core.$ZodTypeDiscriminable;

/** How to identify and name servers of a transport, without contacting them. */
export interface ServerKind<T extends ToolTransport = ToolTransport> {
  /** Servers that `POST /v1/tools/import` accepts, each with its own `type`, as transports without a tool. */
  importSchemas: readonly TransportSchema<T>[];
  /** A server's address without credentials. A suspension applies to its digest. */
  identityOf(transport: T): ServerIdentity;
  /** A tool's server, as a transport without a tool, and the name there of the tool called `name` here. */
  locate(transport: T, name: string): { server: T; tool: string };
}

export type ServerIdentity = { type: string } & Record<string, unknown>;

/** A transport opened by a process. Work begun by a call may go on after it, until `close`. */
export interface OpenTransport<T extends ToolTransport = ToolTransport> {
  /** Makes one attempt. Failures of tool and network are outcomes; secrets are removed from them afterwards. */
  call(call: TransportCall<T>, attempt: ToolAttempt): Promise<ToolOutcome>;
  /** Cancels work that a call has begun elsewhere (`attempt.remote`). Absent if no call outlives its attempts. */
  cancel?(call: TransportCall<T>, attempt: ToolAttempt): Promise<ToolOutcome>;
  /** Reads a resource of a tool's server. Absent if servers have none. */
  readResource?(call: TransportCall<T>, uri: string, attempt: ToolAttempt): Promise<ToolOutcome>;
  /** Lists all tools of a server; their schemas are checked by who registers them. Throws a `DroverError` (422) if it does not answer. */
  listTools?(wanted: ServerToList<T>): Promise<ImportedTool[]>;
  /** Ends everything that calls have begun; no call follows. */
  close?(): Promise<void>;
}

export interface TransportCall<T extends ToolTransport = ToolTransport> {
  tool: ToolDefinition;
  transport: T;
  /** Those of `secretTexts`; their values belong in the request and nowhere else. */
  secrets: SecretValues;
}

export interface ServerToList<T extends ToolTransport = ToolTransport> {
  tenantId: string;
  /** With `{{secret:name}}` not filled in. */
  server: T;
  /** Whether its word on risks and effects counts (docs/tools.md). */
  trusted: boolean;
  secrets: SecretValues;
}

/** A tool as its server describes it, ready to register unless it has a `fault`. */
export type ImportedTool = { fault?: string | undefined } & Pick<
  ToolDefinition,
  | 'name'
  | 'display_name'
  | 'category'
  | 'description'
  | 'input_schema'
  | 'output_schema'
  | 'transport'
  | 'risk_level'
  | 'annotations'
>;

/** What a process provides for its transports. */
export interface TransportRuntime {
  egress: Egress;
  validator: ArgumentValidator;
  /** Implementations of the domain's built-in tools; absent without a domain. */
  builtins?: DomainFunctions | undefined;
  /** The current time; by default the system's clock. */
  now?: (() => Date) | undefined;
  /** Must be called when a server says that its tools have changed; `listTools` follows. */
  onToolsChanged(changed: ChangedServer): void;
}

/** `server` is as registered: secrets not filled in. */
export interface ChangedServer {
  tenantId: string;
  server: ToolTransport;
}
