import assert from 'node:assert/strict';
import { LIMITS } from '../../core/limits.ts';
import type { StreamModel } from '../../core/model.ts';
import { anthropicModel } from '../../llm/anthropic.ts';
import { openaiModel } from '../../llm/openai.ts';
import { startFakeAnthropic } from '../support/fake-anthropic.ts';
import { delay, startFakeHttp, type FakeServer } from '../support/fake-http.ts';
import { startFakeOpenAI } from '../support/fake-openai.ts';
import { ask, modelRequest } from '../support/model-request.ts';

const TEN_MINUTES_MS = 600_000;

const eventsOf = (...events: object[]) => events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');

/** Answers before which a server shows that it is there by what holds no event. */
const LATE_ANSWERS: { name: string; open: typeof openaiModel; type: string; alive: string; end: string }[] = [
  {
    name: 'Claude, comments in its stream',
    open: anthropicModel,
    type: 'text/event-stream',
    alive: ': keep-alive\n\n',
    end: eventsOf(
      { type: 'message_start', message: { model: 'claude', content: [] } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: 'at last' } },
      { type: 'message_delta', delta: { stop_reason: 'end_turn' } },
      { type: 'message_stop' },
    ),
  },
  {
    name: 'GPT, comments in its stream',
    open: openaiModel,
    type: 'text/event-stream',
    alive: ': OPENROUTER PROCESSING\n\n',
    end: eventsOf({ choices: [{ index: 0, delta: { content: 'at last' }, finish_reason: 'stop' }] }),
  },
  {
    name: 'GPT, empty lines before an answer in one piece',
    open: openaiModel,
    type: 'application/json',
    alive: '\n',
    end: JSON.stringify({ choices: [{ index: 0, message: { content: 'at last' }, finish_reason: 'stop' }] }),
  },
];

describe('The time of a model call', () => {
  const servers: Record<string, () => Promise<[FakeServer, StreamModel]>> = {
    Claude: async () => {
      const server = await startFakeAnthropic(() => ({ content: [{ type: 'text', text: 'half' }], hang: true }));
      return [server, anthropicModel({ apiKey: 'sk-test', baseUrl: server.url })];
    },
    GPT: async () => {
      const server = await startFakeOpenAI(() => ({ text: 'half', hang: true }));
      return [server, openaiModel({ apiKey: 'sk-test', baseUrl: `${server.url}/v1` })];
    },
  };
  for (const [name, start] of Object.entries(servers)) {
    it(`is ten minutes of its own, within the half hour that its turn has: ${name}`, async () => {
      assert.equal(LIMITS.turnTimeoutSeconds, 1800);
      const [server, stream] = await start();
      const clock = holdTimers(TEN_MINUTES_MS);
      try {
        // Once its answer has begun, what is left of ten minutes passes at once.
        const io = { signal: new AbortController().signal, onDelta: clock.pass };
        await assert.rejects(stream(modelRequest({ model: 'gpt-4.1' }), io), { kind: 'timeout' });
      } finally {
        clock.release();
        await server.close();
      }
    });
  }

  for (const { name, open, type, alive, end } of LATE_ANSWERS) {
    it(`is not up while the server sends anything, if only to show that it is there: ${name}`, async () => {
      const server = await startFakeHttp(async (_request, response) => {
        response.writeHead(200, { 'content-type': type });
        for (let sent = 0; sent < 6; sent += 1) {
          response.write(alive);
          await delay(response, 100);
        }
        response.end(end);
      });
      try {
        const stream = open({ apiKey: 'sk-test', baseUrl: server.url, idleMs: 400 });
        const { response } = await ask(stream, modelRequest());
        assert.deepEqual(response.content, [{ type: 'text', text: 'at last' }]);
      } finally {
        await server.close();
      }
    });
  }
});

/** Timers of exactly this length run when the test lets their time pass, and not before; all others as they always do. */
function holdTimers(lengthMs: number): { pass: () => void; release: () => void } {
  const { setTimeout: set, clearTimeout: clear } = globalThis;
  const held = new Map<unknown, () => void>();
  const hold = (run: (...given: unknown[]) => void, ms?: number, ...given: unknown[]) => {
    const timer = set(run, ms, ...given);
    if (ms === lengthMs) held.set(timer, () => run(...given));
    return timer;
  };
  globalThis.setTimeout = hold as unknown as typeof set;
  globalThis.clearTimeout = (timer) => {
    held.delete(timer);
    clear(timer);
  };
  return {
    pass: () => {
      for (const [timer, run] of held) {
        globalThis.clearTimeout(timer as NodeJS.Timeout);
        run();
      }
    },
    release: () => Object.assign(globalThis, { setTimeout: set, clearTimeout: clear }),
  };
}
