import assert from 'node:assert/strict';
import { LIMITS } from '../../core/limits.ts';
import type { StreamModel } from '../../core/model.ts';
import { anthropicModel } from '../../llm/anthropic.ts';
import { openaiModel } from '../../llm/openai.ts';
import { startFakeAnthropic } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { startFakeOpenAI } from '../support/fake-openai.ts';
import { modelRequest } from '../support/model-request.ts';

const TEN_MINUTES_MS = 600_000;

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
