/** Server-sent events: many streams of one run. */
import { request as httpRequest } from 'node:http';
import { ROUTES } from '../api/routes.ts';
import { serve } from '../api/serve.ts';
import { BENCH_KEY, openDrover, type BenchDrover } from './drover.ts';
import type { Figure } from './figures.ts';
import type { Services } from './services.ts';

const STREAMS = 200;

/** Opens the streams while the run is driven, and waits for the last event of each. */
export async function measureStreams(services: Services): Promise<Figure[]> {
  const drover = await openDrover('pure', services);
  const api = await serve(drover.context, ROUTES, { host: '127.0.0.1', port: 0 });
  try {
    await drover.serve(1);
    const alone = await fanOut(drover, api.url, 1);
    const together = await fanOut(drover, api.url, STREAMS);
    const figure = (what: string, value: number, unit: string): Figure => ({ part: 'streams', what, value, unit });
    return [
      {
        ...figure(`last of ${STREAMS} streams has its last event after`, together.ms, 'ms'),
        ratio: { value: together.ms / alone.ms, to: 'one stream' },
      },
      figure('events delivered', together.events / (together.ms / 1000), 'events/s'),
    ];
  } finally {
    await api.close(1000);
    await drover.close();
  }
}

/** Time from the run's creation, right after which the streams open, to the last one's end; and the number of events in all. */
async function fanOut(drover: BenchDrover, url: string, count: number): Promise<{ ms: number; events: number }> {
  const startedMs = performance.now();
  const run = await drover.start();
  const path = `${url}/v1/agents/${drover.agentId}/runs/${run}/stream`;
  const events = await Promise.all(Array.from({ length: count }, () => untilDone(path)));
  return { ms: performance.now() - startedMs, events: events.reduce((sum, each) => sum + each, 0) };
}

/** Reads a stream to its end; returns its number of events. */
function untilDone(url: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      url,
      { headers: { authorization: `Bearer ${BENCH_KEY}` }, timeout: 60_000 },
      (stream) => {
        if (stream.statusCode !== 200) reject(new Error(`${url} answered ${stream.statusCode}`));
        let events = 0;
        stream.setEncoding('utf8');
        stream.on('data', (text: string) => {
          events += text.split('\nevent: ').length - 1;
        });
        stream.on('end', () => resolve(events));
        stream.on('error', reject);
      },
    );
    request.on('error', reject);
    request.end();
  });
}
