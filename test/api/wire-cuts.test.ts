import assert from 'node:assert/strict';
import fc from 'fast-check';
import { ROUTES } from '../../api/routes.ts';
import { serve, type RunningApi } from '../../api/serve.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';
import { agUiClient } from '../support/wire/ag-ui.ts';
import { aiClient } from '../support/wire/ai-chat.ts';
import type { Cut, WireClient } from '../support/wire/wire-client.ts';

/** One line for each wire form: its own library's client. */
const CLIENTS: Record<string, () => WireClient> = {
  'the AI SDK': aiClient,
  'AG-UI': agUiClient,
};

interface Recorded {
  agent: string;
  thread: string;
}

describe('a stream that is cut and resumed on another server', function () {
  this.timeout(120_000);
  let api: ScriptedService;
  let other: RunningApi;
  let recorded: Recorded[];

  before(async () => {
    api = await startScriptedService();
    other = await serve(api.context, ROUTES, { host: '127.0.0.1', port: 0 });
    const two = 'calculator {"expression":"6*7"} & calculator {"expression":"1/"}';
    recorded = await Promise.all([
      record(`call ${two} | call calculator {"expression":"2"} | say It is 42.`, 2),
      record(`call ${two} | say one denied`, 0, { decisions: ['approve', 'deny'] }),
      record(`call ${two} & calculator {"expression":"3"} | say planned`, 0, { decisions: ['approve'] }),
      record(`call ${two}`, 0, { decisions: [] }),
      record('call confirm {"a":1} & ask_user {"question":"How much?"} & calculator {"expression":"6*7"}', 2, {
        decisions: [],
      }),
      record('call calculator {"expression":"8"} | hang say late', 2, { timeout_seconds: 1 }),
    ]);
  });
  after(async () => {
    await other.close(1000);
    await api.close();
  });

  /** A turn that is over, or waits for people once these decisions were made. */
  async function record(
    message: string,
    autonomy_level: number,
    { decisions, ...execution_config }: { decisions?: string[]; timeout_seconds?: number } = {},
  ): Promise<Recorded> {
    const tools = ['ask_user', 'confirm', 'calculator'];
    const body = { name: message.slice(0, 60), tools, autonomy_level, execution_config };
    const { json: agent } = await api.call('POST', '/v1/agents', { body });
    const { json } = await api.call('POST', `/v1/agents/${agent.id}/runs`, { body: { input: { message } } });
    const read = async () => (await api.call('GET', `/v1/runs/${json.run_id}`)).json;
    const isOver = async () => ['completed', 'failed'].includes((await read()).status);
    for (const decision of decisions ?? []) {
      const waits = async () => (await read()).waits ?? [];
      await waitUntil(`${message} asks`, async () => (await waits()).length > 0);
      const [{ wait_id }] = await waits();
      await api.call('POST', `/v1/runs/${json.run_id}/resume`, {
        body: { wait_id, decision: { decision } },
        headers: { prefer: 'respond-async' },
      });
    }
    const isAsking = async () => ((await read()).waits ?? []).length > 1;
    await waitUntil(
      `${message} is over`,
      async () => (await isOver()) || (decisions?.length === 0 && (await isAsking())),
    );
    return { agent: agent.id, thread: json.thread_id };
  }

  const follow = (client: WireClient, of: Recorded, at: { url: string; cut?: Cut; after?: number }) =>
    client.follow({ key: api.key, ...of, ...at });

  for (const [name, open] of Object.entries(CLIENTS)) {
    it(`shows a client of ${name} what an uncut one shows, wherever it was cut`, async () => {
      const wholes: { of: Recorded; bytes: number; state: unknown }[] = [];
      for (const of of recorded) {
        const client = open();
        const seen = await counted((url) => follow(client, of, { url, after: 0 }));
        wholes.push({ of, bytes: seen, state: client.state() });
        assert.ok(seen > 300, `only ${seen} bytes`);
      }
      const place = fc.record({
        log: fc.nat(wholes.length - 1),
        share: fc.double({ min: 0, max: 1, noNaN: true }),
        after: fc.nat(35),
      });
      const property = fc.asyncProperty(place, place, async ({ log, share }, again) => {
        const whole = wholes[log];
        assert.ok(whole);
        const client = open();
        const cutAt = (part: number) => ({ bytes: Math.floor(part * whole.bytes) });
        await follow(client, whole.of, { url: api.url, cut: cutAt(share), after: 0 });
        await follow(client, whole.of, { url: other.url, cut: cutAt(again.share), after: again.after });
        await follow(client, whole.of, { url: other.url });
        assert.deepEqual(client.state(), whole.state);
      });
      await fc.assert(property, { numRuns: 15 });
    });
  }

  /** How many bytes of answers a client got. */
  async function counted(act: (url: string) => Promise<void>): Promise<number> {
    const { fetch: original } = globalThis;
    let bytes = 0;
    globalThis.fetch = async (...request) => {
      const response = await original(...request);
      bytes += (await response.clone().arrayBuffer()).byteLength;
      return response;
    };
    await act(api.url).finally(() => {
      globalThis.fetch = original;
    });
    return bytes;
  }
});
