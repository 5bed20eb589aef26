/** A client of sessions, like a web page. */
import { WebSocket } from 'ws';
import { BENCH_KEY } from './drover.ts';

export const HEADERS = { authorization: `Bearer ${BENCH_KEY}`, 'content-type': 'application/json' };

/** Sends a message; returns its session's id. */
export async function chat(url: string, body: Record<string, unknown>): Promise<string> {
  const options = { method: 'POST', headers: HEADERS, body: JSON.stringify(body) };
  const response = await fetch(`${url}/agent/chat`, options);
  if (response.status !== 202) throw new Error(`/agent/chat answered ${response.status}: ${await response.text()}`);
  return ((await response.json()) as { session_id: string }).session_id;
}

/** Opens a session's WebSocket; `onMessage` gets each message's type. */
export async function watch(url: string, session: string, onMessage: (type: string) => void): Promise<WebSocket> {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/agent/stream/${session}`, { headers: HEADERS });
  socket.on('message', (data: Buffer) => onMessage((JSON.parse(data.toString()) as { type: string }).type));
  await new Promise((resolve, reject) => {
    socket.once('open', resolve);
    socket.once('error', reject);
  });
  return socket;
}
