import { Readable } from 'node:stream';
import { whileItGetsOn } from './deadline.ts';
import { FileStoreError } from './file-store.ts';

/**
 * Passes on a content, and fails once its source brings nothing for `quietMs` to a reader that waits for it, or when `parent`
 * fires. However slow the reader is, that alone breaks nothing off. The source is destroyed with the result.
 */
export function withoutStall(source: Readable, limits: { quietMs: number; parent: AbortSignal }): Readable {
  const passed = Readable.from(piecesOf(source, limits), { objectMode: false });
  // At once: a generator that waits for a piece would not hear of its end before that comes.
  return passed.once('close', () => source.destroy());
}

async function* piecesOf(source: Readable, limits: { quietMs: number; parent: AbortSignal }): AsyncGenerator {
  const pieces = source[Symbol.asyncIterator]();
  for (;;) {
    const next = await whileItGetsOn(limits, () => pieces.next()).catch((error: unknown) => {
      throw new FileStoreError('read', error);
    });
    if (next.done) return;
    yield next.value;
  }
}
