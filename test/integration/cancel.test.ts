import assert from 'node:assert/strict';
import { startInstallation, type Installation } from '../support/installation.ts';
import { DOMAIN_MODES } from '../support/modes.ts';
import { createAgent, readLog, startRun, toolOf, untilRun } from '../support/runs.ts';
import { waitUntil } from '../support/wait-until.ts';

// A lease is so long that only the bus can be what tells a worker.
const LEASE_MS = 60_000;

for (const mode of DOMAIN_MODES) {
  describe(`What was begun when a turn ends early, in ${mode} mode,`, () => {
    let drover: Installation;
    let agent: string;

    before(async () => {
      drover = await startInstallation(mode, { workers: ['one'], env: { DROVER_LEASE_MS: String(LEASE_MS) } });
      agent = await createAgent(drover);
    });
    after(() => drover.close());

    const turnOf = async (run: string, turn: string) =>
      (await drover.call('GET', `/v1/runs/${run}/turns/${turn}`)).json;

    it('lesson 8: a text that a model was writing in another process is kept, and the model is not listened to any more', async () => {
      const message = `wait 1000 hang say half of an answer ${mode}`;
      const { run, turn } = await startRun(drover, agent, message);
      await deltaOf(run);
      assert.equal((await drover.call('POST', `/v1/runs/${run}/cancel`, { body: {} })).status, 202);
      await waitUntil('its text is kept', async () => (await turnOf(run, turn)).output?.message !== '');
      const { status, output } = await turnOf(run, turn);
      assert.deepEqual([status, output.message], ['cancelled', `half of an answer ${mode}`]);
      const log = await readLog(drover, run);
      const { type, payload } = log.at(-1) ?? {};
      assert.deepEqual([type, payload?.['partial']], ['model.failed', `half of an answer ${mode}`]);
    });

    it('a tool call in another process is broken off, and what had its result keeps it', async () => {
      const label = `cancelled ${mode}`;
      const message = `call ${toolOf(agent, 'lookup')} {"label":"${label} quick"} | call ${toolOf(agent, 'charge')} {"label":"${label}","hang":true}`;
      const { run, turn } = await startRun(drover, agent, message);
      await waitUntil('the call is under way', () => drover.world.deliveries(label).length === 1);
      await drover.call('POST', `/v1/runs/${run}/cancel`, { body: {} });
      await waitUntil('the call is broken off', () => drover.world.deliveries(label)[0]?.broken === true);
      const callsOf = async () => (await turnOf(run, turn)).tool_calls.map(({ status }: { status: string }) => status);
      await waitUntil('the call is settled', async () => !(await callsOf()).includes('running'));
      assert.deepEqual(await callsOf(), ['succeeded', 'unknown']);
    });

    it('a text whose turn ran out of time is kept', async () => {
      const hasty = await createAgent(drover, { execution_config: { timeout_seconds: 1 } });
      const { run, turn } = await startRun(drover, hasty, `hang say slow words ${mode}`);
      assert.equal((await untilRun(drover, run)).status, 'failed');
      const { output, error } = await turnOf(run, turn);
      assert.deepEqual([output.message, error.code], [`slow words ${mode}`, 'turn_timeout']);
    });

    /** Waits until a piece of the answer has come through: the worker has it, then. */
    async function deltaOf(run: string): Promise<void> {
      const gone = new AbortController();
      const response = await fetch(`${drover.url()}/v1/runs/${run}/stream`, {
        headers: { authorization: `Bearer ${drover.key}` },
        signal: gone.signal,
      });
      assert.ok(response.body);
      const decoder = new TextDecoder();
      let shown = '';
      for await (const chunk of response.body) {
        shown += decoder.decode(chunk as Uint8Array, { stream: true });
        if (shown.includes('"done":false')) break;
      }
      gone.abort();
    }
  });
}
