import pg from 'pg';
import type { Client } from 'pg';
import { backoffMs, jitteredMs } from '../core/backoff.ts';
import { ANNOUNCE_WORKER, WITHDRAW_WORKER } from './queue-pool.ts';

const FIRST_RETRY_MS = 100;
const LAST_RETRY_MS = 4000;

interface Subscription {
  channel: string;
  onPayload: (payload: string) => void;
  onReconnect: () => void;
}

/**
 * The single connection for all LISTENs of a process, opened on first use. When it breaks, it is reopened, with pauses from
 * 100 ms to 5 s, and subscribers are told that they may have missed something.
 */
export class PostgresListener {
  readonly #newClient: () => Client;
  readonly #onError: (error: Error) => void;
  readonly #subscriptions = new Set<Subscription>();
  #current: Client | undefined;
  #connecting: Promise<Client> | undefined;
  #retry: NodeJS.Timeout | undefined;
  #sending: Promise<unknown> = Promise.resolve();
  #hadGap = false;
  #closed = false;

  constructor(newClient: () => Client, onError: (error: Error) => void) {
    this.#newClient = newClient;
    this.#onError = onError;
  }

  /** Rejects if the LISTEN fails; the returned function unsubscribes. */
  async listen(
    channel: string,
    onPayload: (payload: string) => void,
    onReconnect: () => void,
  ): Promise<() => Promise<void>> {
    const subscription = { channel, onPayload, onReconnect };
    const client = await this.#connect();
    this.#subscriptions.add(subscription);
    try {
      await this.#send(client, `listen ${pg.escapeIdentifier(channel)}`);
    } catch (error) {
      this.#subscriptions.delete(subscription);
      throw error;
    }
    return () => this.#stop(subscription);
  }

  /** Rejects without a connection. BullMQ announces its worker again after a gap. */
  async announceWorker(queue: string): Promise<() => Promise<void>> {
    const client = await this.#connect();
    await this.#send(client, ANNOUNCE_WORKER, [queue]);
    return async () => {
      // If the connection has ended, so has the announcement.
      if (client === this.#current) await this.#send(client, WITHDRAW_WORKER, [queue]).catch(() => undefined);
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retry);
    await this.#connecting?.catch(() => undefined);
    await this.#current?.end();
  }

  async #connect(): Promise<Client> {
    if (this.#closed) throw new Error('Connection terminated: the listener is closed');
    if (this.#current !== undefined) return this.#current;
    this.#connecting ??= this.#establish().finally(() => {
      this.#connecting = undefined;
    });
    return this.#connecting;
  }

  async #establish(): Promise<Client> {
    const client = this.#newClient();
    client.on('error', this.#onError);
    client.on('notification', ({ channel, payload = '' }) => this.#deliver(channel, payload));
    client.once('end', () => this.#lose(client));
    try {
      await client.connect();
      for (const channel of new Set([...this.#subscriptions].map((each) => each.channel))) {
        await client.query(`listen ${pg.escapeIdentifier(channel)}`);
      }
    } catch (error) {
      // Not waited for: one that never was connected may say nothing of its end.
      client.end().catch(() => undefined);
      throw error;
    }
    this.#current = client;
    if (this.#hadGap) {
      this.#hadGap = false;
      for (const each of this.#subscriptions) this.#guard(each.onReconnect);
    }
    return client;
  }

  #lose(client: Client): void {
    if (this.#current !== client) return;
    this.#current = undefined;
    this.#hadGap = true;
    if (!this.#closed) this.#reconnect(1);
  }

  #reconnect(attempt: number): void {
    clearTimeout(this.#retry);
    const connect = () => {
      if (this.#closed || this.#subscriptions.size === 0) return;
      this.#connect().catch((error: Error) => {
        this.#onError(error);
        this.#reconnect(attempt + 1);
      });
    };
    // Half of the pause is random, so that a fleet does not reconnect all at once.
    const pauseMs = backoffMs({ firstMs: FIRST_RETRY_MS, mostMs: LAST_RETRY_MS, attempt });
    this.#retry = setTimeout(connect, jitteredMs(pauseMs, 0.25, Math.random()));
  }

  #deliver(channel: string, payload: string): void {
    for (const each of this.#subscriptions) {
      if (each.channel === channel) this.#guard(() => each.onPayload(payload));
    }
  }

  #guard(act: () => void): void {
    try {
      act();
    } catch (error) {
      this.#onError(error instanceof Error ? error : new Error(String(error)));
    }
  }

  async #stop(subscription: Subscription): Promise<void> {
    this.#subscriptions.delete(subscription);
    const { channel } = subscription;
    if ([...this.#subscriptions].some((each) => each.channel === channel)) return;
    const client = this.#current;
    if (client) await this.#send(client, `unlisten ${pg.escapeIdentifier(channel)}`).catch(() => undefined);
  }

  /** One statement at a time: several workers come and go at once, and a client of pg 9 will not queue statements. */
  #send(client: Client, text: string, values: readonly string[] = []): Promise<unknown> {
    const sent = this.#sending.then(() => client.query(text, [...values]));
    this.#sending = sent.catch(() => undefined);
    return sent;
  }
}
