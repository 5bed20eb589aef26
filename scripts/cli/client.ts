/** The command line's HTTP client, like any other client. */
import { readSse, type SseMessage } from '../demo/read-sse.ts';
import { CommandError, EXIT } from './errors.ts';

const REQUEST_MS = 60_000;
/** For a whole file. */
const TRANSFER_MS = 3_600_000;

export interface Client {
  readonly url: string;
  /** No run is driven there: the service is open for this command alone. */
  readonly isIdle: boolean;
  /** The JSON of the answer. Throws a CommandError with the problem's detail for a status from 400 on. */
  get<T>(path: string, query?: Record<string, string | undefined>): Promise<T>;
  post<T>(path: string, body: unknown): Promise<T>;
  /** Undefined if the key may change but not read it. */
  patch<T>(path: string, body: unknown): Promise<T | undefined>;
  delete(path: string): Promise<void>;
  /** Sends a form; the answer is JSON. */
  upload<T>(path: string, form: FormData): Promise<T>;
  /** The answer as a stream. */
  download(path: string): Promise<ReadableStream<Uint8Array>>;
  /** Server-sent events after `lastEventId`, until the stream ends or breaks. */
  follow(path: string, lastEventId: string | undefined, signal?: AbortSignal): AsyncGenerator<SseMessage>;
}

interface Target {
  url: string;
  key: string | undefined;
  isIdle?: boolean;
}

/** A client of the service at `url`, with this key. */
export function createClient({ url, key, isIdle = false }: Target): Client {
  const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
  const send = async (method: string, path: string, body?: unknown): Promise<Response> => {
    const asked = `${method} ${path}`;
    const response = await reach(url, `${url}${path}`, {
      method,
      headers: body === undefined ? headers : { ...headers, 'content-type': 'application/json' },
      body: body === undefined ? null : JSON.stringify(body),
      signal: AbortSignal.timeout(REQUEST_MS),
    });
    if (!response.ok) throw await problemOf(response, asked);
    return response;
  };
  return {
    url,
    isIdle,
    get: async <T>(path: string, query = {}) => (await (await send('GET', path + toQuery(query))).json()) as T,
    post: async <T>(path: string, body: unknown) => (await (await send('POST', path, body)).json()) as T,
    async patch<T>(path: string, body: unknown) {
      const response = await send('PATCH', path, body);
      return response.status === 204 ? undefined : ((await response.json()) as T);
    },
    async delete(path) {
      await send('DELETE', path);
    },
    async upload<T>(path: string, body: FormData) {
      const signal = AbortSignal.timeout(TRANSFER_MS);
      const response = await reach(url, `${url}${path}`, { method: 'POST', headers, body, signal });
      if (!response.ok) throw await problemOf(response, `POST ${path}`);
      return (await response.json()) as T;
    },
    async download(path) {
      const response = await reach(url, `${url}${path}`, { headers, signal: AbortSignal.timeout(TRANSFER_MS) });
      if (!response.ok || !response.body) throw await problemOf(response, `GET ${path}`);
      return response.body;
    },
    async *follow(path, lastEventId, signal) {
      const resume = lastEventId === undefined ? {} : { 'last-event-id': lastEventId };
      // A stream stays open while its run goes on, and pings every 15 s.
      const response = await reach(url, `${url}${path}`, {
        headers: { ...headers, ...resume },
        signal: signal ?? null,
      });
      if (!response.ok) throw await problemOf(response, `GET ${path}`);
      if (response.body && response.status === 200) yield* readSse(response.body);
    },
  };
}

/** Whether anything answers there, Drover or not. */
export async function answers(url: string): Promise<boolean> {
  try {
    await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(5000) });
    return true;
  } catch {
    return false;
  }
}

async function reach(url: string, address: string, init: RequestInit): Promise<Response> {
  try {
    const response = await fetch(address, init);
    // A proxy may have refused; its status says so.
    if (!response.ok || response.headers.has('x-request-id')) return response;
  } catch (error) {
    const why =
      error instanceof Error && error.name === 'TimeoutError' ? 'No answer in time from' : 'Nothing answers at';
    throw new CommandError(EXIT.unreachable, `${why} ${url}. Is it running? --url or DROVER_URL says where.`, {
      cause: error,
    });
  }
  throw new CommandError(
    EXIT.unreachable,
    `What answers at ${url} is not Drover. --url or DROVER_URL says where it is.`,
  );
}

function toQuery(query: Record<string, string | undefined>): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return given.length === 0 ? '' : `?${new URLSearchParams(given).toString()}`;
}

interface Problem {
  detail?: string;
  errors?: { path: string; message: string }[];
}

async function problemOf(response: Response, asked: string): Promise<CommandError> {
  const { detail, errors = [] } = parseProblem(await response.text());
  // The detail already says what is wrong with a single faulty field.
  const more = errors.filter(({ path, message }) => detail !== message && !detail?.startsWith(`${path} ${message}`));
  const faults = more.map(({ path, message }) => `\n  ${path} ${message}`).join('');
  const exitCode = response.status === 401 || response.status === 403 ? EXIT.denied : EXIT.refused;
  const hint = response.status === 401 ? ' --key or DROVER_API_KEY gives one.' : '';
  const message = `${detail ?? `${asked} answered ${response.status}.`}${hint}${faults}`;
  return new CommandError(exitCode, message, { faulty: errors.map(({ path }) => path) });
}

function parseProblem(text: string): Problem {
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === 'object' && parsed !== null ? parsed : {};
  } catch {
    return {};
  }
}
