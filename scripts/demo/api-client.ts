/** The demo's HTTP client for Drover, like any other client. */
import { readSse, type SseMessage } from './read-sse.ts';

const REQUEST_MS = 30_000;

export interface ApiClient {
  readonly url: string;
  /** Returns the JSON; throws with the problem's detail for a status from 400 on. */
  get<T>(path: string): Promise<T>;
  post<T>(path: string, body: unknown): Promise<T>;
  /** Server-sent events after `lastEventId`, until the stream ends or breaks. */
  follow(path: string, resume: { lastEventId: string | undefined; signal: AbortSignal }): AsyncGenerator<SseMessage>;
}

export function createApiClient({ url, key }: { url: string; key: string }): ApiClient {
  const headers = { authorization: `Bearer ${key}` };
  const send = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: body === undefined ? headers : { ...headers, 'content-type': 'application/json' },
      body: body === undefined ? null : JSON.stringify(body),
      signal: AbortSignal.timeout(REQUEST_MS),
    });
    await refuseProblem(response, `${method} ${path}`);
    return response.json();
  };
  return {
    url,
    get: async <T>(path: string) => (await send('GET', path)) as T,
    post: async <T>(path: string, body: unknown) => (await send('POST', path, body)) as T,
    async *follow(path, { lastEventId, signal }) {
      const resume = lastEventId === undefined ? {} : { 'last-event-id': lastEventId };
      const response = await fetch(`${url}${path}`, { headers: { ...headers, ...resume }, signal });
      await refuseProblem(response, `GET ${path}`);
      if (response.body) yield* readSse(response.body);
    },
  };
}

async function refuseProblem(response: Response, asked: string): Promise<void> {
  if (response.ok) return;
  const text = await response.text();
  throw new Error(`${asked} answered ${response.status}: ${detailOf(text)}`);
}

function detailOf(text: string): string {
  try {
    const { detail, errors = [] } = JSON.parse(text) as { detail?: string; errors?: { path: string }[] };
    return [detail ?? text, ...errors.map((error) => JSON.stringify(error))].join(' ');
  } catch {
    return text.slice(0, 500);
  }
}
