/**
 * Drover's own model calls: titles, summaries, plans, verdicts. Each forces one tool, so that any provider answers in
 * structure, and passes budgets, rate limits, fallback and log like agents' calls.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { cleanJson, type Message } from '../../core/content.ts';
import { LIMITS } from '../../core/limits.ts';
import {
  ModelError,
  type AnswerPiece,
  type ModelRequest,
  type ModelResponse,
  type TokenUsage,
} from '../../core/model.ts';
import type { Probed } from '../../db/model-outages.ts';
import { startDeadline } from '../../lib/deadline.ts';
import { newId } from '../../lib/new-id.ts';
import { estimateRequest } from '../../llm/estimate-tokens.ts';
import type { ResolvedModel } from '../../llm/models.ts';
import { openOwnCall, type OpenedCall, type OwnCallOf } from './own-call.ts';
import { pauseBeforeRetry } from './pause-before-retry.ts';
import { ownOutageGuard, throttle, type OutageGuard } from './throttle.ts';
import type { ModelCallContext } from './model-call-context.ts';
import type { OwnTool, ToolAsk, ToolFault } from './tool-ask.ts';

export type { OwnTool, ToolAsk, ToolFault } from './tool-ask.ts';

export type ToolAnswer<T> = { arguments: T; usage: TokenUsage; model: string } | { fault: ToolFault };

/** Maximum number of unusable answers. */
const MOST_ANSWERS = 2;
const OUTPUT_TOKENS = 1024;

/**
 * Asks models in order until one answers, and validates the answer; asks once more if it is unusable. Throws only if `signal`
 * fires, the time is up or the database is unavailable: failures of models are returned as faults.
 */
export async function askForTool<T>(context: ModelCallContext, ask: ToolAsk<T>): Promise<ToolAnswer<T>> {
  if (ask.timeoutMs === undefined) return askModels(context, ask);
  const deadline = startDeadline(ask.timeoutMs, ask.signal);
  try {
    return await askModels(context, { ...ask, signal: deadline.signal });
  } finally {
    deadline.clear();
  }
}

async function askModels<T>(context: ModelCallContext, ask: ToolAsk<T>): Promise<ToolAnswer<T>> {
  let fault: ToolFault = { code: 'rejected', message: 'No model can be asked.' };
  let complaint: string | undefined;
  let answers = 0;
  for (const resolved of resolveAll(context, ask.models)) {
    while (answers < MOST_ANSWERS) {
      const answer = await askModel(context, { ask, resolved, request: requestOf(ask, resolved, complaint) });
      if ('code' in answer) {
        fault = graver(fault, answer);
        break;
      }
      answers += 1;
      const { read, response } = answer;
      if ('arguments' in read) return { arguments: read.arguments, usage: response.usage, model: response.model };
      complaint = read.complaint;
      fault = { code: 'unusable', message: complaint };
    }
    // After a budget fault no other model is asked: it would be held to the same budgets.
    if (fault.code === 'budget' || answers >= MOST_ANSWERS) return { fault };
  }
  return { fault };
}

/** A model that may answer later takes precedence over one that never will. */
function graver(before: ToolFault, now: ToolFault): ToolFault {
  return before.code === 'unavailable' && now.code === 'rejected' ? before : now;
}

function resolveAll(context: ModelCallContext, names: readonly (string | undefined)[]): ResolvedModel[] {
  return [...new Set(names)].flatMap((name) => {
    try {
      return [context.models.resolve(name)];
    } catch (error) {
      context.log.debug({ model: name, err: error }, 'model left out');
      return [];
    }
  });
}

function requestOf<T>(ask: ToolAsk<T>, { model }: ResolvedModel, complaint: string | undefined): ModelRequest {
  const { name, description } = ask.tool;
  const { $schema: _, ...input_schema } = z.toJSONSchema(ask.tool.arguments, { io: 'input' }) as Record<
    string,
    unknown
  >;
  const more: Message[] =
    complaint === undefined ? [] : [{ role: 'user', content: [{ type: 'text', text: complaint }] }];
  return {
    model,
    system: ask.system,
    messages: [...ask.messages, ...more],
    tools: [{ name, description, input_schema }],
    toolChoice: { tool: name },
    maxTokens: ask.maxTokens ?? OUTPUT_TOKENS,
    examples: [...(ask.examples ?? [])],
  };
}

interface Asked<T> {
  ask: ToolAsk<T>;
  resolved: ResolvedModel;
  request: ModelRequest;
}

