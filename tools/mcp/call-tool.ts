/** Calls tools and reads resources of MCP servers, over any transport (spec 2025-11-25). */
import type { FieldError } from '../../core/errors.ts';
import {
  CallToolResultSchema,
  ErrorCode,
  McpError,
  ReadResourceResultSchema,
} from '@modelcontextprotocol/sdk/types.js';
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { ABORTED_UNSENT, FAILED_SILENTLY, TOO_LATE, type ToolAttempt, type ToolOutcome } from '../../core/tool.ts';
import { raceSignal, startDeadline } from '../../lib/deadline.ts';
import type { Deadline } from '../../lib/deadline.ts';
import { LONGEST_TIMER_MS } from '../../lib/start-timer.ts';
import { EgressError, outcomeOfEgressError } from '../egress-error.ts';
import { ServerBackOffError } from './failed-starts.ts';
import { SENT_TOO_MANY, type McpConnection, type McpPool, type McpTarget } from './pool.ts';
import { isSessionGone } from './refusals.ts';
import { statusOf, wordsOfFailure, wordsOfRefusal } from './refusal-words.ts';
import { readContents, readResult, textOfBlocks } from './result-parts.ts';
import { BusyError, overStreams } from './remote-transport.ts';

export interface McpCall {
  target: McpTarget;
  /** A resource of the server to read, instead of calling the tool. */
  resource?: string | undefined;
  /** The tool's name at its server. */
  name: string;
  /** Faults of structured content, if the tool has an output schema. */
  checkOutput?: CheckOutput | undefined;
}

type CheckOutput = (content: unknown) => FieldError[];

/** Makes one attempt of a tool, and connects to its server, or starts it, if needed. Never throws. */
export async function callMcpTool(call: McpCall, attempt: ToolAttempt, pool: McpPool): Promise<ToolOutcome> {
  const deadline = startDeadline(attempt.timeoutMs, attempt.signal);
  try {
    const outcome = await callOnce(call, { attempt, deadline }, pool);
    if (outcome.kind !== 'session-gone') return outcome;
    // The server refused the request with its session, so nothing has happened yet. What it refuses in the next one, too,
    // is the call.
    pool.discard(outcome.connection);
    const again = await callOnce(call, { attempt, deadline }, pool);
    return again.kind === 'session-gone' ? again.refusal : again;
  } finally {
    deadline.clear();
  }
}

interface Running {
  attempt: ToolAttempt;
  deadline: Deadline;
}

interface SessionGone {
  kind: 'session-gone';
  connection: McpConnection;
  /** The outcome if it was not for the session. */
  refusal: ToolOutcome;
}

type Answered = ToolOutcome | SessionGone;

async function callOnce(call: McpCall, running: Running, pool: McpPool): Promise<Answered> {
  const connection = await acquire(call.target, running.deadline, pool);
  if ('kind' in connection) return connection;
  try {
    return await request(connection, call, running);
  } finally {
    pool.release(connection);
  }
}

async function acquire(target: McpTarget, deadline: Deadline, pool: McpPool): Promise<McpConnection | ToolOutcome> {
  const acquired = pool.acquire(target);
  try {
    return await raceSignal(acquired, deadline.signal);
  } catch (error) {
    // It may still start, for the next call.
    acquired.then((connection) => pool.release(connection)).catch(() => undefined);
    if (deadline.ended() === 'aborted') return ABORTED_UNSENT;
    return notStarted(error);
  }
}

/** Nothing was called, so nothing can have happened; permanent failures are not retried. */
function notStarted(error: unknown): ToolOutcome {
  const message = `The tool's server did not start: ${wordsOfFailure(error)}`;
  const code = 'server-start';
  if (error instanceof EgressError && (error.code === 'refused' || error.code === 'bad-request')) {
    return { kind: 'error', origin: 'drover', unsent: true, code: `egress-${error.code}`, message: error.message };
  }
  // The message may quote the server's output or answer.
  const quotes = !(error instanceof EgressError);
  if (error instanceof ServerBackOffError)
    return { kind: 'unreached', code, message, retryAfterMs: error.waitMs, quotes };
  const status = statusOf(error);
  if (status >= 400 && status < 500 && status !== 408 && status !== 429) {
    return { kind: 'error', unsent: true, code: `http-${status}`, message };
  }
  return { kind: 'unreached', code, message, quotes, ...(error instanceof BusyError && pauseOf(error)) };
}

function pauseOf({ retryAfterMs }: BusyError): { retryAfterMs: number } {
  return { retryAfterMs };
}

async function request(
  connection: McpConnection,
  { name, resource, checkOutput }: McpCall,
  { attempt, deadline }: Running,
): Promise<Answered> {
  if (deadline.ended() === 'aborted') return ABORTED_UNSENT;
  if (deadline.remainingMs() === 0 || attempt.maySend?.() === false) return TOO_LATE;
  const meta = { _meta: metaOf(attempt) };
  const options = (signal: AbortSignal) => ({
    signal,
    timeout: LONGEST_TIMER_MS,
    ...(attempt.onProgress && { onprogress: attempt.onProgress }),
  });
  try {
    if (resource !== undefined) {
      const read = { method: 'resources/read' as const, params: { uri: resource, ...meta } };
      const send = (signal: AbortSignal) => connection.client.request(read, ReadResourceResultSchema, options(signal));
      return { kind: 'succeeded', ...readContents(await overStreams(send, deadline, connection.silenceMs)) };
    }
    // Not `client.callTool`: it throws away the answer of an effect whose output does not fit its schema. The
    // deadline's signal sends MCP's cancellation; the SDK's own limit is set so high that it never fires.
    const call = { method: 'tools/call' as const, params: { name, arguments: attempt.arguments, ...meta } };
    const send = (signal: AbortSignal) => connection.client.request(call, toolResult, options(signal));
    return outcomeOf(await overStreams(send, deadline, connection.silenceMs), checkOutput);
  } catch (error) {
    return failed(error, connection, deadline);
  }
}

