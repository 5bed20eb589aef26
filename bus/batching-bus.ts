import { withDeadline } from '../lib/deadline.ts';
import type { Bus, BusMessage } from './bus.ts';
import { decodePayload, encodePayloads } from './payloads.ts';

/** What carries payloads between processes. */
export interface BusTransport {
  /** Of one payload. */
  readonly maxBytes: number;
  /** Sends them all in one go, in order. */
  send(payloads: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

export interface BusReceiver {
  onPayload: (payload: string) => void;
  onGap: () => void;
  onError: (error: Error) => void;
}

/** Messages that wait while the transport is away; beyond it they are dropped, oldest first. */
const MAX_WAITING = 10_000;
const CLOSE_TIMEOUT_MS = 1000;

/**
 * A bus over a transport. What is published while a batch is on its way goes along in the next one; the first goes at
 * the end of the current turn of the event loop.
 */
export async function createBus(
  open: (receiver: BusReceiver) => Promise<BusTransport>,
  onError: (error: Error) => void,
): Promise<Bus> {
  const { receiver, ...listening } = createReceiver(onError);
  const transport = await open(receiver);
  let waiting: BusMessage[] = [];
  let sending: Promise<void> | undefined;
  let closed = false;

  const sendAll = async () => {
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    while (waiting.length > 0) {
      const batch = waiting;
      waiting = [];
      await transport.send(encodePayloads(batch, transport.maxBytes)).catch(receiver.onError);
    }
    sending = undefined;
  };

  return {
    publish(message) {
      if (closed) return;
      if (waiting.length >= MAX_WAITING) waiting.shift();
      waiting.push(message);
      sending ??= sendAll();
    },
    ...listening,
    async close() {
      closed = true;
      await withDeadline(sending ?? Promise.resolve(), CLOSE_TIMEOUT_MS, 'The bus could not send its rest').catch(
        receiver.onError,
      );
      await transport.close();
    },
  };
}

function createReceiver(report: (error: Error) => void) {
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
    onPayload(payload) {
      for (const message of decodePayload(payload)) {
        for (const listener of subscribers.get(message.runId) ?? []) guard(() => listener(message));
      }
    },
    onGap: () => gapListeners.forEach(guard),
    onError,
  };
  return {
    receiver,
    subscribe(runId: string, onMessage: (message: BusMessage) => void) {
      // Of its own, so that the same function may subscribe twice.
      const listener = (message: BusMessage) => onMessage(message);
      const ofRun = subscribers.get(runId) ?? new Set();
      subscribers.set(runId, ofRun.add(listener));
      return () => {
        ofRun.delete(listener);
        if (ofRun.size === 0 && subscribers.get(runId) === ofRun) subscribers.delete(runId);
      };
    },
    onGap(listener: () => void) {
      const own = () => listener();
      gapListeners.add(own);
      return () => void gapListeners.delete(own);
    },
  };
}
