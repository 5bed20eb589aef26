/**
 * `fetch` for the SDKs of model providers, over undici's `request`: without web streams, which took half of a call's
 * CPU. Follows no redirect, so that a credential goes to its address alone.
 */
import { Agent, buildConnector, request, type Dispatcher } from 'undici';
import { LIMITS } from '../core/limits.ts';
import { ModelError } from '../core/model.ts';
import { holdBackEnd } from '../lib/hold-back-end.ts';
import { skipInterimAnswers } from '../lib/skip-interim-answers.ts';
import { packingOf, UnknownEncodingError, unpackBody, type Packing } from '../lib/unpack-body.ts';

/** Ends lines of CR and LF, too. */
const NEWLINE = 10;

type Body = Dispatcher.ResponseData['body'];

const connector = buildConnector({});

/** Connections to all providers. Not the global agent, which belongs to the older undici in Node. */
const agent = new Agent({
  connect(options, callback) {
    connector(options, (...[error, socket]) =>
      error ? callback(error, null) : callback(null, holdBackEnd(skipInterimAnswers(socket))),
    );
  },
});

/** How long a connection may take for the rest after an answer's end; then it is closed. */
const REST_MS = 1000;

/** Further settings of a request; the SDKs pass them on from their `fetchOptions`. */
interface Listening {
  /** Is called with each piece of the body that comes. */
  onPiece?: (() => void) | undefined;
}

/** The `fetchOptions` with which each piece of an answer's body is told, even one that holds no event, as a comment. */
export const toldBy = (onPiece: () => void): object => ({ onPiece }) satisfies Listening;

/** Supports what the SDKs need: a text body, and an answer that is read once, as text or in pieces. */
export async function providerFetch(
  input: string | URL | Request,
  init: RequestInit & Listening = {},
): Promise<Response> {
  if (input instanceof Request) throw new TypeError('A request is given by its address.');
  const cut = linkedTo(init.signal ?? undefined);
  try {
    const { statusCode, headers, body } = await request(input, {
      method: init.method ?? 'GET',
      // What is compressed takes time to unpack, and is held back until a block of it is full.
      headers: { 'accept-encoding': 'identity', ...Object.fromEntries(new Headers(init.headers)) },
      body: typeof init.body === 'string' ? init.body : null,
      signal: cut.signal,
      dispatcher: agent,
      // The caller's signal sets the limits (llm/call-guard.ts).
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    body.once('close', cut.release);
    const head = { status: statusCode, headers: toHeaders(headers) };
    const packing = packingOf(head, head.headers.get('content-encoding'));
    // Not the one that is cut: it follows no longer once the whole body has come, which may be far from unpacked then.
    const signal = init.signal ?? new AbortController().signal;
    return toResponse(head, { body, packing, signal, release: cut.release, onPiece: init.onPiece });
  } catch (error) {
    cut.release();
    init.signal?.throwIfAborted();
    throw new TypeError('fetch failed', { cause: error });
  }
}

/** A signal that follows another one until it is released. */
function linkedTo(signal: AbortSignal | undefined): { signal: AbortSignal; release: () => void } {
  const controller = new AbortController();
  const abort = () => controller.abort(signal?.reason);
  if (signal?.aborted) abort();
  signal?.addEventListener('abort', abort, { once: true });
  return { signal: controller.signal, release: () => signal?.removeEventListener('abort', abort) };
}

interface Content extends Listening {
  body: Body;
  /** Some gateways compress for everybody. */
  packing: Packing;
  signal: AbortSignal;
  /** Frees what follows the caller's signal. */
  release: () => void;
}

function toHeaders(headers: Dispatcher.ResponseData['headers']): Headers {
  const given = new Headers();
  for (const [name, values] of Object.entries(headers)) {
    for (const value of [values ?? []].flat()) given.append(name, value);
  }
  return given;
}

function toResponse(head: { status: number; headers: Headers }, content: Content): Response {
  return Object.defineProperties(new Response(null, head), {
    body: { value: { [Symbol.asyncIterator]: () => piecesOf(content, { inLines: true }) } },
    text: { value: () => textOf(content) },
    json: { value: async () => JSON.parse(await textOf(content)) as unknown },
  });
}

async function textOf(content: Content): Promise<string> {
  const pieces: Uint8Array[] = [];
  for await (const piece of piecesOf(content)) pieces.push(piece);
  return new TextDecoder().decode(Buffer.concat(pieces));
}

/**
 * Yields the body in pieces. If the reader stops early, the rest is drained. A body beyond the limit is aborted, and so
 * is a line: line readers scan all of it again with each piece.
 */
async function* piecesOf(
  { body, packing, signal, release, onPiece }: Content,
  { inLines = false } = {},
): AsyncGenerator<Uint8Array> {
  let [bytes, line] = [0, 0];
  const giveUp = (what: string) => {
    body.destroy();
    return new ModelError('invalid_request', what);
  };
  try {
    for await (const piece of unpackBody(body.iterator({ destroyOnReturn: false }), packing, signal)) {
      onPiece?.();
      const ended = piece.lastIndexOf(NEWLINE) + 1;
      bytes += piece.length;
      line = ended > 0 ? piece.length - ended : line + piece.length;
      if (bytes > LIMITS.modelAnswerBytes)
        throw giveUp(`The server's answer is larger than ${LIMITS.modelAnswerBytes} bytes.`);
      if (inLines && line > LIMITS.modelLineBytes)
        throw giveUp(`A line of the server's answer is longer than ${LIMITS.modelLineBytes} bytes.`);
      yield piece;
    }
  } catch (error) {
    if (!(error instanceof UnknownEncodingError)) throw error;
    throw new ModelError('invalid_request', `The server cannot be understood: ${error.message}.`);
  } finally {
    release();
    letThrough(body);
  }
}

/** Drains the rest, so that the connection can be reused. */
function letThrough(body: Body): void {
  if (body.closed || body.destroyed) return;
  const giveUp = setTimeout(() => body.destroy(), REST_MS).unref();
  body.once('close', () => clearTimeout(giveUp));
  body.on('error', () => undefined).resume();
}
