import { isIP } from 'node:net';
import type { Socket } from 'node:net';
import { buildConnector } from 'undici';
import type { AddressRules } from './address-rules.ts';
import { raceSignal } from '../lib/deadline.ts';
import type { Deadline } from '../lib/deadline.ts';
import { holdBackEnd } from '../lib/hold-back-end.ts';
import { skipInterimAnswers } from '../lib/skip-interim-answers.ts';
import { EgressError } from './egress-error.ts';

/** The rules and time limit for connections. */
export interface Route {
  rules: AddressRules;
  lookup: (hostname: string) => Promise<{ address: string }[]>;
  deadline: Deadline;
  maySend?: (() => boolean) | undefined;
}

const CONNECT_MS = 10_000;
const MAX_ADDRESSES = 4;

/** Resolves the name, checks the addresses, and connects to one of those, so that the name cannot change in between. */
export function pinnedConnector(route: Route, state: { connected: boolean }): buildConnector.connector {
  return (options, callback) => {
    openSocket(route, options).then(
      (socket) => {
        const late = tooLate(route);
        if (late) {
          socket.destroy();
          callback(late, null);
          return;
        }
        state.connected = true;
        callback(null, holdBackEnd(skipInterimAnswers(socket)));
      },
      (error: unknown) => callback(error instanceof Error ? error : new Error(String(error)), null),
    );
  };
}

/** After a standstill the deadline waits for what was sent in time, and nothing more is sent. */
function tooLate({ deadline, maySend }: Route): EgressError | undefined {
  if (deadline.remainingMs() > 0 && maySend?.() !== false) return undefined;
  return new EgressError('too-late', 'nothing was sent: it was too late by then', { sent: false });
}

async function openSocket(route: Route, options: buildConnector.Options): Promise<Socket> {
  const hostname = options.hostname.replace(/^\[|\]$/g, '');
  const port = Number(options.port || (options.protocol === 'https:' ? 443 : 80));
  const addresses = isIP(hostname) ? [hostname] : await addressesOf(route, hostname);
  const allowed = addresses.filter((address) => route.rules.allows({ hostname, port, address }));
  if (allowed.length === 0) throw refusal(hostname);
  const connect = buildConnector({ timeout: Math.min(CONNECT_MS, Math.ceil(route.deadline.remainingMs()) + 1) });
  let last: unknown;
  for (const address of allowed.slice(0, MAX_ADDRESSES)) {
    route.deadline.signal.throwIfAborted();
    try {
      return await connectTo(connect, { ...options, hostname: address });
    } catch (error) {
      last = error;
    }
  }
  throw last;
}

/** `options.host` keeps the name, which the certificate is checked against. */
function connectTo(connect: buildConnector.connector, options: buildConnector.Options): Promise<Socket> {
  return new Promise((resolve, reject) => {
    connect(options, (error, socket) => (socket ? resolve(socket) : reject(error ?? new Error('no connection'))));
  });
}

async function addressesOf(route: Route, hostname: string): Promise<string[]> {
  const found = await raceSignal(route.lookup(hostname), route.deadline.signal);
  return found.map((entry) => entry.address);
}

function refusal(hostname: string): EgressError {
  const entry = isIP(hostname) === 6 ? `[${hostname}]` : hostname;
  return new EgressError(
    'refused',
    `${entry} is not a public address, so it is refused; an operator can allow it with DROVER_EGRESS_ALLOW=${entry}`,
    { sent: false },
  );
}
