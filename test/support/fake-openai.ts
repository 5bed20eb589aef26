/** A stand-in for chat completions: real HTTP and the real stream format, with scripted answers. */
import type { ServerResponse } from 'node:http';
import { delay, errorHeaders, sendEvent, startFakeHttp } from './fake-http.ts';
import type { FakeRequest, FakeServer, Faults } from './fake-http.ts';

interface Call {
  id?: string;
  name: string;
  arguments: string;
}

export interface OpenAIReply extends Faults {
  text?: string;
  refusal?: string;
  calls?: Call[];
  finish_reason?: string;
  usage?: Record<string, unknown>;
  model?: string;
  /** The whole completion as JSON, although a stream was asked for. */
  json?: boolean;
  /** Calls come whole and without an index, as some compatible servers send them. */
  withoutIndex?: boolean;
}

/** Answers `POST /v1/chat/completions` with what the script says; `n` counts requests from 0. Close it after the test. */
export function startFakeOpenAI(
  script: (request: Record<string, unknown>, n: number) => OpenAIReply,
): Promise<FakeServer> {
  return startFakeHttp(async ({ path, body }, response, n) => {
    if (path !== '/v1/chat/completions') {
      response.writeHead(404).end();
      return;
    }
    const reply = script(body, n);
    if (reply.delayMs) await delay(response, reply.delayMs);
    if (!response.destroyed) answer(response, reply);
  }, answerTitle);
}

/** Titles come when they come, so that no script is asked for them, and they are no request of a test. */
async function answerTitle({ path, body }: FakeRequest, response: ServerResponse): Promise<boolean> {
  const tools = body['tools'] as { function: { name: string } }[] | undefined;
  if (path !== '/v1/chat/completions' || tools?.length !== 1 || tools[0]?.function.name !== 'submit_title')
    return false;
  answer(response, { calls: [{ id: 'call_title', name: 'submit_title', arguments: '{"title":"A title"}' }] });
  return true;
}

function answer(response: ServerResponse, reply: OpenAIReply): void {
  const { error } = reply;
  if (error && !error.midStream) {
    response.writeHead(error.status ?? 400, errorHeaders(error));
    response.end(JSON.stringify({ error: errorOf(error) }));
  } else if (reply.json) {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(completionOf(reply)));
  } else {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    stream(response, reply);
  }
}

function stream(response: ServerResponse, reply: OpenAIReply): void {
  const send = (delta: Record<string, unknown>, finish: string | null = null) =>
    sendEvent(response, { ...head(reply), choices: [{ index: 0, delta, finish_reason: finish }] });
  send({ role: 'assistant', content: '' });
  for (const word of (reply.text ?? '').split(/(?<= )/)) if (word !== '') send({ content: word });
  if (reply.refusal) send({ refusal: reply.refusal });
  (reply.calls ?? []).forEach((call, index) => {
    if (reply.withoutIndex) {
      send({ tool_calls: [callOf(call)] });
      return;
    }
    send({ tool_calls: [{ index, ...callOf({ ...call, arguments: '' }) }] });
    for (const part of call.arguments.split(/(?<=,)/)) {
      send({ tool_calls: [{ index, function: { arguments: part } }] });
    }
  });
  if (reply.hang) return;
  if (reply.breakOff) {
    response.destroy();
    return;
  }
  if (reply.error) {
    sendEvent(response, { error: errorOf(reply.error) });
    response.end();
    return;
  }
  send({}, finishOf(reply));
  if (reply.usage) sendEvent(response, { ...head(reply), choices: [], usage: reply.usage });
  response.end('data: [DONE]\n\n');
}

function completionOf(reply: OpenAIReply): Record<string, unknown> {
  const message = { role: 'assistant', content: reply.text ?? null, tool_calls: reply.calls?.map(callOf) };
  return { ...head(reply), choices: [{ index: 0, message, finish_reason: finishOf(reply) }], usage: reply.usage };
}

function head(reply: OpenAIReply): Record<string, unknown> {
  return { id: 'chatcmpl-stand-in', object: 'chat.completion.chunk', created: 0, model: reply.model ?? 'gpt-4.1' };
}

function finishOf(reply: OpenAIReply): string {
  return reply.finish_reason ?? (reply.calls ? 'tool_calls' : 'stop');
}

function callOf(call: Call): Record<string, unknown> {
  return {
    ...(call.id !== undefined && { id: call.id }),
    type: 'function',
    function: { name: call.name, arguments: call.arguments },
  };
}

function errorOf(error: NonNullable<Faults['error']>): Record<string, unknown> {
  return { message: error.message ?? error.type, type: error.type, code: error.code ?? null, param: null };
}
