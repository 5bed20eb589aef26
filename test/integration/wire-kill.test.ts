import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { startInstallation, type Installation } from '../support/installation.ts';
import { MODES } from '../support/modes.ts';
import { sized } from '../support/size.ts';
import { waitUntil } from '../support/wait-until.ts';
import { acpClient } from '../support/wire/acp.ts';
import { agUiClient } from '../support/wire/ag-ui.ts';
import { aiClient } from '../support/wire/ai-chat.ts';
import { sseClient } from '../support/wire/native.ts';
import type { FollowedThread, WireClient } from '../support/wire/wire-client.ts';

const CLIENTS = [aiClient, agUiClient, acpClient, sseClient];
/** A client of each form watches each of them, and is cut off while the worker dies. */
const RUNS = sized({ usual: 13, nightly: 50 });
const LEASE_MS = 1500;

/** One of those with processes of their own: what is tested is the same in both. */
const [mode] = MODES.filter((each) => each !== 'embedded').slice(-1);

if (mode !== undefined) {
  describe(`streams that are cut while a worker is killed (${mode})`, function () {
    let installation: Installation;
    before(async () => {
      // One worker has all of them in their answers at once.
      const env = { DROVER_LEASE_MS: String(LEASE_MS), DROVER_CONCURRENCY: `turns=${RUNS + 17}` };
      installation = await startInstallation(mode, { env, workers: ['one'] });
      await installation.start('api-2');
    });
    after(() => installation.close());

    it('end up with what an uncut client has, on the other API, driven by another worker', async () => {
      const { call, key, model } = installation;
      const agents = await Promise.all([0, 2].map((level) => newAgent(level)));
      const begun = Array.from({ length: RUNS }, async (_, n) => {
        const asks = n % 3 === 0;
        const message = `call calculator {"expression":"${n}+1"} | hang say ${`run ${n}, `.repeat(20)} | say never`;
        const agent = agents[asks ? 0 : 1] ?? '';
        const { json } = await call('POST', `/v1/agents/${agent}/runs`, { body: { input: { message } } });
        if (asks) await approve(json.run_id);
        await waitUntil(`run ${n} is in its answer`, () => model.asked(message).some(({ step }) => step === 1));
        return { key, agent, thread: json.thread_id, run: json.run_id };
      });
      const runs = await Promise.all(begun);
      const watchers = runs.flatMap((of) => CLIENTS.map((open) => ({ of, open, client: open() })));
      // Some are cut while they read, the others when the stream has fallen silent.
      const url = installation.url('api');
      const read = watchers.map(({ of, client }, n) => client.follow({ ...of, url, cut: { bytes: 200 + 97 * n } }));
      await installation.end('one', 'SIGKILL');
      await installation.start('two');
      const other = installation.url('api-2');
      await Promise.all(runs.map((of) => ended(of)));
      await Promise.all(read);
      // Run by run: a busy machine answers all of them at once that its database is busy.
      for (const run of runs) {
        const theirs = watchers.filter(({ of }) => of === run);
        await Promise.all(
          theirs.map(async ({ of, open, client }) => {
            await client.follow({ ...of, url: other });
            assert.deepEqual(client.state(), await wholeOf(of, open, other), client.form);
          }),
        );
      }
      assert.ok(watchers.length >= 50);
    });

    async function wholeOf(of: Omit<FollowedThread, 'url'>, open: () => WireClient, url: string): Promise<unknown> {
      const whole = open();
      await whole.follow({ ...of, url });
      return whole.state();
    }

    async function newAgent(autonomy_level: number): Promise<string> {
      const body = { name: randomUUID(), tools: ['calculator'], autonomy_level };
      return (await installation.call('POST', '/v1/agents', { body })).json.id;
    }

    async function approve(run: string): Promise<void> {
      const waits = async () => (await installation.call('GET', `/v1/runs/${run}`)).json.waits ?? [];
      await waitUntil('it asks', async () => (await waits()).length > 0);
      const body = { decision: { decision: 'approve' } };
      await installation.call('POST', `/v1/runs/${run}/resume`, { body, headers: { prefer: 'respond-async' } });
    }

    async function ended({ run }: { run: string }): Promise<void> {
      const status = async () => (await installation.call('GET', `/v1/runs/${run}`)).json.status;
      await waitUntil('it ends', async () => (await status()) === 'completed');
    }
  });
}
