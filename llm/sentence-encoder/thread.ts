/** Runs in the embedding thread. Texts that a caller waits for go before others, between one text and the next. */
import { parentPort } from 'node:worker_threads';
import { createEncoder } from './encoder.ts';
import { readModelFiles } from './model-files.ts';

/** A list of texts to embed, or the cancellation of one. */
export type EmbedRequest = { id: number; texts: string[]; isWaitedFor: boolean } | { id: number; isDropped: true };

/** All vectors of a list, concatenated. */
export type EmbedAnswer = { id: number; vectors: Float32Array } | { id: number; error: string };

interface List {
  id: number;
  texts: string[];
  isWaitedFor: boolean;
  vectors: Float32Array[];
}

if (!parentPort) throw new Error('The embedding thread is a thread.');
const port = parentPort;
const encode = createEncoder(readModelFiles());
let lists: List[] = [];

port.on('message', (request: EmbedRequest) => {
  if ('isDropped' in request) {
    lists = lists.filter(({ id }) => id !== request.id);
    return;
  }
  lists.push({ ...request, vectors: [] });
  if (lists.length === 1) setImmediate(embedNext);
});

/** Embeds one text, so that new requests are read before the next. */
function embedNext(): void {
  const list = lists.find(({ isWaitedFor }) => isWaitedFor) ?? lists[0];
  if (!list) return;
  try {
    const text = list.texts[list.vectors.length];
    if (text !== undefined) list.vectors.push(encode(text));
    if (list.vectors.length === list.texts.length) end(list, { id: list.id, vectors: joined(list.vectors) });
  } catch (error) {
    end(list, { id: list.id, error: String(error) });
  }
  if (lists.length > 0) setImmediate(embedNext);
}

function end(list: List, answer: EmbedAnswer): void {
  lists = lists.filter((each) => each !== list);
  port.postMessage(answer);
}

function joined(vectors: readonly Float32Array[]): Float32Array {
  const all = new Float32Array(vectors.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const vector of vectors) {
    all.set(vector, at);
    at += vector.length;
  }
  return all;
}
