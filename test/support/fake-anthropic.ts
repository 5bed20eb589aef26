/** A stand-in for Anthropic's Messages API: real HTTP and the real stream format, with scripted answers. */
import type { ServerResponse } from 'node:http';
import { delay, errorHeaders, sendEvent, startFakeHttp } from './fake-http.ts';
import type { FakeRequest, FakeServer, Faults } from './fake-http.ts';

type Block = { type: string } & Record<string, unknown>;

export interface AnthropicReply extends Faults {
  content?: Block[];
  stop_reason?: string;
  /** `null`: no usage anywhere in the answer. */
  usage?: Record<string, unknown> | null;
  model?: string;
  /** The container that its code ran in. */
  container?: { id: string };
  /** The whole message as JSON, although a stream was asked for. */
  json?: boolean;
  /** Pings before the content, as while a model thinks. */
  pings?: { count: number; everyMs: number };
  /** Instead of tool arguments in JSON. */
  rawInput?: string;
  /** The same in pieces: before those that are functions go on, what comes before them is sent. */
  pieces?: readonly (string | (() => Promise<unknown>))[];
}

/** What a request of the Messages API holds, as far as scripts look into it. */
export interface AnthropicRequest extends Record<string, unknown> {
  model: string;
  messages: { role: string; content: string | Block[] }[];
  tools?: { name: string }[];
}

/** A file of the Files API. */
export interface FakeFile {
  filename: string;
  mime_type: string;
  content: Buffer;
  /** In place of the content. */
  status?: number;
  location?: string;
  /** The content begins and then falls silent, or never ends. */
  hang?: boolean;
}

function answerFile(
  { path, headers }: FakeRequest,
  response: ServerResponse,
  files: ReadonlyMap<string, FakeFile> | undefined,
): boolean {
  const [, id = '', content] = /^\/v1\/files\/([\w-]+)(\/content)?(?:\?.*)?$/.exec(path) ?? [];
  const file = files?.get(id);
  const isAllowed = headers['anthropic-beta'] === 'files-api-2025-04-14' && headers.authorization !== undefined;
  if (!file || !isAllowed) return false;
  const { filename, mime_type, status, location, hang = false } = file;
  if (content === undefined) {
    const about = { id, type: 'file', filename, mime_type, size_bytes: file.content.length, downloadable: true };
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ ...about, created_at: '2026-01-01T00:00:00Z' }));
  } else if (status !== undefined) {
    response.writeHead(status, { 'content-type': 'application/json', ...(location && { location }) });
    response.end(JSON.stringify(errorBody('not_found_error', 'no such file')));
  } else {
    response.writeHead(200, { 'content-type': mime_type });
    response.write(file.content);
    if (!hang) response.end();
  }
  return true;
}

const OWN_TOOLS = ['submit_summary', 'submit_title', 'submit_verdict'];

/** Whether Drover asks for something of its own, a summary, a title or a verdict, by forcing its tool. */
export const isOwnRequest = ({ tools }: AnthropicRequest) => OWN_TOOLS.includes(tools?.[0]?.name ?? '');

/** What conversations have asked the model, without what Drover has asked for itself. */
export function conversationRequests({ requests }: FakeServer): (FakeRequest & { body: AnthropicRequest })[] {
  return requests.flatMap((request) => {
    const body = request.body as AnthropicRequest;
    return isOwnRequest(body) ? [] : [{ ...request, body }];
  });
}

/** Answers `POST /v1/messages` with what the script says; `n` counts requests from 0. Close it after the test. */
export function startFakeAnthropic(
  script: (request: AnthropicRequest, n: number) => AnthropicReply | Promise<AnthropicReply>,
  options: { scriptsTitles?: boolean; files?: ReadonlyMap<string, FakeFile> } = {},
): Promise<FakeServer> {
  return startFakeHttp(
    async ({ path, body }, response, n) => {
      if (path !== '/v1/messages') {
        response.writeHead(404, { 'content-type': 'application/json' });
        response.end(JSON.stringify(errorBody('not_found_error', `no such path: ${path}`)));
        return;
      }
      const request = body as AnthropicRequest;
      const reply = await script(request, n);
      if (reply.delayMs) await delay(response, reply.delayMs);
      if (response.destroyed) return;
      await answer(response, { ...reply, model: reply.model ?? request.model });
    },
    async (request, response) => {
      if (answerFile(request, response, options.files)) return true;
      return options.scriptsTitles ? false : answerTitle(request, response);
    },
  );
}

/** Titles come when they come: a script that does not say so is not asked for them, and they are no request of a test. */
async function answerTitle({ path, body }: FakeRequest, response: ServerResponse): Promise<boolean> {
  const { tools, model } = body as AnthropicRequest;
  if (path !== '/v1/messages' || tools?.length !== 1 || tools[0]?.name !== 'submit_title') return false;
  const use = { type: 'tool_use', id: 'toolu_title', name: 'submit_title', input: { title: 'A title' } };
  await answer(response, { content: [use], model });
  return true;
}