type Read<T> = { arguments: T } | { complaint: string };

/** A model's answer, and its usable part. */
interface Answered<T> {
  response: ModelResponse;
  read: Read<T>;
}

/** Asks one model, with the usual number of attempts; each attempt is recorded and paid for separately. */
async function askModel<T>(context: ModelCallContext, asked: Asked<T>): Promise<Answered<T> | ToolFault> {
  const { ask, resolved, request } = asked;
  const { db } = context;
  const guard = ask.guard ?? ownOutageGuard(db, newId());
  for (let attempt = 1; ; attempt++) {
    const admitted = await throttle(db, {
      resolved,
      tokens: () => estimateRequest(request),
      guard,
      signal: ask.signal,
    });
    if (!admitted.ok) {
      const { ok: _ok, ...why } = admitted;
      return { code: 'unavailable', ...why };
    }
    const { probed } = admitted;
    const answer = await askOnce(context, asked, { guard, probed });
    if (!(answer instanceof ModelError)) return answer;
    const waitMs = pauseBeforeRetry(answer, { firstMs: 1000, attempt });
    const isLast = probed !== undefined || attempt >= LIMITS.modelAttempts || waitMs === undefined;
    const { rateLimiter } = resolved;
    if (answer.transient && isLast && rateLimiter !== null) {
      await guard.noteAway(resolved, { rateLimiter, error: answer, probed });
    }
    if (!answer.transient || isLast) {
      const { message, kind } = answer;
      if (!answer.transient) return { code: 'rejected', message };
      return { code: 'unavailable', message, away: { model: resolved.model, error: { code: kind, message } } };
    }
    await sleep(waitMs, undefined, { signal: ask.signal });
  }
}

/** One attempt. Any outcome but silence ends the wait of others for a probe of the provider. */
async function askOnce<T>(
  context: ModelCallContext,
  asked: Asked<T>,
  { guard, probed }: { guard: OutageGuard; probed: Probed | undefined },
): Promise<Answered<T> | ModelError | ToolFault> {
  const { signal } = asked.ask;
  let isSilent = false;
  let isAnswered = false;
  try {
    const call = await openOwnCall(context, callOf(asked));
    if ('code' in call) return call;
    const answer = await attemptOnce(asked, call);
    signal.throwIfAborted();
    isSilent = answer instanceof ModelError && answer.transient;
    isAnswered = !isSilent;
    return answer;
  } finally {
    if (probed && isAnswered) await guard.noteAnswered(probed);
    else if (probed && !isSilent) await guard.leave();
  }
}

async function attemptOnce<T>(
  { ask, resolved, request }: Asked<T>,
  call: OpenedCall,
): Promise<Answered<T> | ModelError> {
  const maxTokens = Math.min(request.maxTokens, call.maxTokens);
  try {
    let json = '';
    const onDelta = (piece: AnswerPiece) => {
      if (piece.type !== 'arguments' || piece.tool !== ask.tool.name) return;
      json += piece.text;
      ask.onArguments?.(json);
    };
    const response = await resolved.stream({ ...request, maxTokens }, { signal: ask.signal, onDelta });
    const read = await readAnswer(ask.tool, response);
    const { keep } = ask;
    await call.settle(response, keep && 'arguments' in read ? (tx) => keep(tx, read.arguments) : undefined);
    return { response, read };
  } catch (error) {
    if (!(error instanceof ModelError)) throw error;
    await call.fail(error);
    return error;
  } finally {
    call.leave();
  }
}

function callOf<T>({ ask, resolved, request }: Asked<T>): OwnCallOf {
  const { tenantId, workspaceId, agentId, threadId, run, purpose, record, tool } = ask;
  return { tenantId, workspaceId, agentId, threadId, run, purpose, record, tool: tool.name, resolved, request };
}

async function readAnswer<T>(tool: OwnTool<T>, { content }: ModelResponse): Promise<Read<T>> {
  const block = content.find((each) => each.type === 'tool_use' && each.name === tool.name);
  if (block?.type !== 'tool_use') return { complaint: `Call the tool \`${tool.name}\`; nothing else is read.` };
  const { data, error } = await tool.arguments.safeParseAsync(cleanJson(block.input));
  if (error === undefined) return { arguments: data };
  return { complaint: `The arguments of \`${tool.name}\` are not valid: ${z.prettifyError(error)}. Call it again.` };
}
