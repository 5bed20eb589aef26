/** A remote agent, on the official SDK: it does what messages say. */
import type { ServerResponse } from 'node:http';
import { AgentCard, Role, Task } from '@a2a-js/sdk';
import {
  AgentEvent,
  DefaultRequestHandler,
  InMemoryTaskStore,
  JsonRpcTransportHandler,
  ServerCallContext,
  type AgentExecutor,
  type ExecutionEventBus,
} from '@a2a-js/sdk/server';
import { startServer, type LocalServer, type SeenRequest } from './echo-server.ts';

export interface A2aServer extends LocalServer {
  /** How often an operation was asked for. */
  count: (method: string) => number;
  /** Ends all tasks that are held. */
  release: () => void;
  /** Deals with a request before the agent does: true, and its answer is not sent. */
  intercept: (request: SeenRequest, response: ServerResponse, handled: Promise<unknown>) => boolean;
}

/**
 * A message is one of
 * - `say TEXT`: done, with the text as its artifact
 * - `data`: done, with data and a file
 * - `held TEXT`: works until `release()`, then as `say`
 * - `fail TEXT`, `ask TEXT`: fails, or waits for an answer
 * - `chat TEXT`: answers with a message, without a task
 */
export async function startA2aServer(): Promise<A2aServer> {
  let released = () => undefined as void;
  let gate = new Promise<void>((resolve) => (released = resolve));
  const executor: AgentExecutor = {
    async execute({ taskId, contextId, userMessage }, bus) {
      const text = userMessage.parts.map(({ content }) => (content?.$case === 'text' ? content.value : '')).join('');
      const [, verb = '', rest = ''] = /^.*?\b(say|data|held|fail|ask|chat)\b ?(.*)$/s.exec(text) ?? [];
      const ids = { taskId, contextId };
      if (verb === 'chat') {
        const parts = [{ content: { $case: 'text' as const, value: rest }, metadata: {}, filename: '', mediaType: '' }];
        bus.publish(
          AgentEvent.message({ ...userMessage, ...ids, messageId: `m-${taskId}`, role: Role.ROLE_AGENT, parts }),
        );
        return bus.finished();
      }
      publish(bus, ids, { state: 'TASK_STATE_WORKING' });
      if (verb === 'held') await gate;
      const said = { parts: [{ text: rest }], messageId: `s-${taskId}`, role: 'ROLE_AGENT' };
      const file = { raw: 'aGVsbG8=', filename: 'hello.txt', mediaType: 'text/plain' };
      if (verb === 'fail') publish(bus, ids, { state: 'TASK_STATE_FAILED', message: said });
      else if (verb === 'ask') publish(bus, ids, { state: 'TASK_STATE_INPUT_REQUIRED', message: said });
      else {
        const parts = verb === 'data' ? [{ data: { n: 7 } }, file] : said.parts;
        publish(bus, ids, { state: 'TASK_STATE_COMPLETED', parts });
      }
      bus.finished();
    },
    cancelTask(taskId, bus) {
      publish(bus, { taskId, contextId: '' }, { state: 'TASK_STATE_CANCELED' });
      bus.finished();
      return Promise.resolve();
    },
  };
  const card = AgentCard.fromJSON({ name: 'remote', description: 'A test.', capabilities: {}, skills: [] });
  const handler = new JsonRpcTransportHandler(new DefaultRequestHandler(card, new InMemoryTaskStore(), executor));
  const remote: A2aServer = {
    ...(await startServer((request, response) => {
      const handled = handler.handle(JSON.parse(request.body), new ServerCallContext({ requestedVersion: '1.0' }));
      if (remote.intercept(request, response, handled)) return;
      void handled.then((answer) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(JSON.stringify(answer));
      });
    })),
    count: (method) => remote.seen.filter(({ body }) => methodOf(body) === method).length,
    intercept: () => false,
    release() {
      released();
      gate = new Promise<void>((resolve) => (released = resolve));
    },
  };
  return remote;
}

export function methodOf(body: string): string {
  return (JSON.parse(body) as { method: string }).method;
}

function publish(
  bus: ExecutionEventBus,
  { taskId: id, contextId }: { taskId: string; contextId: string },
  { parts, ...status }: { state: string; message?: object; parts?: object[] },
): void {
  const artifacts = parts ? [{ artifactId: `a-${id}`, name: 'answer', parts }] : [];
  bus.publish(AgentEvent.task(Task.fromJSON({ id, contextId, status, artifacts, history: [] })));
}
