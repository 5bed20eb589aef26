import pg from 'pg';
import type { Client } from 'pg';

const FIRST_RETRY_MS = 100;
const LAST_RETRY_MS = 5000;

interface Subscription {
  channel: string;
  onPayload: (payload: string) => void;
  onReconnect: () => void;
}

export interface Listener {
  listen(channel: string, onPayload: (payload: string) => void, onReconnect: () => void): Promise<() => Promise<void>>;
  close(): Promise<void>;
}

/**
 * One connection for all LISTENs of a process, made when the first is asked for. When it breaks, it is made anew, with
 * pauses from 100 ms up to 5 s, and each subscriber is told that it may have missed something.
 */
export function createListener(newClient: () => Client, onError: (error: Error) => void): Listener {
  const subscriptions = new Set<Subscription>();
  let current: Client | undefined;
  let connecting: Promise<Client> | undefined;
  let retry: NodeJS.Timeout | undefined;
  let hadGap = false;
  let closed = false;

  const connect = (): Promise<Client> => {
    if (current !== undefined) return Promise.resolve(current);
    connecting ??= establish().finally(() => {
      connecting = undefined;
    });
    return connecting;
  };

  const establish = async (): Promise<Client> => {
    const client = newClient();
    client.on('error', onError);
    client.on('notification', ({ channel, payload = '' }) => deliver(channel, payload));
    client.once('end', () => lose(client));
    await client.connect();
    try {
      for (const channel of new Set([...subscriptions].map((each) => each.channel))) {
        await client.query(`listen ${pg.escapeIdentifier(channel)}`);
      }
      if (closed) throw new Error('Connection terminated: the listener was closed');
    } catch (error) {
      await client.end().catch(() => undefined);
      throw error;
    }
    current = client;
    if (hadGap) {
      hadGap = false;
      for (const each of subscriptions) guard(each.onReconnect);
    }
    return client;
  };

  const lose = (client: Client) => {
    if (current !== client) return;
    current = undefined;
    hadGap = true;
    if (!closed) reconnect(FIRST_RETRY_MS);
  };

  const reconnect = (pauseMs: number) => {
    clearTimeout(retry);
    // Half of the pause is left to chance, so that a fleet does not come back all at once.
    retry = setTimeout(
      () => {
        if (closed || subscriptions.size === 0) return;
        connect().catch((error: Error) => {
          onError(error);
          reconnect(Math.min(pauseMs * 2, LAST_RETRY_MS));
        });
      },
      pauseMs * (0.5 + Math.random() / 2),
    );
  };

  const deliver = (channel: string, payload: string) => {
    for (const each of subscriptions) if (each.channel === channel) guard(() => each.onPayload(payload));
  };

  const guard = (act: () => void) => {
    try {
      act();
    } catch (error) {
      onError(error instanceof Error ? error : new Error(String(error)));
    }
  };

  const stop = async (subscription: Subscription) => {
    subscriptions.delete(subscription);
    const { channel } = subscription;
    if ([...subscriptions].some((each) => each.channel === channel)) return;
    await current?.query(`unlisten ${pg.escapeIdentifier(channel)}`).catch(() => undefined);
  };

  return {
    async listen(channel, onPayload, onReconnect) {
      const subscription = { channel, onPayload, onReconnect };
      subscriptions.add(subscription);
      try {
        const client = await connect();
        // Harmless when it listens already; needed when this subscription came while the connection was being made.
        await client.query(`listen ${pg.escapeIdentifier(channel)}`);
      } catch (error) {
        subscriptions.delete(subscription);
        throw error;
      }
      return () => stop(subscription);
    },
    async close() {
      closed = true;
      clearTimeout(retry);
      await connecting?.catch(() => undefined);
      await current?.end();
    },
  };
}
