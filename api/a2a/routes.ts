/** Agents for other agents: A2A 1.0, JSON-RPC over HTTP. */
import { Readable } from 'node:stream';
import { A2A_VERSION_HEADER, AgentCard, formatSSEEvent } from '@a2a-js/sdk';
import { A2AError, RequestMalformedError, TaskNotFoundError, UnsupportedOperationError } from '@a2a-js/sdk/errors';
import {
  JsonRpcTransportHandler,
  ServerCallContext,
  validateVersion,
  type A2ARequestHandler,
} from '@a2a-js/sdk/server';
import { z } from 'zod';
import { DroverError, notFound } from '../../core/errors.ts';
import { requireAgent } from '../../modules/agents/read-agents.ts';
import type { Context } from '../../modules/governance/context.ts';
import { rpcId } from '../kit/json-rpc-body.ts';
import { publicOrigin } from '../kit/public-origin.ts';
import { defineRoute, type Route } from '../kit/route.ts';
import type { ApiContext } from '../kit/state.ts';
import { agentIdParam } from '../kit/external-ids.ts';
import { untilEnded } from '../runs/answer-turn.ts';
import { agentCard } from './agent-card.ts';
import { checkParams } from './params.ts';
import { a2aOperations } from './request-handler.ts';

const params = z.strictObject({ agent: agentIdParam });

const card = defineRoute({
  method: 'get',
  path: '/a2a/:agent/.well-known/agent-card.json',
  access: 'any-key',
  summary: "An agent's card (A2A)",
  params,
  responses: { 200: z.looseObject({ name: z.string() }) },
  async handle({ caller, params: { agent: id }, context, ctx }) {
    const agent = await context.db.withTenant(caller.tenantId, (tx) => requireAgent(tx, caller, id));
    if (agent.status === 'deprecated') throw notFound('This agent');
    return { status: 200, body: AgentCard.toJSON(agentCard(agent, urlOf(ctx, id))) };
  },
});

const message = z.looseObject({ jsonrpc: z.literal('2.0'), id: rpcId.nullish(), method: z.string() });

const rpc = defineRoute({
  method: 'post',
  path: '/a2a/:agent',
  access: 'runs:write',
  summary: 'An operation of A2A on an agent, in JSON-RPC: a task is a run, a context its thread',
  params,
  query: z.strictObject({ [A2A_VERSION_HEADER]: z.string().max(20).optional() }),
  jsonRpc: true,
  body: message,
  responses: {
    200: {
      contentType: 'text/event-stream',
      description: 'The answer, or those of an operation that streams',
      json: z.looseObject({ jsonrpc: z.literal('2.0') }),
    },
    202: 'empty',
  },
  async handle({ caller, params: { agent: id }, query, body, context, app, ctx }) {
    // A deprecated agent begins no tasks; existing ones may be read, answered and cancelled.
    const agent = await context.db.withTenant(caller.tenantId, (tx) => requireAgent(tx, caller, id));
    // A notification gets no answer (JSON-RPC, section 4.1), without which every operation is pointless.
    if (body.id === undefined) return { status: 202 };
    const { traceparent, replaced } = ctx.state;
    const request = { context, caller, agent, url: urlOf(ctx, id), traceparent, replaced };
    const operations = speaking(
      a2aOperations({ ...request, gone: untilEnded({ ctx, app, caller, context }) }),
      context,
    );
    const asked = ctx.get(A2A_VERSION_HEADER) || query[A2A_VERSION_HEADER] || undefined;
    // Patch versions do not count.
    const requestedVersion = asked?.replace(/^(\d+\.\d+)\.\d+$/, '$1');
    const call = new ServerCallContext(requestedVersion === undefined ? {} : { requestedVersion });
    try {
      validateVersion(call.requestedVersion, await operations.getAgentCard(), 'JSONRPC');
      checkParams(body['params']);
    } catch (error) {
      return { status: 200, body: failure(body['id'], explain(error, context)) };
    }
    const answer = await new JsonRpcTransportHandler(operations).handle(body, call);
    if (!(Symbol.asyncIterator in answer)) return { status: 200, body: answer };
    const headers = { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' };
    return { status: 200, headers, body: Readable.from(frames(answer, body['id'])) };
  },
});

const urlOf = (ctx: ApiContext, agentId: string) => `${publicOrigin(ctx)}/a2a/${agentId}`;

async function* frames(answers: AsyncIterable<object>, id: unknown): AsyncGenerator<string> {
  try {
    for await (const answer of answers) yield formatSSEEvent(answer);
  } catch (error) {
    // No data event is named `error`: for browsers that is one of the connection.
    yield formatSSEEvent(failure(id, error));
  }
}

function failure(id: unknown, error: unknown): object {
  return { jsonrpc: '2.0', id: id ?? null, error: JsonRpcTransportHandler.mapToJSONRPCError(error) };
}

/** Refusals become A2A's own errors; our own faults are logged, and tell the client nothing. */
function explain(error: unknown, { log }: Context): unknown {
  if (error instanceof A2AError) return error;
  if (!(error instanceof DroverError) || error.status >= 500) {
    log.error({ err: error }, 'an operation over A2A failed');
    return new Error('Something went wrong here.');
  }
  if (error.status === 404) return new TaskNotFoundError(error.message);
  if (error.status === 409 || error.status === 403) return new UnsupportedOperationError(error.message);
  return new RequestMalformedError(error.message);
}

function speaking(operations: A2ARequestHandler, context: Context): A2ARequestHandler {
  const once = <A extends unknown[], T>(operation: (...args: A) => Promise<T>) => {
    return (...args: A) => operation(...args).catch((error: unknown) => Promise.reject(explain(error, context)));
  };
  const streamed = <A extends unknown[], T>(operation: (...args: A) => AsyncGenerator<T, void, undefined>) =>
    async function* (...args: A): AsyncGenerator<T, void, undefined> {
      try {
        yield* operation(...args);
      } catch (error) {
        throw explain(error, context);
      }
    };
  return {
    ...operations,
    sendMessage: once((asked, call) => operations.sendMessage(asked, call)),
    getTask: once((asked, call) => operations.getTask(asked, call)),
    cancelTask: once((asked, call) => operations.cancelTask(asked, call)),
    createTaskPushNotificationConfig: once((asked, call) => operations.createTaskPushNotificationConfig(asked, call)),
    getTaskPushNotificationConfig: once((asked, call) => operations.getTaskPushNotificationConfig(asked, call)),
    listTaskPushNotificationConfigs: once((asked, call) => operations.listTaskPushNotificationConfigs(asked, call)),
    deleteTaskPushNotificationConfig: once((asked, call) => operations.deleteTaskPushNotificationConfig(asked, call)),
    listTasks: once((asked, call) => operations.listTasks(asked, call)),
    sendMessageStream: streamed((asked, call) => operations.sendMessageStream(asked, call)),
    resubscribe: streamed((asked, call) => operations.resubscribe(asked, call)),
  };
}

export const A2A_ROUTES: readonly Route[] = [card, rpc];
