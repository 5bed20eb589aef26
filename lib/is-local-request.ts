import type { IncomingMessage } from 'node:http';

const FORWARDED = ['forwarded', 'x-forwarded-for', 'x-real-ip', 'via'];

/** Whether a request comes from this machine and not through a proxy. */
export function isLocalRequest({ headers, socket }: Pick<IncomingMessage, 'headers' | 'socket'>): boolean {
  const isForwarded = FORWARDED.some((name) => headers[name] !== undefined && headers[name] !== '');
  return !isForwarded && /^(127\.|::1$|::ffff:127\.)/.test(socket.remoteAddress ?? '');
}
