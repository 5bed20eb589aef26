/** A client of the API that retries on any of the processes, with one Idempotency-Key. */
import { setTimeout as delay } from 'node:timers/promises';

export interface RetryingClient {
  /** Returns the JSON of a 2xx; other 4xx throw. 5xx, 429 and broken connections are retried until the signal fires. */
  get: <T>(path: string) => Promise<T>;
  post: <T>(path: string, body: unknown, idempotencyKey?: string) => Promise<T>;
  /** All pages of a list; `list` names its field. */
  all: <T>(path: string, list: string) => Promise<T[]>;
  /** Sends once; undefined if the answer is one to retry, so that the outcome is unknown. */
  postOnce: <T>(path: string, body: unknown) => Promise<T | undefined>;
  /** The number of requests sent again. */
  repeats: () => number;
}

const REQUEST_MS = 10_000;
const AGAIN_MS = 150;

interface Sent {
  body?: unknown;
  key?: string | undefined;
}

export function createRetryingClient(urls: readonly string[], key: string, signal: AbortSignal): RetryingClient {
  let turn = 0;
  let repeats = 0;
  const sendOnce = async <T>(method: string, path: string, more: Sent): Promise<T | undefined> => {
    signal.throwIfAborted();
    const url = `${urls[turn++ % urls.length]}${path}`;
    const answer = await fetch(url, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        ...(more.key !== undefined && { 'idempotency-key': more.key }),
      },
      body: more.body === undefined ? null : JSON.stringify(more.body),
      signal: AbortSignal.any([signal, AbortSignal.timeout(REQUEST_MS)]),
    })
      .then(async (response) => ({ status: response.status, text: await response.text() }))
      .catch(() => undefined);
    if (answer && answer.status < 300) return JSON.parse(answer.text) as T;
    if (answer && answer.status < 500 && answer.status !== 429) {
      throw new Error(`${method} ${path} answered ${answer.status}: ${answer.text.slice(0, 500)}`);
    }
    return undefined;
  };
  const send = async <T>(method: string, path: string, more: Sent): Promise<T> => {
    for (;;) {
      const answer = await sendOnce<T>(method, path, more);
      if (answer !== undefined) return answer;
      repeats++;
      await delay(AGAIN_MS, undefined, { signal });
    }
  };
  const get = <T>(path: string) => send<T>('GET', path, {});
  return {
    get,
    all: <T>(path: string, list: string) => readAll<T>(get, path, list),
    post: <T>(path: string, body: unknown, idempotencyKey?: string) =>
      send<T>('POST', path, { body, key: idempotencyKey }),
    postOnce: <T>(path: string, body: unknown) => sendOnce<T>('POST', path, { body }),
    repeats: () => repeats,
  };
}

type Page = Record<string, unknown> & { next_cursor?: string | number };

async function readAll<T>(get: RetryingClient['get'], path: string, list: string): Promise<T[]> {
  const all: T[] = [];
  const first = `${path}${path.includes('?') ? '&' : '?'}limit=200`;
  for (let next = first; ;) {
    const page = await get<Page>(next);
    for (const item of page[list] as T[]) all.push(item);
    if (page.next_cursor === undefined) return all;
    next = `${first}&cursor=${encodeURIComponent(page.next_cursor)}`;
  }
}
