import { connect } from 'node:net';

/** All that a server answers to a request in so many words, until it closes the connection. */
export function exchange(url: string, lines: readonly string[], body = ''): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    let text = '';
    const socket = connect(Number(port), hostname, () => socket.write(`${lines.join('\r\n')}\r\n\r\n${body}`));
    socket.on('data', (part) => (text += String(part)));
    socket.on('error', reject);
    socket.on('close', () => resolve(text));
  });
}
