/** The only way to call a tool: picks its transport and enforces its limits. Retries are up to the ledger. */
import {
  beginningOf,
  cleanJson,
  cleanText,
  holdsInfinity,
  isClean,
  isDeeperThan,
  isLargerThan,
  noteReplaced,
} from '../core/content.ts';
import { canonicalValue } from '../core/canonical-json.ts';
import { forbidden, impossible, messageOf } from '../core/errors.ts';
import { digestOf } from '../core/ids.ts';
import { LIMITS } from '../core/limits.ts';
import { SecretUnreadableError } from '../core/secret-box.ts';
import { ABORTED_UNSENT, NOT_KEPT, TOO_LATE } from '../core/tool.ts';
import type { ToolAttempt, ToolDefinition, ToolOutcome, ToolTransport } from '../core/tool.ts';
import { bytesOf } from '../core/tool-output.ts';
import { startTimer } from '../lib/start-timer.ts';
import type { DomainFunctions } from './builtin/builtin-type.ts';
import { EgressError } from './egress-error.ts';
import type { Egress } from './egress.ts';
import { createSecretValues, hostRefusing, isToolSecret, NO_SECRETS, secretNamesIn } from './secret-values.ts';
import type { SecretValues, StoredSecret } from './secret-values.ts';
import { TOO_MANY_VALUES } from './response-body.ts';
import type { ChangedServer, ImportedTool, OpenTransport, TransportCall, TransportRuntime } from './transport-kind.ts';
import { checkListed, storableTools } from './check-listed.ts';
import { UnusableListError } from './unusable-list-error.ts';
import { commandOf, destinationOf, kindOf, TRANSPORTS } from './transports.ts';
import { forTransport, outcomeOfUnknown } from './unknown-transport.ts';
import { createArgumentValidator, type ArgumentValidator } from './validate-arguments.ts';

export interface ToolsOptions {
  egress: Egress;
  /** Commands that transports may start (DROVER_STDIO_COMMANDS). */
  stdioCommands: readonly string[] | 'any';
  /** A tenant's secrets of these names, if they exist. May throw `SecretUnreadableError`. */
  readSecrets?: (tenantId: string, names: readonly string[]) => Promise<ReadonlyMap<string, StoredSecret>>;
  /** Called for each call that sends a secret without hosts to a host. */
  onUnboundSecret?: (used: UnboundSecret) => void;
  now?: () => Date;
  /** Implementations of the domain's built-in tools. */
  builtins?: DomainFunctions;
  /** Called for an internal fault that ended a call as `lost`; the outcome does not show it. */
  onFault?: (error: unknown) => void;
  /** Called with a server's tools whenever it says that they have changed. */
  onToolsChanged?: (drift: ServerDrift) => Promise<void>;
}

export interface UnboundSecret {
  tenantId: string;
  toolId: string;
  secret: string;
}

/** The tools that a server lists after saying that they have changed; undefined if its list cannot be used. */
export interface ServerDrift extends ChangedServer {
  listed: ImportedTool[] | undefined;
}

export interface Tools {
  /** Validates arguments and checks schemas. */
  validator: ArgumentValidator;
  /** Makes one attempt. Never throws; settles soon after `attempt.timeoutMs` at the latest. */
  execute(tool: ToolDefinition, attempt: ToolAttempt): Promise<ToolOutcome>;
  /** Cancels work that a call has begun elsewhere, under the rules of `execute`. */
  cancel(tool: ToolDefinition, attempt: ToolAttempt): Promise<ToolOutcome>;
  /** Reads a resource at a tool's server, under the rules of `execute`. */
  readResource(tool: ToolDefinition, uri: string, attempt: ToolAttempt): Promise<ToolOutcome>;
  /** Lists all tools of a server, their schemas checked, ready to register. Throws a `DroverError`: 403 for the command, 422 for the server. */
  listTools(tenantId: string, server: ToolTransport, trusted: boolean): Promise<ImportedTool[]>;
  /** Throws a `DroverError` (403) for a command that is not listed. For registration; calls check again. */
  checkTransport(transport: ToolTransport): void;
  /** Closes every transport, even if one fails. Throws the failure at the end. */
  close(): Promise<void>;
}