async function answer(response: ServerResponse, reply: AnthropicReply): Promise<void> {
  const { error } = reply;
  if (error && !error.midStream) {
    response.writeHead(error.status ?? 400, errorHeaders(error));
    response.end(JSON.stringify(errorBody(error.type, error.message)));
    return;
  }
  if (reply.json) {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(messageOf(reply)));
    return;
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  await stream(response, reply);
}

const USAGE = { input_tokens: 10, output_tokens: 5 };

async function stream(response: ServerResponse, reply: AnthropicReply): Promise<void> {
  const send = (data: { type: string } & Record<string, unknown>) => sendEvent(response, data, data.type);
  const usage = reply.usage === null ? {} : { usage: reply.usage ?? USAGE };
  send({ type: 'message_start', message: { ...messageOf(reply), content: [], stop_reason: null, ...usage } });
  send({ type: 'ping' });
  for (let ping = 0; ping < (reply.pings?.count ?? 0); ping += 1) {
    await delay(response, reply.pings?.everyMs ?? 0);
    if (response.destroyed) return;
    send({ type: 'ping' });
  }
  for (const [index, block] of (reply.content ?? []).entries()) {
    send({ type: 'content_block_start', index, content_block: emptied(block) });
    for (const piece of reply.pieces ?? []) {
      if (typeof piece !== 'string') await piece();
      else send({ type: 'content_block_delta', index, delta: { type: 'input_json_delta', partial_json: piece } });
    }
    if (response.destroyed) return;
    if (!reply.pieces)
      for (const delta of deltasOf(block, reply.rawInput)) send({ type: 'content_block_delta', index, delta });
    if (!reply.breakOff) send({ type: 'content_block_stop', index });
  }
  if (reply.hang) return;
  if (reply.breakOff) {
    response.destroy();
    return;
  }
  if (reply.error) {
    sendEvent(response, errorBody(reply.error.type, reply.error.message), 'error');
    response.end();
    return;
  }
  const { output_tokens, iterations }: Record<string, unknown> = reply.usage ?? USAGE;
  const last =
    reply.usage === null ? {} : { usage: { output_tokens, ...(iterations !== undefined && { iterations }) } };
  const delta = { stop_reason: stopReasonOf(reply), stop_sequence: null, container: reply.container ?? null };
  send({ type: 'message_delta', delta, ...last });
  send({ type: 'message_stop' });
  response.end();
}

function messageOf(reply: AnthropicReply): Record<string, unknown> {
  return {
    id: 'msg_stand_in',
    type: 'message',
    role: 'assistant',
    model: reply.model,
    content: reply.content ?? [],
    stop_reason: stopReasonOf(reply),
    stop_sequence: null,
    ...(reply.usage !== null && { usage: reply.usage ?? USAGE }),
  };
}

function stopReasonOf(reply: AnthropicReply): string {
  const calls = (reply.content ?? []).some((block) => block.type === 'tool_use');
  return reply.stop_reason ?? (calls ? 'tool_use' : 'end_turn');
}

function emptied(block: Block): Block {
  switch (block.type) {
    case 'text':
      return { type: 'text', text: '' };
    case 'thinking':
      return { ...block, thinking: '', signature: '' };
    case 'tool_use':
    case 'server_tool_use':
      return { ...block, input: {} };
    case 'compaction':
      return { type: 'compaction', content: null };
    default:
      return block;
  }
}

function deltasOf(block: Block, rawInput: string | undefined): Block[] {
  switch (block.type) {
    case 'text':
      return [
        ...halves(block['text']).map((text) => ({ type: 'text_delta', text })),
        ...((block['citations'] as unknown[] | undefined) ?? []).map((citation) => ({
          type: 'citations_delta',
          citation,
        })),
      ];
    case 'compaction':
      return [{ ...block, type: 'compaction_delta' }];
    case 'thinking':
      return [
        ...halves(block['thinking']).map((thinking) => ({ type: 'thinking_delta', thinking })),
        { type: 'signature_delta', signature: block['signature'] },
      ];
    case 'tool_use':
    case 'server_tool_use':
      return halves(rawInput ?? JSON.stringify(block['input'])).map((json) => ({
        type: 'input_json_delta',
        partial_json: json,
      }));
    default:
      return [];
  }
}

function halves(value: unknown): string[] {
  const text = typeof value === 'string' ? value : '';
  const middle = Math.ceil(text.length / 2);
  return [text.slice(0, middle), text.slice(middle)].filter((half) => half !== '');
}

function errorBody(type: string, message?: string): Record<string, unknown> {
  return { type: 'error', error: { type, message: message ?? type } };
}
