/** Counts the pages of a PDF while it streams by: providers bill by the page, and a scan has few pages of many bytes. */
import { inflateSync } from 'node:zlib';

/** A larger PDF, or one with more pages or object streams, is not counted: scanning it would block the process. */
const MOST_BYTES = 20 * 1024 * 1024;
const MOST_PAGES = 10_000;
const MOST_STREAMS = 2000;
/** Limits on one compressed object stream, and on all of them uncompressed. */
const MOST_PACKED_CHARS = 256 * 1024;
const MOST_UNPACKED_BYTES = 8 * 1024 * 1024;
/** The most characters between an object's type and the start of its stream. */
const MOST_BETWEEN_CHARS = 4096;
/** Kept from the last chunk; longer than any match. */
const CARRIED_CHARS = 64;

const FOUND = /\/Type\s{0,8}\/(Page|ObjStm)(?=[^A-Za-z])/g;

/** Counts page objects, including those in object streams. `count` gives undefined if unknown, as for encrypted PDFs. */
export function countPdfPages(): { read: (chunk: Buffer) => void; count: () => number | undefined } {
  let bytes = 0;
  let pages = 0;
  let streams = 0;
  let room = MOST_UNPACKED_BYTES;
  /** Text received but not scanned yet; undefined once the count cannot be known any more. */
  let text: string | undefined = '';
  /** An object stream's type came before `text`, whose first `endless` characters do not end it. */
  let isPacked = false;
  let endless = 0;

  const countPage = () => {
    pages += 1;
    if (pages > MOST_PAGES) throw new Error('too many pages');
  };
  const unpack = (packed: string) => {
    streams += 1;
    if (streams > MOST_STREAMS) throw new Error('too many streams of objects');
    const content = inflateSync(Buffer.from(packed, 'latin1'), { maxOutputLength: room });
    room = Math.max(1, room - content.length);
    for (const [, type] of content.toString('latin1').matchAll(FOUND)) if (type === 'Page') countPage();
  };
  const read = (chunk: Buffer) => {
    bytes += chunk.length;
    if (text === undefined) return;
    let rest = text + chunk.toString('latin1');
    for (;;) {
      if (isPacked) {
        const stream = streamIn(rest, endless);
        endless = stream ? 0 : Math.max(0, rest.length - CARRIED_CHARS);
        if (!stream) break;
        unpack(rest.slice(stream.from, stream.to));
        rest = rest.slice(stream.to);
        isPacked = false;
      }
      let seen = Math.max(0, rest.length - CARRIED_CHARS);
      for (const { 0: match, 1: type, index } of rest.matchAll(FOUND)) {
        isPacked = type === 'ObjStm';
        if (!isPacked) countPage();
        const end = index + match.length;
        seen = isPacked ? end : Math.max(seen, end);
        if (isPacked) break;
      }
      rest = rest.slice(seen);
      if (!isPacked) break;
    }
    text = rest;
  };
  return {
    read: (chunk) => {
      try {
        read(chunk);
      } catch {
        text = undefined;
      }
      if (bytes > MOST_BYTES) text = undefined;
    },
    count: () => (text === undefined || isPacked || pages === 0 ? undefined : pages),
  };
}

/** The next stream's start and end; undefined if more text is needed. Throws if it has no end. */
function streamIn(text: string, endless: number): { from: number; to: number } | undefined {
  const begin = /stream\r?\n/.exec(text.slice(0, MOST_BETWEEN_CHARS));
  const from = begin ? begin.index + begin[0].length : 0;
  const to = begin ? text.indexOf('endstream', Math.max(from, endless)) : -1;
  if (to >= 0) return { from, to };
  if (text.length > (begin ? MOST_PACKED_CHARS : MOST_BETWEEN_CHARS)) throw new Error('a stream without an end');
  return undefined;
}
