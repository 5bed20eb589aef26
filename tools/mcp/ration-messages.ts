import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { JSONRPCMessage, MessageExtraInfo } from '@modelcontextprotocol/sdk/types.js';
import { LIMITS } from '../../core/limits.ts';
import { createOneByOne } from '../../lib/one-by-one.ts';

const MINUTE_MS = 60_000;

/**
 * Closes a connection whose server sends more of its own accord than it may, and answers its requests one by one: over HTTP
 * each answer is a request, and a thousand of them at once keep the process from everything else for seconds. Must be called
 * before the transport is connected. The function that it returns tells whether the connection was closed for that.
 */
export function rationMessages(transport: Transport): () => boolean {
  const start = transport.start.bind(transport);
  const send = transport.send.bind(transport);
  const answers = createOneByOne();
  const ration = createRation();
  let exceeded = false;
  const admit = (isTooMuch: boolean): boolean => {
    if (isTooMuch && !exceeded) {
      exceeded = true;
      // What else has arrived is not parsed any more.
      delete transport.onmessage;
      void transport.close();
    }
    return !exceeded;
  };
  transport.start = () => {
    const { onmessage: take, onerror: report } = transport;
    const onmessage = (message: JSONRPCMessage, extra?: MessageExtraInfo) => {
      if (admit(ration.isTooMuch(message))) take?.(message, extra);
    };
    // Also told of each message that cannot be read.
    const onerror = (error: Error) => {
      if (admit(ration.isTooMuch())) report?.(error);
    };
    Object.assign(transport, { onmessage, onerror });
    return start();
  };
  transport.send = (message, options) => {
    if (!('method' in message)) return answers.run('', async () => (exceeded ? undefined : send(message, options)));
    if ('id' in message) ration.expectAnswer();
    return send(message, options);
  };
  return () => exceeded;
}

/** Counts what a server sends, other than the answers that are expected of it. */
function createRation() {
  const requests = createCount(LIMITS.mcpServerRequests);
  const others = createCount(LIMITS.mcpServerNotifications);
  let expected = 0;
  return {
    expectAnswer: () => {
      expected += 1;
    },
    isTooMuch(message?: JSONRPCMessage): boolean {
      if (!message || 'method' in message) return message && 'id' in message ? requests() : others();
      if (expected === 0) return others();
      expected -= 1;
      return false;
    },
  };
}

/** Whether there have been more than `most` in this minute, with this one. */
function createCount(most: number): () => boolean {
  let startedMs = Number.NEGATIVE_INFINITY;
  let count = 0;
  return () => {
    const nowMs = performance.now();
    if (nowMs - startedMs >= MINUTE_MS) {
      startedMs = nowMs;
      count = 0;
    }
    count += 1;
    return count > most;
  };
}
