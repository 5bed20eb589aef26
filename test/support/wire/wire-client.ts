import type { Stream } from '@agentclientprotocol/sdk';

/** A client of a wire form, as its own library has it, whose connection a test can cut. */
export interface WireClient {
  form: string;
  /** Follows the newest turn of the thread until the stream ends or is cut. */
  follow(at: FollowedThread): Promise<void>;
  /** Everything that the library has of the turn, ready to be compared. */
  state(): unknown;
}

export interface FollowedThread {
  url: string;
  key: string;
  agent: string;
  thread: string;
  run: string;
  cut?: Cut;
  /** In place of the network. */
  server?: WireServer;
  /** Where in the log the client says that it stands, where its protocol can. */
  after?: number;
}

/** What answers in this process. */
export interface WireServer {
  fetch: typeof fetch;
  /** Of a run's session stream. */
  socket: (after: number) => AsyncIterable<string>;
  /** The agent's side of ACP. */
  acp: (cut: Cut | undefined) => Stream;
}

/** Where a connection breaks: after so many bytes of the answer. */
export type Cut = { bytes: number };

/** A `fetch` whose answer breaks there, as a network does. */
export function cuttingFetch(cut: Cut | undefined, via: typeof fetch = fetch): typeof fetch {
  return async (url, init) => {
    const response = await via(url, init);
    if (!cut || !response.body) return response;
    let left = cut.bytes;
    const body = response.body.pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        transform(chunk, controller) {
          controller.enqueue(chunk.subarray(0, left));
          left -= chunk.length;
          if (left <= 0) controller.error(new TypeError('network error'));
        },
        flush: (controller) => controller.error(new TypeError('network error')),
      }),
    );
    return new Response(body, response);
  };
}
