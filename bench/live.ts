/** What users see live: delays of answer pieces, WebSockets of sessions, and response times of sessions. */
import { setTimeout as delay } from 'node:timers/promises';
import type { WebSocket } from 'ws';
import { ROUTES } from '../api/routes.ts';
import { serve } from '../api/serve.ts';
import { NO_TOKENS, type ModelResponse, type StreamModel } from '../core/model.ts';
import { openDrover } from './drover.ts';
import type { Figure } from './figures.ts';
import { measurePlans } from './plans.ts';
import type { Services } from './services.ts';
import { chat, HEADERS, watch } from './session-client.ts';
import { quantile } from './work.ts';

const STREAMS = 500;
const CHUNKS = 120;
const CHUNK_MS = 250;
const SOCKETS = 1000;
const SESSIONS = 200;
const CHATS_PER_SECOND = 5;
const CHATS = 100;
const IDLE_MS = 5000;

const figure = (what: string, value: number, unit: string): Figure => ({ part: 'live', what, value, unit });

/** API, workers and clients share this process, so the figures include them all. */
export async function measureLive(services: Services): Promise<Figure[]> {
  return [...(await measurePieces(services)), ...(await measureSessions(services)), ...(await measurePlans(services))];
}

const said = (text: string): ModelResponse => ({
  provider: 'offline',
  model: 'stub',
  usage: { ...NO_TOKENS, input: 10, output: 10 },
  content: [{ type: 'text', text }],
  stopReason: 'end_turn',
});

/** Sends the current time, repeatedly. */
const talkative: StreamModel = async (_request, { onDelta, signal }) => {
  await delay(Math.random() * CHUNK_MS, undefined, { signal });
  let text = '';
  for (let chunk = 0; chunk < CHUNKS; chunk++) {
    await delay(CHUNK_MS, undefined, { signal });
    const piece = ` ${performance.now().toFixed(1)}`;
    text += piece;
    onDelta({ type: 'text', text: piece });
  }
  return said(text);
};

async function measurePieces(services: Services): Promise<Figure[]> {
  const drover = await openDrover('pure', services, { stream: talkative });
  const api = await serve(drover.context, ROUTES, { host: '127.0.0.1', port: 0 });
  try {
    await drover.serve(STREAMS + 50);
    const runs = await Promise.all(Array.from({ length: STREAMS }, () => drover.start()));
    const streams = await Promise.all(runs.map((run) => readStream(`${api.url}/v1/runs/${run}/stream`)));
    const delays = whileAllFlow(streams);
    const what = `of ${STREAMS} streams, ${1000 / CHUNK_MS} pieces a second: from the provider to the client, `;
    return [
      figure(`${what}p50`, quantile(delays, 0.5), 'ms'),
      { ...figure(`${what}p95`, quantile(delays, 0.95), 'ms'), goal: '< 25 ms' },
    ];
  } finally {
    await api.close(1000);
    await drover.close();
  }
}

interface Arrival {
  saidMs: number;
  arrivedMs: number;
}

async function readStream(url: string): Promise<Arrival[]> {
  const { body } = await fetch(url, { headers: HEADERS });
  const arrivals: Arrival[] = [];
  for await (const bytes of body ?? []) {
    const arrivedMs = performance.now();
    for (const [, content = ''] of Buffer.from(bytes)
      .toString()
      .matchAll(/"content":"([^"]*)","done":false/g)) {
      for (const time of content.trim().split(' ')) arrivals.push({ saidMs: Number(time), arrivedMs });
    }
  }
  return arrivals;
}

/** Delays of pieces sent after the last stream began and before the first one ended. */
function whileAllFlow(streams: readonly Arrival[][]): number[] {
  const begun = Math.max(...streams.map(([first]) => first?.arrivedMs ?? Number.NaN));
  const ended = Math.min(...streams.map((arrivals) => arrivals.at(-1)?.saidMs ?? Number.NaN));
  const pieces = streams.flat().filter(({ saidMs }) => saidMs > begun && saidMs < ended);
  return pieces.map(({ saidMs, arrivedMs }) => arrivedMs - saidMs);
}

async function measureSessions(services: Services): Promise<Figure[]> {
  const drover = await openDrover('pure', services, { stream: async () => said('yes') });
  const api = await serve(drover.context, ROUTES, { host: '127.0.0.1', port: 0 });
  const sockets: WebSocket[] = [];
  try {
    await drover.serve(50);
    const say = (body: Record<string, unknown>) => chat(api.url, { message: 'Hello', ...body });
    const created: number[] = [];
    const sessions: string[] = [];
    for (let n = 0; n < SESSIONS; n++) {
      const startedMs = performance.now();
      sessions.push(await say({ agent_id: drover.agentId, user_id: `user ${n}` }));
      created.push(performance.now() - startedMs);
    }
    const answered = new Map<string, (ms: number) => void>();
    const watched = Array.from({ length: SOCKETS }, (_, n) => sessions[n % SESSIONS] ?? '');
    const onMessage = (session: string) => (type: string) => {
      if (type === 'completed') answered.get(session)?.(performance.now());
    };
    sockets.push(...(await Promise.all(watched.map((session) => watch(api.url, session, onMessage(session))))));
    const idle = await measureIdle();
    const times = await talk({ sessions, say, answered });
    return [
      { ...figure('a session begins, p95', quantile(created, 0.95), 'ms'), goal: '< 50 ms' },
      figure(`${SOCKETS} idle WebSockets, CPU`, idle.cpuShare * 100, '%'),
      figure(`${SOCKETS} idle WebSockets, memory of the process`, idle.memoryMb, 'MB'),
      figure(
        `${CHATS_PER_SECOND * 60} messages a minute beside them, from message to answer, p95`,
        quantile(times, 0.95),
        'ms',
      ),
      { ...figure('messages without an answer', CHATS - times.length, 'of 100'), goal: '0' },
    ];
  } finally {
    for (const socket of sockets) socket.terminate();
    await api.close(1000);
    await drover.close();
  }
}

async function measureIdle(): Promise<{ cpuShare: number; memoryMb: number }> {
  await delay(1000);
  const before = process.cpuUsage();
  await delay(IDLE_MS);
  const { user, system } = process.cpuUsage(before);
  return { cpuShare: (user + system) / 1000 / IDLE_MS, memoryMb: process.memoryUsage().rss / 1024 / 1024 };
}

interface Talk {
  sessions: readonly string[];
  say: (body: Record<string, unknown>) => Promise<unknown>;
  answered: Map<string, (ms: number) => void>;
}

/** Times from a message to its answer at a WebSocket; leaves out messages without an answer within ten seconds. */
async function talk({ sessions, say, answered }: Talk): Promise<number[]> {
  const times: number[] = [];
  const under: Promise<unknown>[] = [];
  for (let n = 0; n < CHATS; n++) {
    const session = sessions[n % SESSIONS] ?? '';
    const startedMs = performance.now();
    const arrives = new Promise<number>((resolve) => answered.set(session, resolve));
    const timely = arrives.then((ms) => times.push(ms - startedMs));
    under.push(say({ session_id: session, user_id: `user ${n % SESSIONS}` }), Promise.race([timely, delay(10_000)]));
    await delay(1000 / CHATS_PER_SECOND);
  }
  await Promise.all(under);
  return times;
}