/** How long after its own time limit a transport is no longer waited for. */
const GRACE_MS = 1000;
/** The pause before a server that keeps announcing changes is listed again. */
const PAUSE_MS = 1000;
/** The length of a shortened message that has the whole answer beside it. */
const BEGINNING_CHARS = 500;

const NO_RESOURCES: ToolOutcome = {
  kind: 'error',
  origin: 'drover',
  code: 'no-resources',
  message: "The tool's server has no resources.",
};

const NOTHING_TO_CANCEL: ToolOutcome = { kind: 'succeeded', output: null };

type Send = (open: OpenTransport, call: TransportCall) => Promise<ToolOutcome>;

/** Makes the tools of one process. `close()` must be called at its end. */
export function createTools(options: ToolsOptions): Tools {
  const checkTransport = (transport: ToolTransport): void => {
    const command = commandOf(transport);
    if (command === undefined || options.stdioCommands === 'any' || options.stdioCommands.includes(command)) return;
    throw forbidden(`The command "${command}" may not be run; an operator can list it in DROVER_STDIO_COMMANDS.`);
  };
  const askForTools = async (tenantId: string, server: ToolTransport, trusted: boolean) => {
    checkTransport(server);
    const secrets = await secretsOf(server, tenantId, options);
    if ('kind' in secrets) throw impossible(`The server was not asked for its tools: ${secrets.message}`);
    const transport = transports.get(server.type);
    if (!transport?.listTools)
      throw impossible(`The transport "${server.type}" has no servers to ask for their tools.`);
    return storableTools(await transport.listTools({ tenantId, server, trusted, secrets }));
  };
  const onToolsChanged = oneAtATime(
    async ({ tenantId, server }: ChangedServer) => {
      // Risks were settled when a person registered the tools; a changed server's own word on them is ignored.
      // Their schemas are compared, not applied: none is compiled for it.
      const listed = await askForTools(tenantId, server, false).catch((error: unknown) => {
        if (error instanceof UnusableListError) return undefined;
        throw error;
      });
      await options.onToolsChanged?.({ tenantId, server, listed });
    },
    (error) => options.onFault?.(error),
  );
  const validator = createArgumentValidator();
  const { egress, now, builtins } = options;
  const transports = openTransports({ egress, validator, builtins, now, onToolsChanged });
  const make = async (tool: ToolDefinition, attempt: ToolAttempt, send: Send): Promise<ToolOutcome> => {
    const open = transports.get(tool.transport.type);
    if (!open) return outcomeOfUnknown(tool.transport, attempt);
    try {
      checkTransport(tool.transport);
    } catch (error) {
      return { kind: 'error', origin: 'drover', unsent: true, code: 'not-allowed', message: messageOf(error) };
    }
    const work = async () => {
      const secrets = await secretsOf(tool.transport, attempt.tenantId, {
        ...options,
        onUnbound: (secret) => options.onUnboundSecret?.({ tenantId: attempt.tenantId, toolId: tool.id, secret }),
      });
      if ('kind' in secrets) return secrets;
      return tidy(await send(open, { tool, transport: tool.transport, secrets }), secrets);
    };
    return within(attempt, work, options.onFault);
  };
  return {
    validator,
    checkTransport,
    execute: (tool, attempt) => make(tool, attempt, (open, call) => open.call(call, forTransport(inOrder(attempt)))),
    cancel: (tool, attempt) =>
      make(tool, attempt, (open, call) => open.cancel?.(call, attempt) ?? Promise.resolve(NOTHING_TO_CANCEL)),
    readResource: (tool, uri, attempt) =>
      make(tool, attempt, (open, call) => open.readResource?.(call, uri, attempt) ?? Promise.resolve(NO_RESOURCES)),
    listTools: async (...asked) => checkListed(await askForTools(...asked), validator),
    close: () => closeAll(transports),
  };
}

/** Every attempt sends the same bytes: the next one has its arguments from the database, which keeps no order of keys. */
function inOrder(attempt: ToolAttempt): ToolAttempt {
  return { ...attempt, arguments: canonicalValue(attempt.arguments) };
}

async function closeAll(transports: ReadonlyMap<string, OpenTransport>): Promise<void> {
  const closed = await Promise.allSettled([...new Set(transports.values())].map(async (each) => each.close?.()));
  const failed: unknown[] = closed.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []));
  if (failed.length > 0) throw new AggregateError(failed, failed.map(messageOf).join('; '));
}

