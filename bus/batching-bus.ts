import { randomBytes } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { withDeadline } from '../lib/deadline.ts';
import { createAudience, type Audience } from './audience.ts';
import type { Bus, BusMessage } from './bus.ts';
import { decodePayload, encodeParcels, type Addressed, type Parcel } from './payloads.ts';

/** Carries payloads between processes. */
export interface BusTransport {
  /** The most bytes of one payload. */
  readonly maxBytes: number;
  /** Sends all parcels in one go; each process receives its own in this order. */
  send(parcels: readonly Parcel[]): Promise<void>;
  close(): Promise<void>;
}

export interface BusReceiver {
  /** This process's address: it receives what is sent there, and what is sent to all. */
  readonly address: string;
  onPayload: (payload: string) => void;
  onGap: () => void;
  onError: (error: Error) => void;
}

/** The most messages that wait while the transport is away; beyond it the oldest are dropped. */
const MAX_WAITING = 10_000;
const CLOSE_TIMEOUT_MS = 1000;

/**
 * A bus over a transport. Messages published while a batch is being sent form the next batch; the first is sent at the
 * end of the current turn of the event loop.
 */
export async function createBus(
  open: (receiver: BusReceiver) => Promise<BusTransport>,
  onError: (error: Error) => void,
): Promise<Bus> {
  let waiting: Addressed[] = [];
  let sending: Promise<void> | undefined;
  let closed = false;

  const sendAll = async () => {
    await setImmediate();
    while (waiting.length > 0) {
      const batch = waiting;
      waiting = [];
      const send = (transport: BusTransport) => transport.send(encodeParcels(batch, transport.maxBytes));
      await opened.then(send).catch(receiver.onError);
    }
    sending = undefined;
  };
  const enqueue = (addressed: Addressed) => {
    if (closed) return;
    if (waiting.length >= MAX_WAITING) waiting.shift();
    waiting.push(addressed);
    sending ??= sendAll();
  };

  const address = randomBytes(8).toString('hex');
  const audience = createAudience(address, enqueue);
  const { receiver, guard, ...listening } = createReceiver({ address, audience }, onError);
  const opened = open(receiver);
  const transport = await opened.catch((error: unknown) => {
    audience.close();
    throw error;
  });
  audience.catchUp();

  return {
    publish: audience.publish,
    ...listening,
    watch(subject, onMessage) {
      const { earlier, leave } = audience.watch(subject);
      const unsubscribe = listening.subscribe(subject, onMessage);
      let left = false;
      // Before anything that comes now, which is read in another turn of the event loop.
      queueMicrotask(() => {
        if (!left) guard(() => earlier.forEach((piece) => onMessage(piece)));
      });
      return () => {
        if (left) return;
        left = true;
        leave();
        unsubscribe();
      };
    },
    async close() {
      closed = true;
      audience.close();
      await withDeadline(sending ?? Promise.resolve(), CLOSE_TIMEOUT_MS, 'The bus could not send its rest').catch(
        receiver.onError,
      );
      await transport.close();
    },
  };
}

function createReceiver(
  { address, audience }: { address: string; audience: Audience },
  report: (error: Error) => void,
) {
  const subscribers = new Map<string, Set<(message: BusMessage) => void>>();
  const gapListeners = new Set<() => void>();
  const onError = (error: unknown) => report(error instanceof Error ? error : new Error(String(error)));

  const guard = (act: () => void) => {
    try {
      act();
    } catch (error) {
      onError(error);
    }
  };
  const receiver: BusReceiver = {
    address,
    onPayload(payload) {
      for (const message of decodePayload(payload)) {
        if (message.kind === 'watched' || message.kind === 'who_watches') {
          audience.hear(message);
          continue;
        }
        const heard = audience.receive(message);
        if (!heard) continue;
        for (const listener of subscribers.get(heard.subject) ?? []) guard(() => listener(heard));
      }
    },
    onGap: () => {
      audience.catchUp();
      gapListeners.forEach(guard);
    },
    onError,
  };
  return {
    receiver,
    guard,
    subscribe(subject: string, onMessage: (message: BusMessage) => void) {
      // New, so that the same listener may subscribe twice.
      const listener = (message: BusMessage) => onMessage(message);
      const about = subscribers.get(subject) ?? new Set();
      subscribers.set(subject, about.add(listener));
      return () => {
        about.delete(listener);
        if (about.size === 0 && subscribers.get(subject) === about) subscribers.delete(subject);
      };
    },
    onGap(listener: () => void) {
      const own = () => listener();
      gapListeners.add(own);
      return () => void gapListeners.delete(own);
    },
  };
}
