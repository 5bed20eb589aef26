/** Runs Drover's own embedding model in a thread: a long text takes tens of ms of a core. */
import { Worker } from 'node:worker_threads';
import { raceSignal } from '../lib/deadline.ts';
import type { EmbedOptions } from './embed-texts.ts';
import type { EmbedAnswer, EmbedRequest } from './sentence-encoder/thread.ts';

interface Waiting {
  resolve: (vectors: Float32Array) => void;
  reject: (error: Error) => void;
}

const SELF = import.meta.url;
/** A thread does not inherit the process's loader: if nothing is built, it is told to load it. */
const THREAD = SELF.endsWith('.ts')
  ? `import(${JSON.stringify(import.meta.resolve('tsx/esm/api'))}).then(({ tsImport }) =>
       tsImport('./sentence-encoder/thread.ts', ${JSON.stringify(SELF)}));`
  : new URL('./sentence-encoder/thread.js', SELF);

/** It costs nothing. */
type EmbedForFree = (texts: readonly string[], options: Omit<EmbedOptions, 'payer'>) => Promise<number[][]>;

/** Starts its thread with the first text, and again after the thread has died. */
export function openOfflineEmbeddings(): { embed: EmbedForFree; close: () => Promise<void> } {
  const waiting = new Map<number, Waiting>();
  let thread: Worker | undefined;
  let last = 0;

  const fail = (failed: Worker, error: Error) => {
    if (thread !== failed) return;
    thread = undefined;
    for (const { reject } of waiting.values()) reject(error);
    waiting.clear();
  };
  const forget = (id: number) => {
    waiting.delete(id);
    if (waiting.size === 0) thread?.unref();
  };
  const start = (): Worker => {
    const started = new Worker(THREAD, { eval: typeof THREAD === 'string', execArgv: [] });
    started.on('message', (answer: EmbedAnswer) => {
      const asked = waiting.get(answer.id);
      forget(answer.id);
      if ('error' in answer) asked?.reject(new Error(answer.error));
      else asked?.resolve(answer.vectors);
    });
    started.on('error', (error) => fail(started, error));
    started.on('exit', () => fail(started, new Error('The embedding thread has ended.')));
    return started;
  };
  const tell = (request: EmbedRequest) => thread?.postMessage(request);

  return {
    embed: async (texts, { signal, isWaitedFor = false }) => {
      signal.throwIfAborted();
      thread ??= start();
      // The idle thread does not keep the process alive; one that a caller waits for does.
      thread.ref();
      last += 1;
      const id = last;
      const answered = new Promise<Float32Array>((resolve, reject) => waiting.set(id, { resolve, reject }));
      tell({ id, texts: [...texts], isWaitedFor });
      try {
        return split(await raceSignal(answered, signal), texts.length);
      } finally {
        if (waiting.has(id)) tell({ id, isDropped: true });
        forget(id);
      }
    },
    close: async () => {
      const ending = thread;
      if (ending) fail(ending, new Error('The process is stopping.'));
      await ending?.terminate();
    },
  };
}

function split(vectors: Float32Array, count: number): number[][] {
  const size = vectors.length / count;
  return Array.from({ length: count }, (_, index) => [...vectors.subarray(index * size, (index + 1) * size)]);
}