/** Open transports by type; one with several types is opened once. */
function openTransports(runtime: TransportRuntime): ReadonlyMap<string, OpenTransport> {
  return new Map(
    TRANSPORTS.flatMap((kind) => {
      const open = kind.open(runtime);
      return Object.keys(kind.schemas).map((type) => [type, open] as const);
    }),
  );
}

/** Runs work for a server at once; reports that come while it runs cause one more run after it. */
function oneAtATime<T>(work: (about: T) => Promise<void>, onError: (error: unknown) => void): (about: T) => void {
  const running = new Map<string, { again: boolean }>();
  return function start(about) {
    const key = digestOf(about);
    const now = running.get(key);
    if (now) {
      now.again = true;
      return;
    }
    const state = { again: false };
    running.set(key, state);
    void work(about)
      .catch(onError)
      .finally(() => {
        running.delete(key);
        if (state.again) setTimeout(start, PAUSE_MS, about).unref();
      });
  };
}

/** A call's secrets, read anew for each attempt, so that none is kept. A missing one ends the attempt before it begins. */
async function secretsOf(
  transport: ToolTransport,
  tenantId: string,
  { readSecrets, onUnbound }: Pick<ToolsOptions, 'readSecrets'> & { onUnbound?: (name: string) => void },
): Promise<SecretValues | Exclude<ToolOutcome, { kind: 'succeeded' }>> {
  const names = secretNamesIn(kindOf(transport)?.secretTexts(transport) ?? []);
  if (names.length === 0) return NO_SECRETS;
  try {
    const read = async () =>
      (await readSecrets?.(tenantId, names.filter(isToolSecret))) ?? new Map<string, StoredSecret>();
    const secrets = await read();
    const destination = destinationOf(transport);
    for (const name of names) {
      const secret = secrets.get(name);
      if (!secret) return noSecret('secret-missing', `The secret "${name}" is not set.`);
      const refused = hostRefusing(secret.hosts, destination);
      if (refused !== undefined)
        return noSecret('secret-not-for-host', `The secret "${name}" may not be sent to ${refused}.`);
      if (secret.hosts === null && destination !== undefined) onUnbound?.(name);
    }
    const readAgain = () =>
      read().catch((cause: unknown) => {
        throw new EgressError('lost', 'the hosts of secrets could not be read for a redirect', { sent: true, cause });
      });
    return createSecretValues(secrets, readAgain);
  } catch (error) {
    if (error instanceof SecretUnreadableError) return noSecret('secret-unreadable', error.message);
    return { kind: 'unreached', code: 'secrets', message: 'The secrets that the tool needs could not be read.' };
  }
}

function noSecret(code: string, message: string): Extract<ToolOutcome, { kind: 'error' }> {
  return { kind: 'error', origin: 'drover', unsent: true, code, message };
}

/** A backstop: transports keep their own time limit, but one that does not must not block a worker. */
async function within(
  attempt: ToolAttempt,
  work: () => Promise<ToolOutcome>,
  onFault: ((error: unknown) => void) | undefined,
): Promise<ToolOutcome> {
  if (attempt.signal.aborted) return ABORTED_UNSENT;
  if (attempt.maySend?.() === false) return TOO_LATE;
  let clear: () => void = () => undefined;
  const late = new Promise<ToolOutcome>((resolve) => {
    const message = `The tool did not answer within ${attempt.timeoutMs} ms.`;
    // In two steps, so that it ends after the transport's own limit also where a standstill has put that off.
    const onLimit = () => {
      ({ clear } = startTimer(GRACE_MS, () => resolve({ kind: 'lost', code: 'timeout', message })));
    };
    ({ clear } = startTimer(attempt.timeoutMs, onLimit));
  });
  try {
    return await Promise.race([work(), late]);
  } catch (error) {
    onFault?.(error);
    // At an unknown point: the effect may have happened.
    return { kind: 'lost', code: 'internal', message: 'An internal fault ended the call.' };
  } finally {
    clear();
  }
}

