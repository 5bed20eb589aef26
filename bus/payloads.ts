import type { BusMessage, LiveSignal } from './bus.ts';

/** Everything sent between processes. */
type Carried = BusMessage | LiveSignal;

/** Stands for every process, including those of earlier releases. */
export const ALL = '';

export interface Addressed {
  message: Carried;
  /** Addresses of processes, or `ALL` by itself. */
  to: readonly string[];
}

/** A payload and the address of its recipient, or `ALL`. */
export interface Parcel {
  to: string;
  payload: string;
}

/** Makes each payload of a process unique: Postgres sends equal notifications of one transaction only once. */
let counter = 0;

/** Packs messages into few parcels, so that each process receives its messages in their order. */
export function encodeParcels(batch: readonly Addressed[], maxBytes: number): Parcel[] {
  const parcels: Parcel[] = [];
  let together = new Map<string, Carried[]>();
  const flush = () => {
    for (const [to, messages] of together) {
      parcels.push(...encodePayloads(messages, maxBytes).map((payload) => ({ to, payload })));
    }
    together = new Map();
  };
  for (const { message, to } of batch) {
    // Keeps the order between messages to all and messages to single processes.
    if (together.size > 0 && together.has(ALL) !== to.includes(ALL)) flush();
    for (const address of to) {
      const messages = together.get(address) ?? [];
      together.set(address, messages);
      messages.push(message);
    }
  }
  flush();
  return parcels;
}

/**
 * Packs messages, in order, into as few payloads of `maxBytes` (UTF-8) as possible. A delta or piece of a call that
 * does not fit is split, never within a character; other messages that do not fit are dropped.
 */
function encodePayloads(messages: readonly Carried[], maxBytes: number): string[] {
  const room = maxBytes - ENVELOPE_BYTES;
  const payloads: string[] = [];
  let items: string[] = [];
  let bytes = 0;
  const flush = () => {
    if (items.length === 0) return;
    counter = (counter + 1) % 1_000_000_000;
    payloads.push(`[${counter},${items.join(',')}]`);
    items = [];
    bytes = 0;
  };
  for (const item of messages.flatMap((message) => encodeMessage(message, room))) {
    const itemBytes = Buffer.byteLength(item) + 1;
    if (bytes + itemBytes > room) flush();
    items.push(item);
    bytes += itemBytes;
  }
  flush();
  return payloads;
}

/** The messages of a payload. Unreadable ones, and kinds that this release does not know, are left out. */
export function decodePayload(payload: string): Carried[] {
  try {
    const parsed: unknown = JSON.parse(payload);
    return Array.isArray(parsed) ? parsed.filter(isOnWire).map(readMessage) : [];
  } catch {
    return [];
  }
}

/** Room for brackets, counter and comma. */
const ENVELOPE_BYTES = 16;

function encodeMessage(message: Carried, room: number): string[] {
  const { subject, ...rest } = message;
  const encoded = JSON.stringify({ runId: subject, ...rest } satisfies OnWire);
  if (Buffer.byteLength(encoded) < room) return [encoded];
  if (message.kind !== 'delta' && message.kind !== 'call_piece') return [];
  const text = message.kind === 'delta' ? message.delta.text : message.text;
  const middle = cutPoint(text);
  if (middle === 0 || middle === text.length) return [];
  return [0, middle].flatMap((start) => {
    const part = start === 0 ? text.slice(0, middle) : text.slice(middle);
    if (message.kind === 'call_piece') return encodeMessage({ ...message, text: part, at: message.at + start }, room);
    const place = message.at === undefined ? {} : { at: message.at + start };
    return encodeMessage({ ...message, delta: { ...message.delta, text: part }, ...place }, room);
  });
}

/** The middle, but never between the halves of a surrogate pair. */
function cutPoint(text: string): number {
  const middle = Math.floor(text.length / 2);
  const unit = text.charCodeAt(middle);
  const before = text.charCodeAt(middle - 1);
  return unit >= 0xdc00 && unit <= 0xdfff && before >= 0xd800 && before <= 0xdbff ? middle + 1 : middle;
}

const KINDS = new Set<unknown>([
  'advanced',
  'delta',
  'call_piece',
  'progress',
  'abort',
  'governed',
  'watched',
  'who_watches',
] satisfies Carried['kind'][]);

/** All releases call the subject `runId`. */
interface OnWire {
  runId: string;
  kind: Carried['kind'];
}

function isOnWire(value: unknown): value is OnWire {
  return typeof value === 'object' && value !== null && 'runId' in value && 'kind' in value && KINDS.has(value.kind);
}

function readMessage({ runId: subject, ...rest }: OnWire): Carried {
  return { subject, ...rest } as Carried;
}
