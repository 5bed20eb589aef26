/** What a tool transport consists of: all that the rest of Drover asks of one. Listed in `tools/transports.ts`. */
import type { z } from 'zod';
import type { FieldError } from '../core/errors.ts';
import type { ToolAttempt, ToolDefinition, ToolOutcome, ToolTransport } from '../core/tool.ts';
import type { DomainFunctions } from './builtin/builtin-type.ts';
import type { Egress } from './egress.ts';
import type { SecretValues } from './secret-values.ts';
import type { ArgumentValidator } from './validate-arguments.ts';

export interface TransportKind<T extends ToolTransport = ToolTransport> {
  /** What a registration may say, by the transport's types; most have one. */
  schemas: Readonly<Record<string, TransportSchema<T>>>;
  /** What keeps it from ever making a call, for a registration; paths are below `transport`. */
  check?(transport: T): FieldError[];
  /** Every text in which `{{secret:name}}` stands for a secret. */
  secretTexts(transport: T): string[];
  /** The URL that `secretTexts` are sent to; absent, or undefined: to no host, so that secrets with hosts are refused. */
  destinationOf?(transport: T): string | undefined;
  /** As answers show it: what may be a credential is redacted (`tools/redact.ts`). */
  present(transport: T): Record<string, unknown> & { type: string };
  /**
   * The command that it starts on the worker's machine, if it does: such a transport needs the scope `admin`, and its
   * command must be listed in DROVER_STDIO_COMMANDS.
   */
  commandOf?(transport: T): string | undefined;
  /** Where tools are at servers that have several. */
  servers?: ServerKind<T>;
  /** Makes its part of a process, and does nothing yet: connections and the like begin with the first call. */
  open(runtime: TransportRuntime): OpenTransport<T>;
}

export type TransportSchema<T extends ToolTransport = ToolTransport> = z.ZodType<T> & z.core.$ZodTypeDiscriminable;

/** What there is to know of the servers of a transport, without asking them. */
export interface ServerKind<T extends ToolTransport = ToolTransport> {
  /** What `POST /v1/tools/import` may name, each with a `type` of its own, made into a transport that names no tool. */
  importSchemas: readonly TransportSchema<T>[];
  /** Where the server is, whoever asks it with what credentials. What is suspended is this, under its digest. */
  identityOf(transport: T): ServerIdentity;
  /** The server of a tool, as a transport that names no tool, and what it calls the tool that is `name` here. */
  locate(transport: T, name: string): { server: T; tool: string };
}

export type ServerIdentity = { type: string } & Record<string, unknown>;

/** A transport as a process has it open. Whatever a call began may go on after it, until `close`. */
export interface OpenTransport<T extends ToolTransport = ToolTransport> {
  /** One attempt. What the tool or the network does is an outcome; secrets are taken out of it afterwards. */
  call(call: TransportCall<T>, attempt: ToolAttempt): Promise<ToolOutcome>;
  /** Cancels what a call has begun elsewhere (`attempt.remote`). Absent where no call outlives its attempts. */
  cancel?(call: TransportCall<T>, attempt: ToolAttempt): Promise<ToolOutcome>;
  /** Reads a resource that a tool's server has. Absent where servers have none. */
  readResource?(call: TransportCall<T>, uri: string, attempt: ToolAttempt): Promise<ToolOutcome>;
  /** Every tool of a server, ready to register. Throws a `DroverError` (422) where it does not say. */
  listTools?(wanted: ServerToList<T>): Promise<ImportedTool[]>;
  /** Ends what the calls have begun; no call comes after it. */
  close?(): Promise<void>;
}

export interface TransportCall<T extends ToolTransport = ToolTransport> {
  tool: ToolDefinition;
  transport: T;
  /** Of `secretTexts`; their values belong into what is sent and nowhere else. */
  secrets: SecretValues;
}

export interface ServerToList<T extends ToolTransport = ToolTransport> {
  tenantId: string;
  /** `{{secret:name}}` not filled in. */
  server: T;
  /** Whether its word on risks and effects counts (docs/tools.md). */
  trusted: boolean;
  secrets: SecretValues;
}

/** What a server says of a tool, in the form in which it can be registered, unless it has a `fault`: what is wrong with it. */
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

/** What a process has for its transports. */
export interface TransportRuntime {
  egress: Egress;
  validator: ArgumentValidator;
  /** What the built-in tools of the domain do; absent where there is no domain. */
  builtins?: DomainFunctions | undefined;
  /** The current time; the system's clock where absent. */
  now?: (() => Date) | undefined;
  /** To be told when a server says that its tools have changed; it is then asked for them (`listTools`). */
  onToolsChanged(changed: ChangedServer): void;
}

/** `server` is as it is registered: secrets not filled in. */
export interface ChangedServer {
  tenantId: string;
  server: ToolTransport;
}