/** The SDK's schema takes any object: what has no part of a result would be an empty success. */
const toolResult = z
  .looseObject({})
  .refine((given) => 'content' in given || 'structuredContent' in given || given['isError'] === true)
  .pipe(CallToolResultSchema);

function metaOf(attempt: ToolAttempt): Record<string, string> {
  return {
    idempotencyKey: attempt.idempotencyKey,
    'drover/idempotency-key': attempt.idempotencyKey,
    'drover/tool-call-id': attempt.toolCallId,
    ...(attempt.runId === '' ? {} : { 'drover/run-id': attempt.runId }),
    ...(attempt.traceparent === undefined ? {} : { traceparent: attempt.traceparent }),
  };
}

function outcomeOf(result: CallToolResult, checkOutput: CheckOutput | undefined): ToolOutcome {
  const read = readResult(result);
  const { output } = read;
  if (result.isError === true) {
    const message = textOfBlocks(result.content).trim();
    if (message !== '') return { kind: 'error', code: 'tool-error', message, output };
    return {
      kind: 'error',
      origin: 'drover',
      code: 'tool-error',
      message: FAILED_SILENTLY,
      output,
    };
  }
  const { structuredContent } = result;
  const faults = (structuredContent && checkOutput?.(structuredContent)) ?? [];
  if (faults.length === 0) return { kind: 'succeeded', ...read };
  // Errors are never retried: the call's effect has happened.
  const why = faults.map((fault) => fault.message).join('; ');
  const message = `The tool has done its work, but its answer does not fit its output_schema: ${why}`;
  return { kind: 'error', origin: 'drover', code: 'output-invalid', message, output };
}

function failed(error: unknown, connection: McpConnection, deadline: Deadline): Answered {
  const ended = deadline.ended();
  if (ended === 'aborted') return { kind: 'aborted', code: 'aborted', message: 'The call was aborted.' };
  if (ended === 'timeout') return { kind: 'lost', code: 'timeout', message: 'The tool did not answer in time.' };
  if (connection.sentTooMuch() || (error instanceof EgressError && error.code === 'too-large')) {
    const message = 'The tool answered more than may be kept.';
    return { kind: 'error', origin: 'drover', code: 'output-too-large', message };
  }
  if (connection.sentTooMany())
    return { kind: 'error', origin: 'drover', code: 'output-too-large', message: SENT_TOO_MANY };
  if (error instanceof EgressError) return outcomeOfEgressError(error);
  const status = statusOf(error);
  if (error instanceof BusyError) {
    const message = `The tool's server ${wordsOfRefusal(error)}`;
    return { kind: 'unreached', code: `http-${status}`, message, quotes: true, ...pauseOf(error) };
  }
  if (status > 0) {
    const refusal = refused(status, `The tool's server ${wordsOfRefusal(error)}`);
    return isSessionGone(error, connection) ? { kind: 'session-gone', connection, refusal } : refusal;
  }
  if (error instanceof McpError) return mcpFailure(error, connection);
  if (error instanceof Error && error.message === 'Not connected') {
    return { kind: 'unreached', code: 'server-gone', message: "The tool's server had ended before the call." };
  }
  if (connection.closed()) return lostServer(connection);
  const message = 'The call was made, but the tool answered with something that is no tool result.';
  return { kind: 'error', origin: 'drover', code: 'bad-answer', message };
}

const LOST_STATUSES = [408, 425, 502, 503, 504];

function refused(status: number, message: string): ToolOutcome {
  const code = `http-${status}`;
  if (status === 429) return { kind: 'unreached', code, message, quotes: true };
  return LOST_STATUSES.includes(status)
    ? { kind: 'lost', code, message, quotes: true }
    : { kind: 'error', code, message };
}

const REQUEST_TIMEOUT: number = ErrorCode.RequestTimeout;
const CONNECTION_CLOSED: number = ErrorCode.ConnectionClosed;

function mcpFailure(error: McpError, connection: McpConnection): ToolOutcome {
  if (error.code === REQUEST_TIMEOUT) return { kind: 'lost', code: 'timeout', message: error.message, quotes: true };
  // Servers use the same code for their own errors; ours means that the connection is gone.
  if (error.code === CONNECTION_CLOSED && connection.closed()) return lostServer(connection);
  return { kind: 'error', code: `mcp${error.code}`, message: error.message };
}

function lostServer(connection: McpConnection): ToolOutcome {
  const said = connection.lastWords();
  const message = `The tool's server ended during the call${said === '' ? '' : `; it said: ${said}`}`;
  return { kind: 'lost', code: 'server-died', message, quotes: said !== '' };
}
