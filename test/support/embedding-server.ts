/** A provider of embeddings that speaks OpenAI's form, on a free port; it has no model `refused`, and takes no empty text. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface EmbeddingServer {
  /** Texts that it was asked for, oldest first. */
  asked: string[];
  /** What a service needs to ask it. */
  env: { OPENAI_API_KEY: string; OPENAI_BASE_URL: string };
  /** Refuses requests with a text that has this word. */
  refuse: (word: string) => void;
  /** Answers all requests with this status and these headers; by default, and with 200, with vectors. */
  fail: (status: number, headers?: Record<string, string>) => void;
  /** Makes these of a text from now on, in place of three numbers. */
  give: (vector: (text: string) => number[]) => void;
  /** Says from now on that each request has so many tokens, and which model has answered; by default nothing of either. */
  count: (tokens: number | undefined, model?: string) => void;
  /** Answers nobody until the function that it returns is called. */
  hold: () => () => void;
  close: () => Promise<void>;
}

export async function startEmbeddingServer(): Promise<EmbeddingServer> {
  const asked: string[] = [];
  let held = Promise.resolve();
  let refused: string | undefined;
  let counted = {};
  let failure = { status: 200, headers: {} };
  let vectorOf = (text: string) => [1, text.length, 0.5];
  const server = createServer((request, response) => {
    void (async () => {
      let text = '';
      for await (const chunk of request) text += String(chunk);
      const { input, model } = JSON.parse(text) as { input: string[]; model: string };
      asked.push(...input);
      await held;
      const { status, headers } = failure;
      if (status !== 200) {
        response.writeHead(status, { 'content-type': 'application/json', ...headers }).end('{"error":{}}');
        return;
      }
      const data = input.map((each, index) => ({ index, embedding: encode(vectorOf(each)) }));
      const isBad = input.some((each) => each === '' || (refused !== undefined && each.includes(refused)));
      response
        .writeHead(model === 'refused' || isBad ? 400 : 200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ data, ...counted }));
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    asked,
    env: { OPENAI_API_KEY: 'k', OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1` },
    refuse: (word) => (refused = word),
    fail: (status, headers = {}) => (failure = { status, headers }),
    give: (vector) => (vectorOf = vector),
    count: (tokens, model) =>
      (counted = { model, ...(tokens !== undefined && { usage: { prompt_tokens: tokens, total_tokens: tokens } }) }),
    hold() {
      let release = () => {};
      held = new Promise((resolve) => (release = resolve));
      return () => release();
    },
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

function encode(vector: number[]): string {
  return Buffer.from(new Float32Array(vector).buffer).toString('base64');
}

/** Makes vectors of this length, which texts of one length have in common. */
export function vectorsOf(length: number): (text: string) => number[] {
  return (text) => [text.length, ...Array.from({ length: length - 1 }, () => 0.5)];
}