/** Makes an outcome storable: no secret, text that Postgres accepts, output within its limit. Never throws. */
function tidy(outcome: ToolOutcome, secrets: SecretValues): ToolOutcome {
  try {
    return tidied(outcome, secrets);
  } catch {
    // Nobody is told of the error: it may quote what it was about.
    return withheld(outcome);
  }
}

function tidied(outcome: ToolOutcome, secrets: SecretValues): ToolOutcome {
  const fitting = fit(outcome, secrets);
  if (!('message' in fitting)) return fitting;
  // The message only begins with the whole answer, which is beside it.
  const isBeside = 'output' in fitting && fitting.output !== undefined && fitting.output !== null;
  const message = wordsOf(fitting.message, secrets, isBeside ? BEGINNING_CHARS : LIMITS.errorChars);
  return { ...fitting, code: cleanText(fitting.code), message };
}

/** What is told of a call. Redacts before the cut: a part of a secret would not be found after it. */
function wordsOf(text: string, secrets: SecretValues, mostChars: number = LIMITS.errorChars): string {
  return cut(cleanText(secrets.redact(text)), mostChars);
}

/** What is known of an outcome whose words cannot be searched for secrets. */
function withheld(outcome: ToolOutcome): ToolOutcome {
  if (outcome.kind === 'succeeded') return { kind: 'error', origin: 'drover', ...NOT_KEPT };
  const { message } = NOT_KEPT;
  const question = 'question' in outcome && outcome.question !== undefined && { question: message };
  return { ...outcome, message, ...question, ...('output' in outcome && { output: undefined }) };
}

function fit(outcome: ToolOutcome, secrets: SecretValues): ToolOutcome {
  if (outcome.kind === 'elsewhere') {
    // Other ids would be those of other work.
    if (!isClean(outcome.remote)) return { kind: 'error', origin: 'drover', ...NOT_KEPT };
    return outcome.question === undefined ? outcome : { ...outcome, question: wordsOf(outcome.question, secrets) };
  }
  if (outcome.kind !== 'succeeded' && outcome.kind !== 'error') return outcome;
  const output = storable(outcome.output, secrets);
  if (outcome.kind === 'succeeded') {
    if ('fault' in output) return { kind: 'error', origin: 'drover', ...output.fault };
    // Never larger than the output that it comes from.
    const content = outcome.content && cleanJson(secrets.redact(outcome.content));
    const { untrusted, memories } = outcome;
    return {
      kind: 'succeeded',
      ...output,
      ...(content && { content }),
      ...(untrusted && { untrusted }),
      ...(memories && { memories }),
    };
  }
  const { output: _, remote, ...told } = outcome;
  const rest = { ...told, ...(remote && isClean(remote) && { remote }) };
  return 'fault' in output || outcome.output === undefined ? rest : { ...rest, ...output };
}

function storable(
  output: unknown,
  secrets: SecretValues,
): { output: unknown; replaced?: number } | { fault: { code: string; message: string } } {
  try {
    if (isLargerThan(output, LIMITS.jsonValues)) return { fault: TOO_MANY_VALUES };
    if (isDeeperThan(output, LIMITS.toolOutputDepth)) return { fault: TOO_DEEP };
    // JSON would have null in its place.
    if (holdsInfinity(output)) return { fault: TOO_GREAT };
    const given: unknown = secrets.redact(output ?? null);
    const clean = cleanJson(given);
    if (bytesOf(clean) <= LIMITS.toolOutputBytes) return { output: clean, ...(clean !== given && noteReplaced(given)) };
    const message = `The tool answered more than ${LIMITS.toolOutputBytes} bytes, which is more than may be kept.`;
    return { fault: { code: 'output-too-large', message } };
  } catch {
    // Nested too deeply to be walked.
    return { fault: NOT_KEPT };
  }
}

const TOO_GREAT = {
  code: 'bad-output',
  message: 'The tool answered with a number that is too large: at most 1.797e308.',
};

const TOO_DEEP = {
  code: 'bad-output',
  message: `The tool answered with data nested deeper than ${LIMITS.toolOutputDepth} levels, which cannot be kept.`,
};

/** Shortens an overlong message to `most` characters. */
function cut(text: string, most: number): string {
  return text.length > LIMITS.errorChars ? `${beginningOf(text, most)}…` : text;
}
