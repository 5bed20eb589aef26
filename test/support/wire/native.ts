/** Clients of Drover's own streams. */
import { readSse } from '../../../scripts/demo/read-sse.ts';
import { cuttingFetch, type WireClient } from './wire-client.ts';

/** Of `GET /v1/runs/{run}/stream`: it keeps events of the log, and pieces of an answer until the log has it. */
export function sseClient(): WireClient {
  const events: string[] = [];
  let lastId = '';
  return {
    form: 'server-sent events',
    async follow({ url, key, run, cut, server }) {
      const headers = { authorization: `Bearer ${key}`, ...(lastId !== '' && { 'last-event-id': lastId }) };
      const response = await cuttingFetch(cut, server?.fetch)(`${url}/v1/runs/${run}/stream`, { headers });
      if (response.status === 204 || !response.body) return;
      try {
        for await (const { event, data, lastEventId = '' } of readSse(response.body)) {
          if (lastEventId === '' || lastEventId === lastId) continue;
          lastId = lastEventId;
          events.push(`${event} ${data}`);
        }
      } catch (error) {
        if (!cut) throw error;
      }
    },
    state: () => events,
  };
}

/** Of the WebSocket of a session. */
export function socketClient(): WireClient {
  const frames: string[] = [];
  let after = 0;
  return {
    form: 'the WebSocket of a session',
    async follow({ cut, server }) {
      let left = cut?.bytes ?? Infinity;
      for await (const text of server?.socket(after) ?? []) {
        left -= Buffer.byteLength(text);
        if (left < 0) return;
        const { seq } = JSON.parse(text) as { seq?: number };
        if (seq === undefined) continue;
        frames.push(text);
        after = seq;
      }
    },
    state: () => frames,
  };
}
