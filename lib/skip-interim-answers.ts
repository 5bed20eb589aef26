import type { Duplex } from 'node:stream';

/** As much of a first line as tells an interim answer from another. */
const LINE_CHARS = 'HTTP/1.1 100'.length;
/** A head that is longer is passed on as it is, and refused by who parses it. */
const MOST_BYTES = 16 * 1024;

/**
 * Takes interim answers (1xx, without 101) out of what is read of an HTTP connection: undici breaks off at a `100 Continue`,
 * though a client has to take those that it has not asked for (RFC 9110, 15.2). An answer begins after each write, so requests
 * must not overlap. Bears on `read` alone, which undici calls; nothing may listen to `data`.
 */
export function skipInterimAnswers<T extends Duplex>(socket: T): T {
  const read = socket.read.bind(socket) as (size?: number) => Buffer | null;
  const write = socket.write.bind(socket) as (...about: unknown[]) => boolean;
  /** The beginning of an answer, until it is known to be no interim one. */
  let head: Buffer | undefined = Buffer.alloc(0);
  return Object.assign(socket, {
    read(size?: number): Buffer | null {
      // With a size it only asks the stream to go on.
      if (!head || size !== undefined) return read(size);
      for (let piece = read(); piece; piece = read()) {
        head = withoutInterim(Buffer.concat([head, piece]));
        if (mayBeInterim(head)) continue;
        const known = head;
        head = undefined;
        return known;
      }
      return null;
    },
    write(...about: unknown[]): boolean {
      head ??= Buffer.alloc(0);
      return write(...about);
    },
  });
}

function withoutInterim(head: Buffer): Buffer {
  let from = 0;
  for (;;) {
    const end = isInterim(firstLineOf(head, from)) ? head.indexOf('\r\n\r\n', from) : -1;
    if (end < 0) return head.subarray(from);
    from = end + 4;
  }
}

function mayBeInterim(head: Buffer): boolean {
  if (head.length > MOST_BYTES) return false;
  const line = firstLineOf(head, 0);
  return line.length < LINE_CHARS ? 'HTTP/1.1 1'.startsWith(line.slice(0, 10)) : isInterim(line);
}

function firstLineOf(head: Buffer, from: number): string {
  return head.toString('latin1', from, from + LINE_CHARS);
}

function isInterim(line: string): boolean {
  return /^HTTP\/1\.1 1(?!01)\d\d$/.test(line);
}
